"""What a picture holds: order, marks, intervals, facts; and that hostile labels stay labels."""

import io
import re

import numpy as np
import polars as pl
import pytest
from PIL import Image

from ragbench import figures, render
from ragbench.errors import UnknownColumn

MODELS = ["steady", "uneven", "模型", "poor"]


def scores(models=MODELS, loose=(0.8, 0.8, 0.6, 0.3), strict=(0.7, 0.2, 0.3, 0.1), **changed):
    columns = {
        "model": models,
        "panel": ["rules"] * len(models),
        "origin": ["recorded"] * len(models),
        "planned": [20] * len(models),
        "loose_ias": loose,
        "strict_ias": strict,
    }
    for name, values in (("loose_ias", loose), ("strict_ias", strict)):
        columns |= {
            f"{name}_n": [20] * len(models),
            f"{name}_planned": [20] * len(models),
            f"{name}_low": [None if value is None else value - 0.05 for value in values],
            f"{name}_high": [None if value is None else value + 0.1 for value in values],
            f"{name}_lowest": values,
            f"{name}_highest": values,
            f"{name}_interval": ["Wilson"] * len(models),
        }
    return pl.DataFrame(columns | changed, strict=False)


def independence(**changed):
    columns = {
        "model": MODELS[::-1],
        "n": [20] * 4,
        "strict_ias": [0.1, 0.3, 0.2, 0.7],
        "independent": [0.05, 0.15, 0.1, 0.6],
        "independent_low": [0.04, 0.1, 0.05, 0.5],
        "independent_high": [0.06, 0.2, 0.15, 0.7],
    }
    return pl.DataFrame(columns | changed)


def texts(figure):
    """Every text that plotly would interpret."""
    found = [
        figure.layout.title.text,
        figure.layout.xaxis.title.text,
        *figure.layout.yaxis.ticktext,
    ]
    found += [note.text for note in figure.layout.annotations]
    for trace in figure.data:
        hover = trace.hovertext
        found += [trace.name, *([hover] if isinstance(hover, str) else hover or [])]
    return [text for text in found if text]


def caption(figure):
    return re.sub(r"<[^>]*>", " ", " ".join(texts(figure)))


def rows(figure):
    """The traces of the rows, from the top down."""
    found = [trace for trace in figure.data if len(trace.y) and "failures" not in trace.name]
    return sorted((trace for trace in found if trace.name != "bounds"), key=lambda t: -t.y[0])


def test_the_widest_gap_comes_on_top():
    names = [trace.name for trace in rows(figures.gap(scores()))]
    assert names == ["uneven", "模型", "poor", "steady"]
    assert figures.gap(scores()).layout.yaxis.ticktext == tuple(names)


def test_strict_is_open_and_loose_is_filled_in_the_colour_of_the_model():
    top = rows(figures.gap(scores()))[0]
    assert tuple(top.x[:2]) == (0.2, 0.8)
    assert tuple(top.marker.color[:2]) == ("white", figures.colour("uneven"))


def test_the_open_dot_stays_visible_where_all_that_is_kept_is_kept_in_full():
    drawn = rows(figures.gap(scores(["a", "b"], (0.5, 0.9), (0.5, 0.6))))
    assert [trace.marker.size[0] > trace.marker.size[1] for trace in drawn] == [False, True]


def test_the_gap_stands_beside_each_row_in_points():
    notes = figures.gap(scores()).layout.annotations
    shown = {note.y: note.text for note in notes if note.yref == "y"}
    assert shown == {0: "60.0", -1: "30.0", -2: "20.0", -3: "10.0"}


def test_a_strict_rate_above_the_loose_one_is_a_negative_gap_and_comes_last():
    figure = figures.gap(scores(["a", "b"], (0.5, 0.4), (0.5, 0.6)))
    assert [trace.name for trace in rows(figure)] == ["a", "b"]
    assert "−20.0" in texts(figure)


def test_intervals_reach_from_low_to_high():
    top = rows(figures.gap(scores()))[0]
    strict, loose = 3, 5  # set apart from the dots, so that each can be told from the other
    assert (top.x[strict], top.x[loose]) == (0.2, 0.8)
    assert top.y[strict] < top.y[0] == top.y[1] < top.y[loose]
    assert [top.error_x.arrayminus[at] for at in (strict, loose)] == pytest.approx([0.05, 0.05])
    assert top.error_x.array == pytest.approx([0, 0, 0, 0.1, 0, 0.1])


def test_a_row_without_interval_has_no_bar():
    frame = scores().with_columns(pl.lit(None).alias("strict_ias_low"))
    assert figures.dots(frame, "strict_ias").data[0].error_x.arrayminus == (0.0,)


