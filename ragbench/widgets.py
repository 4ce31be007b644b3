"""The explorer: a study sliced with the mouse, down to single responses, with code to take away."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import ipywidgets as w
import plotly.graph_objects as go
import polars as pl

from ragbench import behind, output
from ragbench.cells import close_all, in_cell
from ragbench.errors import RagbenchError
from ragbench.exploring import OF_CONSTRAINTS, USED, VIEWS, Look, look, whole_state
from ragbench.facts import metric_label
from ragbench.metrics import METRICS, criteria_of
from ragbench.picture import Picture
from ragbench.reading import reading
from ragbench.slices import CONSTRAINT_COLUMNS, panel_names
from ragbench.stats import adjust
from ragbench.store import refresh
from ragbench.style import clean

GROUPINGS = (
    *("model", "domain", "context_mode", "category", "dimension", "paradigm", "family", "setting"),
    *("panel", "language", "has_protocol", "benchmark", "is_augmented", "variant"),
)
FILTERS = (
    *("model", "setting", "domain", "context_mode", "language", "paradigm", "family"),
    *("has_protocol", "is_augmented", "benchmark", "variant", "category", "dimension"),
)
_SIDES = ("model", "setting", "paradigm", "is_augmented", "has_protocol", "domain")


def explorer(con: duckdb.DuckDBPyConnection, state: Mapping[str, Any] | None = None) -> Explorer:
    """A widget to choose metric, grouping, filters, view and comparison of the study behind `con`.

    `state` is where to start (see `exploring.DEFAULT`); the widget's own `state` is a plain mapping
    that can be kept and given back, and `code` the calls that make what it shows. Click on a dot or
    a cell to list the responses behind it, and choose one to read it with all its verdicts. Where
    several panels fit and none is chosen, it starts with the first of them.

    Raises:
        UnknownName, UnknownColumn: a part of `state` that the study does not have.

    Example:
        >>> explorer(con, {"by": "domain", "where": {"context_mode": "gap"}})  # doctest: +SKIP
    """
    return in_cell(lambda: Explorer(con, state or {}))


def _safe(value: object) -> str:
    """A text that is shown as it is written, in its own direction."""
    return html.escape(clean(value))


def _named(value: Any) -> str:
    said = ", ".join(f"{k}: {v}" for k, v in value) if isinstance(value, tuple) else str(value)
    return clean(said)


class Explorer(w.VBox):  # type: ignore[misc]
    """The widget that `explorer` makes."""

    def __init__(self, con: duckdb.DuckDBPyConnection, state: Mapping[str, Any]) -> None:
        refresh(con)
        self._con = con
        self._is_setting = False
        self._tests: dict[str, float] = {}
        self._look: Look | None = None
        self._shown: dict[str, Any] = {}  # its state; what is chosen may not be possible
        self.listed = pl.DataFrame()  # the responses behind what was clicked
        self._kept: dict[str, Any] = {}
        self._controls = self._made_controls()
        self._filters = self._made_filters()
        self._figure: Any = None  # a Picture, from the first look on
        self._notes, self._page = w.HTML(), w.HTML()
        self._code = w.Textarea(rows=4, disabled=True, layout=w.Layout(width="auto"))
        self._responses = w.Select(options=[], rows=12, layout=w.Layout(width="auto"))
        self._heading = w.HTML()
        self._stem = w.Text(value="figures/out/explored", description="save as")
        self._save, self._saved = w.Button(description="Save", icon="save"), w.HTML()
        self.state = self._with_a_panel(whole_state(state))  # complains before anything is shown
        for control in (*self._controls.values(), *self._filters.values()):
            control.observe(self._changed, "value")
        self._responses.observe(self._read, "value")
        self._save.on_click(self._store)
        names = ("view", "metric", "by", "across", "panel")
        chosen = w.HBox([self._controls[name] for name in names], layout=_flow())
        sides = w.HBox([self._controls["a"], self._controls["b"]], layout=_flow())
        wide = w.Layout(overflow="auto hidden", max_width="100%")  # scrolls in a narrow window
        picture = w.Box([self._figure], layout=wide)
        beside = w.VBox([self._heading, self._responses], layout=w.Layout(flex="1 1 30em"))
        filters = w.HBox(list(self._filters.values()), layout=_flow())
        folded = w.Accordion([filters, sides], titles=("Filters", "Compare: a − b"))
        super().__init__(
            [
                chosen,
                folded,
                self._notes,
                w.HBox([picture, beside], layout=_flow()),
                self._code,
                w.HBox([self._stem, self._save, self._saved], layout=_flow()),
                self._page,
            ]
        )

    # ------------------------------------------------------------ what it shows

    @property
    def state(self) -> dict[str, Any]:
        """What is chosen, as a mapping that can be given to `explorer` again."""
        said = {name: control.value for name, control in self._controls.items()}
        said["panel"] = said["panel"] or None
        said["where"] = dict(self._kept) | {
            name: list(box.value) if len(box.value) > 1 else box.value[0]
            for name, box in self._filters.items()
            if box.value
        }
        said["a"], said["b"] = (dict(said[side]) for side in ("a", "b"))
        return said

    @state.setter
    def state(self, wanted: Mapping[str, Any]) -> None:
        whole = whole_state(wanted)
        shown = look(self._con, whole)
        self._is_setting = True
        self._kept = {}  # filters that no box can show hold all the same
        try:
            for name in set(whole["where"]) - set(self._filters):
                self._kept[name] = whole["where"][name]
            for name, box in self._filters.items():
                chosen = whole["where"].get(name, ())
                many = chosen if isinstance(chosen, (list, tuple)) else [chosen]
                offered = [value for _, value in box.options]
                box.value = tuple(value for value in many if value in offered)
                if len(box.value) < len(many):
                    self._kept[name], box.value = chosen, ()
            for name, control in self._controls.items():
                value = tuple(whole[name].items()) if name in ("a", "b") else whole[name]
                value = "" if name == "panel" and value is None else value
                if value not in [option for _, option in control.options]:
                    control.options = [*control.options, (_named(value), value)]
                control.value = value
        finally:
            self._is_setting = False
        self._show(shown)

    @property
    def code(self) -> str:
        """The calls that make what is shown."""
        return str(self._code.value)

    @property
    def frame(self) -> pl.DataFrame:
        """The numbers of what is shown."""
        return self._look.frame if self._look else pl.DataFrame()

    @property
    def figure(self) -> go.FigureWidget:
        """The picture of what is shown."""
        return self._figure

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The live widget, and its numbers as a table for where no kernel runs."""
        from ragbench import tables

        bundle: dict[str, Any] = dict(super()._repr_mimebundle_(**kwargs))
        if self.frame.height:
            bundle["text/html"] = tables.html(self.frame).as_raw_html()
        return bundle

    def close_all(self) -> None:
        """Close the widget and all its parts, also in the browser."""
        close_all(self)

    # ------------------------------------------------------------ what happens

    def _changed(self, _: Any) -> None:
        if self._is_setting:
            return
        try:
            self._show(look(self._con, self.state))
        except RagbenchError as problem:
            self._notes.value = _lines(f"<b>{_safe(problem)}</b>")

    def _show(self, shown: Look) -> None:
        self._look, self._shown = shown, self.state
        if self._figure is None:
            self._figure = Picture(shown.figure)
        else:
            self._figure.draw(shown.draft)
        for trace in self._figure.data:
            trace.on_click(self._clicked)
        used = USED[self._shown["view"]]
        for name in ("metric", "by", "across"):
            self._controls[name].disabled = name not in used
        self._list(pl.DataFrame(), "<b>Responses</b>: click on a dot or a cell to list them.")
        self._code.value = shown.code
        self._code.rows = max(4, sum(1 + len(line) // 80 for line in shown.code.splitlines()))
        self._notes.value = _lines(" · ".join(_safe(note) for note in self._told(shown)))

    def _told(self, shown: Look) -> list[str]:
        """The notes, and what looking at several comparisons does to a p-value."""
        row = shown.frame.row(0, named=True) if shown.frame.height else {}
        if self._shown["view"] != "paired" or row.get("p_value") is None:
            return shown.notes
        self._tests[shown.code] = row["p_value"]
        adjusted = adjust(list(self._tests.values()))["holm"]
        mine = adjusted[list(self._tests).index(shown.code)]
        looked = len(self._tests)
        said = "comparison" if looked == 1 else "comparisons"
        return [*shown.notes, f"{looked} {said} looked at: Holm-adjusted p = {mine:.3g}"]

    def _clicked(self, trace: Any, points: Any, _: Any) -> None:
        """List the responses behind the dot or cell that was clicked."""
        if not points.point_inds or self._look is None:
            return
        state = self._shown
        at = behind.point(state, self._look, points.point_inds[0], trace.name)
        try:
            found = behind.responses(self._con, state, at)
        except RagbenchError as problem:
            self._notes.value = _lines(f"<b>{_safe(problem)}</b>")
            return
        more = f" (the first {behind.MOST})" if found.height == behind.MOST else ""
        self._list(found, f"<b>Responses</b> {_safe(behind.words(at))}{more}:")

    def _list(self, found: pl.DataFrame, heading: str) -> None:
        """Offer responses to be read."""
        self.listed = found
        self._heading.value = _lines(heading)
        rows = enumerate(found.iter_rows(named=True))
        self._responses.options = [(_line(row), number) for number, row in rows]
        self._responses.layout.display = None if found.height else "none"
        self._responses.value = None

    def _read(self, change: Any) -> None:
        if change["new"] is None:
            self._page.value = ""
            return
        row = self.listed.row(change["new"], named=True)
        page = reading(self._con, row["response_id"], self._shown["panel"], beside=row["beside"])
        self._page.value = page._repr_html_()

    def _store(self, _: Any) -> None:
        """Save what is shown, with its numbers and provenance."""
        if self._look is None:
            return
        try:
            files = output.save(
                self._look.figure,
                Path(self._stem.value),
                frame=self._look.frame,
                con=self._con,
                call=self._look.code,
                formats=("html", "svg", "png"),
            )
        except RagbenchError as problem:
            self._saved.value = _safe(problem)
            return
        written = ", ".join(files.filter(pl.col("note") == "")["format"])
        missing = files.filter(pl.col("note") != "")
        left_out = (
            f"; {', '.join(missing['format'])} {missing['note'][0]}" if missing.height else ""
        )
        self._saved.value = _lines(_safe(f"saved {self._stem.value}: {written}{left_out}"))

    # ------------------------------------------------------------ its parts

    def _with_a_panel(self, state: dict[str, Any]) -> dict[str, Any]:
        """`state`, with the first of several panels where it leaves open whose verdicts are meant.

        One number must not mix them, and whoever explores sees which it is and can choose another.
        """
        fitting = panel_names(self._con.cursor(), None)
        says = state["panel"] is not None or "panel" in (state["by"], state["across"])
        if says or "panel" in state["where"] or len(fitting) == 1:
            return state
        return {**state, "panel": fitting[0]}

    def _made_controls(self) -> dict[str, Any]:
        own = list(criteria_of(self._con.cursor()))
        metrics = [(clean(metric_label(name)), name) for name in [*(m.name for m in METRICS), *own]]
        panels = [("primary", "")]  # a dropdown shows nothing for None
        panels += [
            (clean(row[0]), row[0])
            for row in self._con.cursor()
            .execute("SELECT panel FROM panels ORDER BY panel")
            .fetchall()
        ]
        panel_names(self._con.cursor(), None)  # complains when nothing has been judged yet
        groups = [(name.replace("_", " "), name) for name in GROUPINGS]
        sides = [("–", ())] + [
            (f"{name.replace('_', ' ')}: {shown}", ((name, value),))
            for name in _SIDES
            for shown, value in _values(self._con, name)
        ]
        return {
            "view": _dropdown("view", [(name, name) for name in VIEWS]),
            "metric": _dropdown("metric", metrics),
            "by": _dropdown("by", groups),
            "across": _dropdown("across", groups),
            "panel": _dropdown("panel", panels),
            "a": _dropdown("a", sides, "28em"),
            "b": _dropdown("b", sides, "28em"),
        }

    def _made_filters(self) -> dict[str, w.SelectMultiple]:
        filters = {}
        for name in FILTERS:
            values = _values(self._con, name)
            if len(values) > 1:
                filters[name] = w.SelectMultiple(
                    options=values,
                    description=name.replace("_", " "),
                    rows=min(5, len(values)),
                    layout=w.Layout(width="24em"),
                    style={"description_width": "8em"},
                )
        return filters


def _lines(text: str) -> str:
    """A text of several lines, set as text; a widget's line is as high as a button."""
    return f'<div style="line-height:1.4">{text}</div>' if text else ""


def _flow() -> w.Layout:
    """A layout of its own for each box: `close_all` closes it with the box."""
    return w.Layout(flex_flow="row wrap")


def _dropdown(name: str, options: list[tuple[str, Any]], wide: str = "15em") -> w.Dropdown:
    """A dropdown that shares its line with others, each at least about `wide`."""
    return w.Dropdown(
        options=options,
        description=name,
        layout=w.Layout(width="auto", min_width="10em", max_width="34em", flex=f"1 1 {wide}"),
        style={"description_width": "4em"},
        value=options[0][1],
    )


def _values(con: duckdb.DuckDBPyConnection, name: str) -> list[tuple[str, Any]]:
    """The values of a column in the study, as they are shown and as they are."""
    source = "planned_responses AS s LEFT JOIN models AS m ON m.model = s.model"
    if name in OF_CONSTRAINTS:
        source = "constraints AS c LEFT JOIN dimensions AS d ON d.dimension = c.dimension"
    rows = (
        con.cursor()
        .execute(
            f"SELECT DISTINCT {CONSTRAINT_COLUMNS[name]} AS value FROM {source} "
            "ORDER BY value NULLS LAST"
        )
        .fetchall()
    )
    return [(_shown_value(value), value) for (value,) in rows]


def _shown_value(value: Any) -> str:
    words = {None: "none", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else clean(value)


def _line(row: Mapping[str, Any]) -> str:
    parts = [row["domain"], row["context_mode"], row["response_id"]]
    met = f"{row['satisfied']} of {row['planned']} met"
    lost = "" if row["judged"] == row["planned"] else f", {row['planned'] - row['judged']} open"
    return " · ".join([met + lost, *(clean(part) for part in parts if part)])
