"""Forests, scatters, bars, radars, heat maps, sunbursts, spreads: marks, order, facts, safety."""

import importlib.util
import io
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from ragbench import figures, render, simulate
from ragbench.errors import RagbenchError, UnknownColumn
from ragbench.figures_effects import stars
from ragbench.figures_planes import _ink

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = ["<img src=x onerror=alert(1)>", "<b>b</b>", "</script>$\\LaTeX$", "a\u202eb%{x}"]


def effects(**changed):
    columns = {
        "model": ["b", "a", "模型"],
        "n_with": [113, 112, 113],
        "n_without": [190, 195, 192],
        "lost_with": [0, 1, 0],
        "lost_without": [2, 0, 0],
        "difference": [0.2, -0.1, None],
        "low": [0.1, -0.25, None],
        "high": [0.35, 0.05, None],
        "p_value": [0.0004, 0.2, None],
        "stratified_difference": [0.15, -0.05, None],
        "stratified_low": [0.05, -0.2, None],
        "stratified_high": [0.25, 0.1, None],
        "stratified_p_value": [0.04, 0.5, None],
        "panel": ["rules"] * 3,
        "origin": ["recorded"] * 3,
    }
    return pl.DataFrame(columns | changed, strict=False)


def cells(models=("a", "b"), axes=("Legal", "Energy", "Medical"), values=None, origin="recorded"):
    pairs = [(model, axis) for model in models for axis in axes]
    values = values or [0.1 + 0.8 * place / len(pairs) for place in range(len(pairs))]
    return pl.DataFrame(
        {
            "model": [model for model, _ in pairs],
            "domain": [axis for _, axis in pairs],
            "panel": ["rules"] * len(pairs),
            "origin": [origin] * len(pairs),
            "strict_ias": values,
            "strict_ias_n": list(range(20, 20 + len(pairs))),
            "strict_ias_planned": [40] * len(pairs),
            "strict_ias_low": [None if v is None else v - 0.05 for v in values],
            "strict_ias_high": [None if v is None else v + 0.05 for v in values],
            "coverage": values[::-1],
        },
        strict=False,
    )


def per_model(names, origin="recorded"):
    return cells(names, ("Legal",), origin=origin)


def shares(**changed):
    columns = {
        "category": ["output", "persona", "output"],
        "dimension": ["format", "role", "style"],
        "constraints": [30, 50, 20],
        "origin": ["recorded"] * 3,
    }
    return pl.DataFrame(columns | changed)


def bounds(**changed):
    """Three differences with the intervals of an equivalence test and their verdicts."""
    columns = {
        "metric": ["a", "b", "c"],
        "difference": [0.02, -0.3, 0.15],
        "low_95": [-0.05, -0.4, 0.05],
        "high_95": [0.09, -0.2, 0.25],
        "low_90": [-0.04, -0.38, 0.07],
        "high_90": [0.08, -0.22, 0.19],
        "verdict": ["equivalent", "different", "different"],
        "verdict_standard_90": ["equivalent", "different", "equivalent"],
        "n_natural": [27] * 3,
        "origin": ["recorded"] * 3,
    }
    return pl.DataFrame(columns | changed)


def every_kind(names, origin="recorded", title=None):
    """One picture of each kind whose labels are `names` (three or more)."""
    grid = cells(names, names, origin=origin)
    effect = effects(model=names[:3], origin=[origin] * 3)
    path = {"category": names[:3], "dimension": names[:3], "origin": [origin] * 3}
    one = per_model(names, origin)
    return {
        "forest": figures.forest(effect, p_value="p_value", beside="stratified", title=title),
        "panels": figures.panels(effect, "model", beside="stratified", title=title),
        "equivalence": figures.equivalence(
            bounds(metric=names[:3], origin=[origin] * 3), title=title
        ),
        "scatter": figures.scatter(one, "coverage", "strict_ias", group="model", title=title),
        "bars": figures.bars(grid, "strict_ias", label="domain", group="model", title=title),
        "spread": figures.spread(grid, "strict_ias", label="domain", title=title),
        "radar": figures.radar(grid, "domain", "strict_ias", title=title),
        "heatmap": figures.heatmap(grid, "domain", "model", "strict_ias", title=title),
        "curves": figures.curves(
            one.with_columns(params_b=1.0 + pl.int_range(pl.len())),
            "params_b",
            ["strict_ias", "coverage"],
            title=title,
        ),
        "sunburst": figures.sunburst(
            shares(**path), ["category", "dimension"], "constraints", title=title
        ),
    }