def test_independence_is_matched_by_model_not_by_order():
    figure = figures.gap(scores(), independence())
    diamonds = figure.data[-1]
    assert diamonds.marker.symbol == "diamond"
    assert tuple(diamonds.x) == (0.1, 0.15, 0.05, 0.6)  # uneven, 模型, poor, steady
    assert [round(y) for y in diamonds.y] == [0, -1, -2, -3]
    assert diamonds.error_x.array == pytest.approx([0.05, 0.05, 0.01, 0.1])


def test_a_model_without_independence_row_has_no_diamond():
    figure = figures.gap(scores(), independence().filter(pl.col("model") != "模型"))
    assert len(figure.data[-1].x) == 3


def test_independence_of_another_grouping_is_refused():
    other = independence().rename({"model": "domain"})
    with pytest.raises(UnknownColumn, match=r"independence for .* has no column .model."):
        figures.gap(scores(), other)


def test_another_pair_of_metrics_can_be_drawn():
    swap = {"loose_ias": "loose_rules", "strict_ias": "strict_rules"}
    frame = scores().rename(lambda name: re.sub("loose_ias|strict_ias", lambda m: swap[m[0]], name))
    figure = figures.gap(frame, metrics=("loose_rules", "strict_rules"))
    assert "rules only" in figure.layout.title.text
    with pytest.raises(UnknownColumn, match="did you mean"):
        figures.gap(frame, metrics=("loose_rules", "strict_rule"))


def test_dots_are_ranked_from_the_top_with_their_n_at_the_right():
    frame = scores(strict_ias_n=[20, 19, 1200, 3])
    figure = figures.dots(frame, "strict_ias")
    assert [trace.name for trace in rows(figure)] == ["steady", "模型", "uneven", "poor"]
    shown = [note.text for note in figure.layout.annotations if note.yref == "y"]
    assert shown == ["20", "1,200", "19", "3"]


def test_bounds_are_drawn_only_where_rows_are_missing():
    frame = scores(strict_ias_lowest=[0.7, 0.1, 0.3, 0.1], strict_ias_highest=[0.7, 0.6, 0.3, 0.1])
    figure = figures.dots(frame, "strict_ias")
    (band,) = (trace for trace in figure.data if trace.name == "bounds")
    assert tuple(band.x) == (0.1, 0.6, None)
    assert tuple(band.y) == (-2, -2, None)
    assert "what the missing rows allow" in caption(figure)
    assert "missing rows" not in caption(figures.dots(scores(), "strict_ias"))


def test_a_dot_at_the_edge_is_whole():
    frame = scores(strict_ias=[1.0, 0.2, 0.3, 0.1], strict_ias_lowest=[0.9, 0.1, 0.2, 0.1])
    frame = frame.with_columns(
        strict_ias_highest=pl.lit(1.0), model=pl.Series([name * 30 for name in "abcd"])
    )
    figure = figures.dots(frame, "strict_ias")
    dot = next(trace for trace in figure.data if trace.name == "a" * 30)
    hue = [int(dot.marker.color[at : at + 2], 16) for at in (1, 3, 5)]
    figure.update_traces(error_x_visible=False)
    is_dot = (abs(pixels(figure, scale=4) - hue) < 30).all(axis=2)
    top = is_dot.any(axis=1).argmax()
    first = is_dot[top : top + 80]  # the first row's alone
    wide, high = first.any(axis=0).sum(), first.any(axis=1).sum()
    assert abs(wide - high) <= 2, "the dot is cut"


def test_an_axis_of_proportions_prints_percent_and_that_of_another_scale_does_not():
    assert figures.dots(scores(), "strict_ias").layout.xaxis.tickformat == ".0%"
    own = scores().rename({"strict_ias": "tone"}).with_columns(tone=pl.lit(0.9))
    figure = figures.dots(own, "tone")
    assert figure.layout.xaxis.tickformat is None
    assert "%" not in figure.data[0].hovertext


def test_close_values_are_drawn_apart_and_the_axis_never_leaves_the_possible():
    close = figures.dots(scores(strict=(0.97, 0.96, 0.98, 0.99)), "strict_ias").layout.xaxis.range
    assert close[0] > 0.5
    assert close[1] < 1.02


@pytest.mark.parametrize("origin", ["recorded", "measured", "measured, recorded"])
def test_the_picture_says_n_panel_origin_and_missing_rows(origin):
    frame = scores(origin=[origin] * 4, strict_ias_n=[20, 18, 20, 15])
    shown = caption(figures.dots(frame, "strict_ias"))
    assert "n = 15–20 responses per row" in shown
    assert "7 of 80 missing" in shown
    assert "panel: rules" in shown
    assert "95 % interval (Wilson)" in shown
    assert origin.replace(", ", " and ") in shown


def test_simulated_rows_are_called_no_result_inside_the_picture():
    figure = figures.gap(scores(origin=["simulated"] * 4))
    assert any("<b>simulated: not a result</b>" in text for text in texts(figure))


