"""Colours can be told apart, and hostile text stays text."""

import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest

from ragbench import style

# Machado, Oliveira and Fernandes (2009), severity 1.0, in linear RGB.
SEEN_AS = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(colour):
    srgb = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750]]
    to_xyz = np.array([*to_xyz, [0.0193339, 0.1191920, 0.9503041]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one, other):
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = (1 - np.sqrt(mean**7 / (mean**7 + 25**7))) / 2
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180
    hue = (h1 + turn / 2) % 360
    dl, dc, dh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    waves = zip((-0.17, 0.24, 0.32, -0.2), (1, 2, 3, 4), (-30, 0, 6, -63), strict=True)
    t = 1 + sum(f * np.cos(np.radians(k * hue + shift)) for f, k, shift in waves)
    sl = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    sc, sh = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    angle = np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2)))
    rt = -2 * np.sqrt(chroma**7 / (chroma**7 + 25**7)) * np.sin(angle)
    return np.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rt * dc / sc * dh / sh)


def test_the_difference_used_here_gives_published_values():
    # Pairs 1 and 17 of Sharma, Wu and Dalal (2005).
    assert ciede2000((50, 2.6772, -79.7751), (50, 0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert ciede2000((50, 2.5, 0), (73, 25, -18)) == pytest.approx(27.1492, abs=1e-4)


@pytest.mark.parametrize("vision", SEEN_AS)
def test_any_two_colours_differ_for_every_kind_of_vision(vision):
    seen = [lab(np.array(SEEN_AS[vision]) @ linear(colour)) for colour in style.PALETTE]
    assert min(itertools.starmap(ciede2000, itertools.combinations(seen, 2))) >= 10


def test_every_colour_stands_out_from_white():
    for colour in {*style.PALETTE, *style.COLOURS.values(), style.QUIET, style.ALARM}:
        luminance = linear(colour) @ [0.2126, 0.7152, 0.0722]
        assert 1.05 / (luminance + 0.05) >= 3


def test_known_models_have_colours_of_their_own():
    assert len(set(style.COLOURS.values())) == len(style.COLOURS)
    assert set(style.COLOURS.values()) <= set(style.PALETTE)


def test_an_unknown_model_has_the_same_colour_in_every_process():
    code = "from ragbench import style; print(style.colour('my-own-模型'))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == style.colour("my-own-模型") in style.PALETTE


def test_a_colour_can_be_pinned(monkeypatch):
    monkeypatch.setitem(style.COLOURS, "mine", "#0069E1")
    assert style.colour("provider/Mine") == "#0069E1"


def test_provider_and_case_do_not_change_the_colour():
    assert style.colour("sim/Qwen3-8b") == style.colour("qwen/QWEN3-8B") == style.colour("qwen3-8b")


@pytest.mark.parametrize(
    "hostile",
    ["<img src=x onerror=alert(1)>", "</script><b>x</b>", "$\\LaTeX$", "%{x} %{customdata[0]}"],
)
def test_no_markup_survives_in_a_label(hostile):
    shown = style.label(hostile)
    assert not {"<", ">", "$"} & set(shown)
    assert "%{" not in shown


def test_entities_in_a_text_are_shown_as_written():
    assert style.label("&lt;b&gt; &#36;") == "&amp;lt;b&amp;gt; &amp;#36;"


def test_marks_of_direction_become_visible_and_breaks_become_blanks():
    assert style.clean("a\u202eb\u2066c\nd\x00e\ud800") == "a�b�c d e�"


@pytest.mark.parametrize("text", ["x" * 500, "很" * 90, "a-b/c " * 40, "", "one two"])
def test_wrapped_lines_keep_within_the_width(text):
    lines = style.wrapped(text, 20)
    assert 1 <= len(lines) <= 3
    assert all(style.columns(line) <= 20 for line in lines)
    assert lines[-1].endswith("…") == (style.columns(text) > 60)


def test_wrapping_loses_no_letter():
    name = "Qwen3-235B-A22B-Thinking-2507"
    assert "".join(style.wrapped(name, 12, most=9)) == name


def test_texts_that_fit_share_a_line():
    assert style.joined(["a", "b", "c" * 18], 20) == ["a · b", "c" * 18]
    assert style.joined(["a", "b", "c" * 90], 20, most=2)[1].endswith("c…")


def test_lines_are_about_equally_long():
    assert style.wrapped("one two three four five six", 24) == ["one two three", "four five six"]


def test_chinese_without_a_font_is_said_once(monkeypatch):
    monkeypatch.setattr(style, "has_chinese_font", lambda: False)
    style._warn_no_font.cache_clear()
    with pytest.warns(UserWarning, match="fonts-noto-cjk"):
        style.check_fonts(["plain", "医疗领域"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        style.check_fonts(["医疗领域"])


def test_latin_labels_need_no_chinese_font(monkeypatch):
    monkeypatch.setattr(style, "has_chinese_font", lambda: False)
    style._warn_no_font.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        style.check_fonts(["GLM-4.5 – “ä”"])