def texts(figure):
    """Every text that plotly would interpret."""
    found = [figure.layout.title.text, figure.layout.xaxis.title.text]
    found += [figure.layout.yaxis.title.text]
    for axis in (figure.layout.xaxis, figure.layout.yaxis, figure.layout.polar.angularaxis):
        found += list(axis.ticktext or ())
    found += [note.text for note in figure.layout.annotations]
    for trace in figure.data:
        for part in (trace.name, trace.hovertext, getattr(trace, "text", None)):
            flat = np.ravel(part).tolist() if part is not None else []
            found += [text for text in flat if isinstance(text, str)]
    return [text for text in found if text]


def caption(figure):
    return re.sub(r"<[^>]*>", " ", " ".join(texts(figure)))


def beside_rows(figure):
    """The column at the right, from the top down."""
    notes = [note for note in figure.layout.annotations if note.xref == "paper" and note.x == 1]
    return [note.text for note in sorted(notes, key=lambda n: -n.y) if note.yref == "y"]


def test_a_forest_keeps_the_order_of_its_frame_and_shows_intervals():
    first, second, _ = figures.forest(effects()).data
    assert (first.name, second.name) == ("b", "a")
    assert (first.y[0], second.y[0]) == (0, -1)
    assert first.x[0] - first.error_x.arrayminus[0] == pytest.approx(0.1)
    assert first.x[0] + first.error_x.array[0] == pytest.approx(0.35)


def test_a_forest_prints_points_and_stars_by_p():
    assert beside_rows(figures.forest(effects(), p_value="p_value")) == ["20.0***", "−10.0", "–"]
    assert beside_rows(figures.forest(effects())) == ["20.0", "−10.0", "–"]
    assert "* p &lt; .05" in caption(figures.forest(effects(), p_value="p_value"))
    assert "* p" not in caption(figures.forest(effects()))


@pytest.mark.parametrize(
    ("p", "shown"),
    [(0.05, ""), (0.0499, "*"), (0.01, "*"), (0.001, "**"), (0.0009, "***"), (float("nan"), "")],
)
def test_stars_are_for_p_below_the_limits(p, shown):
    assert stars(p) == shown


def test_a_forest_has_its_line_at_the_reference():
    lines = [s for s in figures.forest(effects(), reference=0.05).layout.shapes if s.xref == "x"]
    assert [(line.x0, line.x1) for line in lines] == [(0.05, 0.05)]


def test_ticks_of_a_forest_are_points():
    axis = figures.forest(effects()).layout.xaxis
    assert dict(zip(axis.ticktext, axis.tickvals, strict=True))["+20"] == pytest.approx(0.2)
    assert "0" in axis.ticktext
    assert "percentage points" in axis.title.text


def test_a_second_estimate_stands_below_each_and_is_lighter():
    figure = figures.forest(effects(), p_value="p_value", beside="stratified")
    crude, adjusted = figure.data[:2]
    assert adjusted.x[0] == 0.15
    assert crude.y[0] > adjusted.y[0] > -0.5
    assert adjusted.marker.color == "white"
    assert beside_rows(figure)[0] == "20.0***<br>15.0*"


def test_a_forest_says_both_n_and_what_was_lost():
    shown = caption(figures.forest(effects()))
    assert "n per row: with 112–113, without 190–195" in shown
    assert "3 missing" in shown


def test_ratios_are_drawn_as_they_are():
    ratio = effects().with_columns(pl.Series("difference", [1.25, 0.5, None]))
    figure = figures.forest(ratio, reference=1.0, percent=False)
    assert beside_rows(figure)[:2] == ["1.25", "0.50"]
    assert "points" not in caption(figure)