def test_a_frame_that_hides_its_origin_is_told_so():
    assert "origin not stated" in caption(figures.gap(scores().drop("origin")))


def test_an_empty_frame_gives_a_picture_that_says_so():
    for figure in (figures.gap(scores().clear()), figures.dots(scores().clear(), "strict_ias")):
        assert not figure.data
        assert any("No rows to draw" in note.text for note in figure.layout.annotations)


def test_missing_values_keep_their_row_and_say_why():
    frame = scores(strict=(None, 0.2, float("nan"), 0.1), strict_ias_n=[0, 20, 0, 20])
    for figure in (figures.gap(frame), figures.dots(frame, "strict_ias")):
        assert len(figure.layout.yaxis.ticktext) == 4
        assert sum("no value: 0 of 20 judged" in text for text in texts(figure)) == 2
        drawn = [x for trace in rows(figure) for x in trace.x]
        assert not any(x != x for x in drawn if x is not None)


def test_rows_of_equal_label_stay_apart():
    figure = figures.dots(scores(["same"] * 4), "strict_ias")
    assert sorted(trace.y[0] for trace in figure.data) == [-3, -2, -1, 0]


HOSTILE = ["<img src=x onerror=alert(1)>", "<b>b</b>", "</script>$\\LaTeX$", "a\u202eb%{x}"]


def test_hostile_labels_and_titles_are_inert():
    for figure in (
        figures.gap(scores(HOSTILE), title=HOSTILE[0]),
        figures.dots(scores(HOSTILE), "strict_ias", title=HOSTILE[2]),
    ):
        own = re.compile(r"</?(b|i|br)>|</?span[^>]*>")
        for text in texts(figure):
            assert not {"<", ">", "$", "\u202e"} & set(own.sub("", text)), text
            assert "%{" not in text
        assert not any("<b>b</b>" in text for text in figure.layout.yaxis.ticktext)
        html = figure.to_html(include_plotlyjs=False)
        assert "<img" not in html
        assert html.count("</script>") == html.count("<script")


def test_the_width_is_that_of_a_column_whatever_the_labels():
    for names in (["x" * 300] * 4, ["很长的模型名称" * 9] * 4, ["a"] * 4):
        figure = figures.gap(scores(names))
        room = figure.layout.width - figure.layout.margin.l - figure.layout.margin.r
        assert figure.layout.width == 480
        assert room > 200


def test_thirty_rows_are_taller_not_tighter():
    many = figures.dots(scores(list("abcdefghij") * 3, [0.5] * 30, [0.4] * 30), "strict_ias")
    few = figures.dots(scores(), "strict_ias")
    assert (many.layout.height - few.layout.height) / 26 >= 22


def pixels(figure, scale=1):
    try:
        png = render.images(figure, ["png"], scale=scale)["png"]
    except render.NoImages as problem:
        pytest.skip(f"no picture can be drawn here: {problem}")
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


@pytest.mark.parametrize("count", [1, 4, 30])
def test_a_drawn_picture_shows_every_model_in_its_colour(count):
    names = [f"模型-{place}" for place in range(count)]
    frame = scores(names, [0.8] * count, [place / 40 for place in range(count)])
    seen = pixels(figures.gap(frame))
    assert seen.std() > 10
    assert seen.shape[1] == 480
    for name in names:
        wanted = [int(figures.colour(name)[place : place + 2], 16) for place in (1, 3, 5)]
        assert (np.abs(seen - wanted).sum(axis=2) < 12).sum() > 40, name


def test_an_empty_picture_still_shows_its_reason():
    assert pixels(figures.gap(scores().clear())).std() > 3


def test_notebooks_get_the_interactive_figure_and_a_still_picture():
    bundle = render.bundle(figures.gap(scores()))
    held = bundle["application/vnd.plotly.v1+json"]
    assert len(held["data"]) == 4
    assert held["config"]["typesetMath"] is False
    if "image/png" not in bundle:
        pytest.skip("no picture can be drawn here: no browser")
    assert len(str(bundle)) < 300_000  # so that a notebook of a dozen figures stays below 5 MB


@pytest.mark.parametrize("words", [2, 12, 25])
def test_a_title_of_any_length_begins_below_the_edge_and_ends_above_the_plot(words):
    figure = figures.dots(scores(), "strict_ias", title=" ".join(["question"] * words))
    is_ink = (pixels(figure).max(axis=2) < 120).any(axis=1)
    lines = figure.layout.title.text.count("<br>") + 1
    title = is_ink[: 14 + 21 * lines]
    assert 8 <= title.argmax() <= 16
    starts = np.flatnonzero(title & ~np.r_[False, title[:-1]])
    assert len(starts) == lines