def test_points_of_a_scatter_have_both_values_and_shapes_by_group():
    frame = per_model(["a", "b", "c"]).with_columns(kind=pl.Series(["x", "y", "x"]))
    figure = figures.scatter(frame, "coverage", "strict_ias", group="kind", note="ρ = 0.5")
    assert [(t.name, t.x[0], t.y[0]) for t in figure.data] == [
        (row["model"], row["coverage"], row["strict_ias"]) for row in frame.iter_rows(named=True)
    ]
    assert [trace.marker.symbol for trace in figure.data] == ["circle", "square", "circle"]
    assert figure.layout.xaxis.tickformat == figure.layout.yaxis.tickformat == ".0%"
    assert figure.data[0].error_y.array == pytest.approx([0.05])
    assert "ρ = 0.5" in caption(figure)


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_a_scatter_do_not_cover_each_other(seed):
    draw = np.random.default_rng(seed)
    frame = pl.DataFrame({"model": [f"some-model-{n}" for n in range(13)]}).with_columns(
        coverage=pl.Series(draw.random(13)), conflict=pl.Series(draw.random(13))
    )
    figure = figures.scatter(frame, "coverage", "conflict")
    boxes = []
    for note in [n for n in figure.layout.annotations if n.showarrow]:
        (left, right), (low, high) = figure.layout.xaxis.range, figure.layout.yaxis.range
        x = (note.x - left) / (right - left) * 400 + note.ax
        y = (note.y - low) / (high - low) * 360 - note.ay
        half = 3 * len(note.text)
        boxes.append((x - half, y - 6, x + half, y + 6))
    assert len(boxes) == 13
    covered = [
        (a, b)
        for place, a in enumerate(boxes)
        for b in boxes[:place]
        if min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])
    ]
    assert not covered


def test_a_point_without_a_value_is_named_and_not_drawn():
    frame = per_model(["a", "b", "c"]).with_columns(coverage=pl.Series([0.1, None, float("nan")]))
    figure = figures.scatter(frame, "coverage", "strict_ias")
    assert [trace.name for trace in figure.data] == ["a"]
    assert "not drawn, a value is missing: b, c" in caption(figure)


def test_curves_join_the_rows_of_each_metric_by_size_on_an_axis_of_ratios():
    frame = per_model(["large", "small", "unknown"]).with_columns(
        params_b=pl.Series([200.0, 8.0, None])
    )
    strict, coverage = figures.curves(frame, "params_b", ["strict_ias", "coverage"]).data
    assert list(strict.x) == [8.0, 200.0]
    assert list(strict.y) == [frame["strict_ias"][1], frame["strict_ias"][0]]
    assert list(strict.error_y.array) == pytest.approx([0.05, 0.05])
    assert strict.line.color != coverage.line.color
    assert strict.marker.symbol != coverage.marker.symbol
    figure = figures.curves(frame, "params_b", ["strict_ias"])
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.xaxis.ticktext == ("8", "200")
    assert "small (8), large (200)" in caption(figure)
    assert "unknown" in caption(figure)
    zero = frame.with_columns(params_b=pl.Series([0.0, 8.0, 9.0]))
    assert figures.curves(zero, "params_b", ["strict_ias"]).layout.xaxis.type == "linear"


def test_bars_of_a_group_stand_together_with_a_gap_where_one_is_absent():
    frame = cells().filter((pl.col("model") != "b") | (pl.col("domain") != "Energy"))
    figure = figures.bars(frame, "strict_ias", label="domain", group="model")
    a, b = figure.data
    assert (a.name, b.name) == ("a", "b")
    assert b.x[1] is None
    assert beside_rows(figure)[1].endswith("<br>–")
    assert all(upper > lower for upper, lower in zip(a.y, b.y, strict=True))
    assert a.marker.color[0] != b.marker.color[0]
    assert figure.layout.yaxis.ticktext == ("Legal", "Energy", "Medical")


def test_bars_start_at_zero_and_reach_below_it_when_values_do():
    assert figures.bars(cells(), "strict_ias", label="domain", group="model").layout.xaxis.range[
        0
    ] == pytest.approx(-0.015)
    assert figures.bars(effects(), "difference").layout.xaxis.range[0] < -0.25


def test_two_rows_for_one_place_are_refused():
    twice = pl.concat([cells(), cells()])
    for draw in (
        lambda: figures.bars(twice, "strict_ias", label="domain", group="model"),
        lambda: figures.radar(twice, "domain", "strict_ias"),
        lambda: figures.heatmap(twice, "domain", "model", "strict_ias"),
    ):
        with pytest.raises(RagbenchError, match="two rows of"):
            draw()


def test_the_spread_is_mean_lowest_and_highest_over_models():
    frame = cells(("a", "b", "c"), ("Legal", "Energy"), [0.1, 0.6, 0.3, 0.7, 0.2, None])
    figure = figures.spread(frame, "strict_ias", label="domain")
    mean, band = figure.data[-1], figure.data[0]
    assert figure.layout.yaxis.ticktext == ("Energy", "Legal")
    assert list(mean.x) == pytest.approx([0.65, 0.2])
    assert [x for x in band.x if x is not None] == pytest.approx([0.6, 0.7, 0.1, 0.3])
    assert "lowest: b" not in mean.hovertext[0]
    assert "lowest: a<br>highest: b" in mean.hovertext[0]
    assert "of 2–3 models" in caption(figure)


def test_a_radar_closes_its_lines_and_leaves_a_missing_value_open():
    values = [0.1, 0.2, 0.3, 0.4, None, 0.6]
    figure = figures.radar(cells(values=values), "domain", "strict_ias")
    assert list(figure.data[0].r) == [0.1, 0.2, 0.3, 0.1]
    assert list(figure.data[1].r) == [0.4, None, 0.6, 0.4]
    assert list(figure.data[0].theta) == [0, 120, 240, 0]
    assert "no value: b in Energy" in caption(figure)


def test_the_edge_of_a_radar_is_stated():
    low = figures.radar(cells(values=[0.1] * 6), "domain", "strict_ias")
    assert tuple(low.layout.polar.radialaxis.range) == (0, 0.25)
    assert "edge 25 %" in caption(low)
    whole = figures.radar(cells(values=[0.1] * 6), "domain", "strict_ias", edge=1)
    assert "edge 100 %" in caption(whole)
    assert whole.layout.polar.radialaxis.ticktext[-1] == "100 %"


def test_a_radar_of_two_axes_says_that_it_takes_three():
    figure = figures.radar(cells(axes=("Legal", "Energy")), "domain", "strict_ias")
    assert not figure.data
    assert "2 domains: a radar takes three or more" in caption(figure)


def test_a_heat_map_has_its_number_on_each_cell_and_marks_the_missing():
    frame = cells(values=[0.1, 0.2, None, 0.4, 0.5, 0.6]).head(5)
    colours, numbers = figures.heatmap(frame, "domain", "model", "strict_ias").data
    assert [list(row) for row in colours.z] == [[0.1, 0.2, None], [0.4, 0.5, None]]
    assert list(numbers.text) == ["10", "20", "×", "40", "50", "×"]
    assert "n = 20" in colours.hovertext[0][0]
    shown = caption(figures.heatmap(frame, "domain", "model", "strict_ias"))
    assert "10 % (light) to 50 % (dark)" in shown
    assert "×: no rows or no value" in shown


def test_heat_map_colours_darken_evenly_and_their_text_can_be_read():
    scale = figures.heatmap(cells(), "domain", "model", "strict_ias").data[0].colorscale
    light = []
    for place, hue in scale:
        parts = [float(part) / 255 for part in re.findall(r"[\d.]+", hue)]
        line = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        luminance = float(np.dot([0.2126, 0.7152, 0.0722], line))
        ink = 0.0 if _ink(place) == "#000000" else 1.0
        ends = sorted([luminance + 0.05, ink + 0.05])
        assert ends[1] / ends[0] >= 4.5, place
        light.append(116 * luminance ** (1 / 3) - 16)
    steps = -np.diff(light)
    assert (steps > 0).all()
    assert steps.std() / steps.mean() < 0.25


def test_shares_of_a_sunburst_are_sums_by_category_in_percent_of_the_whole():
    inner, outer = figures.sunburst(shares(), ["category", "dimension"], "constraints").data
    assert list(inner.values) == [50, 50]
    assert list(outer.values) == [30, 20, 50]
    assert list(outer.text) == ["Format 30.0 %", "Style 20.0 %", "Role 50.0 %"]
    assert list(inner.text) == ["Output<br>50.0 %", "Persona<br>50.0 %"]


def test_a_category_too_small_for_its_name_stands_in_the_legend():
    figure = figures.sunburst(
        shares(constraints=[80, 5, 15]), ["category", "dimension"], "constraints"
    )
    assert list(figure.data[0].text) == ["Output<br>95.0 %", ""]
    assert "Persona 5.0 %" in [note.text for note in figure.layout.annotations]


def test_empty_shares_are_named_and_negative_ones_refused():
    none = shares(constraints=[30, 0, 20])
    assert "nothing in: Persona · Role" in caption(
        figures.sunburst(none, ["category", "dimension"], "constraints")
    )
    with pytest.raises(RagbenchError, match="below 0"):
        figures.sunburst(shares(constraints=[-1, 5, 5]), ["category"], "constraints")
    with pytest.raises(RagbenchError, match="one or two levels"):
        figures.sunburst(shares(), ["category", "dimension", "origin"], "constraints")


def test_an_empty_frame_gives_a_picture_that_says_so():
    empty, grid = effects().clear(), cells().clear()
    for figure in (
        figures.forest(empty, p_value="p_value", beside="stratified"),
        figures.scatter(grid, "coverage", "strict_ias"),
        figures.bars(grid, "strict_ias", label="domain", group="model"),
        figures.spread(grid, "strict_ias", label="domain"),
        figures.radar(grid, "domain", "strict_ias"),
        figures.heatmap(grid, "domain", "model", "strict_ias"),
        figures.curves(grid.with_columns(params_b=1.0), "params_b", ["strict_ias"]),
        figures.sunburst(shares().clear(), ["category", "dimension"], "constraints"),
    ):
        assert not figure.data
        assert re.search("No (rows|cells|shares) to draw", caption(figure))


def test_one_row_and_only_missing_values_are_drawn_or_said():
    for frame in (effects().head(1), effects().tail(1)):
        assert len(figures.forest(frame, p_value="p_value").data) == 1
        assert len(figures.bars(frame, "difference").data) == 1
    assert "no value" in caption(figures.bars(effects().tail(1), "difference"))
    assert figures.spread(cells().head(1), "strict_ias", label="domain").data[-1].x == (0.1,)
    assert figures.heatmap(cells().head(1), "domain", "model", "strict_ias").data[0].z is not None


def test_an_unknown_column_is_named_with_what_there_is():
    for draw in (
        lambda: figures.forest(effects(), "diference"),
        lambda: figures.forest(effects(), p_value="p_holm"),
        lambda: figures.scatter(cells(), "coverage", "strict_ias", group="kind"),
        lambda: figures.bars(cells(), "strict_ias", label="dimension"),
        lambda: figures.spread(cells(), "strict_ias", label="domain", over="family"),
        lambda: figures.radar(cells(), "domains", "strict_ias"),
        lambda: figures.heatmap(cells(), "domain", "modell", "strict_ias"),
        lambda: figures.sunburst(shares(), ["category", "dim"], "constraints"),
        lambda: figures.curves(cells(), "params", ["strict_ias"]),
        lambda: figures.curves(cells(), "strict_ias", ["strict"]),
    ):
        with pytest.raises(UnknownColumn, match="frame for figures"):
            draw()


def test_hostile_labels_and_titles_are_inert_in_every_kind():
    own = re.compile(r"</?(b|i|br)>|</?span[^>]*>")
    for kind, figure in every_kind(HOSTILE, title=HOSTILE[0]).items():
        for text in texts(figure):
            assert not {"<", ">", "$", "\u202e"} & set(own.sub("", text)), (kind, text)
            assert "%{" not in text
            assert not re.search("<b>b</b>(?!<br>)", text), kind  # ours head a hover text
        html = figure.to_html(include_plotlyjs=False)
        assert "<img" not in html
        assert html.count("</script>") == html.count("<script")


def test_every_kind_says_its_origin_and_simulated_rows_that_they_are_no_result():
    for kind, figure in every_kind(["a", "b", "c"]).items():
        assert "recorded" in caption(figure), kind
    for kind, figure in every_kind(["a", "b", "c"], "simulated").items():
        assert any("<b>simulated: not a result</b>" in text for text in texts(figure)), kind


def test_panels_share_rows_and_each_has_its_own_axis():
    figure = figures.panels(
        effects(model=["a", "b", "a"], metric=["rejection", "rejection", "conflict"]), "metric"
    )
    assert [(t.name, t.y[0], t.xaxis) for t in figure.data] == [
        ("a", 0, "x"),
        ("b", -1, "x"),
        ("a", 0, "x2"),
    ]
    assert figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    shown = [note.text for note in figure.layout.annotations]
    assert "–" in shown, "b has no conflict row"
    assert {"<b>Rejection accuracy</b>", "<b>Conflict recognition</b>"} <= set(shown)


def test_a_mark_is_filled_only_where_the_adjusted_p_is_small():
    drawn = effects(p_value=[0.01, 0.01, 0.01], p_holm=[0.049, 0.05, None])
    figure = figures.panels(drawn, "origin", p_value="p_value", adjusted="p_holm")
    assert [trace.marker.color == "white" for trace in figure.data] == [False, True, False]
    shown = " ".join(note.text for note in figure.layout.annotations)
    assert all(text in shown for text in ("20.0*", ".049", ".050"))


def test_two_rows_for_one_cell_of_the_panels_are_refused():
    with pytest.raises(RagbenchError, match=r"two rows of origin 'recorded' and model 'a'"):
        figures.panels(effects(model=["a", "a", "b"]), "origin")


def test_margins_of_equivalence_are_lines_inside_the_axis_and_verdicts_are_words():
    figure = figures.equivalence(bounds(), margin=0.2)
    lines = [shape.x0 for shape in figure.layout.shapes if shape.xref == "x"]
    low, high = figure.layout.xaxis.range
    assert sorted(lines) == [-0.2, 0.0, 0.2]
    assert low < -0.4, "the lowest interval is inside"
    assert high > 0.25
    thick = figure.data[0]
    assert thick.x[:2] == (-0.04, 0.08)
    assert beside_rows(figure)[2] == "15.0<br>different<br>at 90 %:<br>equivalent"


def test_a_radar_of_two_metrics_has_two_circles_with_an_edge_of_their_own():
    frame = cells(values=[0.1, 0.2, 0.24, 0.2, 0.1, 0.1]).with_columns(coverage=0.9)
    figure = figures.radar(frame, "domain", ["strict_ias", "coverage"])
    assert [trace.subplot for trace in figure.data] == ["polar", "polar", "polar2", "polar2"]
    edges = [figure.layout[name].radialaxis.range[1] for name in ("polar", "polar2")]
    assert edges == [0.25, 1.0]
    assert figure.layout.polar.domain.x[1] < figure.layout.polar2.domain.x[0]


def test_every_kind_has_the_width_of_a_column_whatever_the_labels():
    for names in (["x" * 200, "y" * 200, "z" * 200], ["很长的模型名称" * 9, "乙" * 80, "丙"]):
        for kind, figure in every_kind(names).items():
            assert figure.layout.width == 480, kind
            margin = figure.layout.margin
            assert 480 - margin.l - margin.r > 150, kind


def pixels(figure):
    try:
        png = render.images(figure, ["png"], scale=1)["png"]
    except render.NoImages as problem:
        pytest.skip(f"no picture can be drawn here: {problem}")
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def test_every_kind_is_drawn_inside_its_frame():
    for kind, figure in every_kind(["模型", "a-model-with-a-long-name-of-2507", "c"]).items():
        seen = pixels(figure)
        assert seen.shape[1] == 480
        assert (seen.min(axis=2) < 200).mean() > 0.01, kind
        assert (np.ptp(seen, axis=2) > 60).sum() > 50, kind  # marks have colours
        edges = [seen[:3], seen[-3:], seen[:, :3], seen[:, -3:]]
        assert all(edge.min() > 240 for edge in edges), kind


def gallery():
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "figures" / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gallery_shows_every_kind_in_small_pictures():
    shown = gallery().pictures()
    kinds = set(figures.__all__) - {"COLOURS", "PALETTE", "colour"}
    assert kinds <= set(shown)
    for name in shown:
        path = ROOT / "figures" / f"{name}.png"
        assert path.stat().st_size < 120_000, name
        assert np.asarray(Image.open(path).convert("L")).std() > 10, name


@pytest.mark.slow
def test_the_code_of_the_gallery_makes_its_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    simulate.study("simulated.duckdb", seed=0)
    page = gallery()
    made = page.run()
    for name in page.pictures():
        assert made[name].data, name
        size = Image.open(ROOT / "figures" / f"{name}.png").size
        wanted = (page.SCALE * made[name].layout.width, page.SCALE * made[name].layout.height)
        assert size == pytest.approx(wanted, abs=2), name
    assert Path("figures/out/bars.csv").exists()
