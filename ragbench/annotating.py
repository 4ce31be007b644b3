"""The annotator: a person labels responses, or checks instances, with the keyboard.

It is blind to models, to judges and to other people.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from typing import Any

import anywidget
import ipywidgets as w
import polars as pl
import traitlets

from ragbench import labels, tables, taxonomy
from ragbench.cells import in_cell
from ragbench.contrasts import agreement
from ragbench.errors import RagbenchError
from ragbench.metrics import Where
from ragbench.reading import Reading, documents, heading, retrieved
from ragbench.store import connect
from ragbench.style import clean

_KEYS = """
function render({ model, el }) {
  const box = document.createElement("div");
  box.tabIndex = 0;
  box.className = "ragbench-keys";
  box.style.cssText = "padding:6px 10px;border:1px solid #888;border-radius:4px;cursor:pointer";
  const said = () => { box.textContent = model.get("hint"); };
  model.on("change:hint", said);
  said();
  el.appendChild(box);
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    model.set("pressed", event.key + "\\u0000" + Date.now() + Math.random());
    model.save_changes();
  });
}
export default { render };
"""


_BUTTONS = (("Yes", "y"), ("No", "n"), ("Skip", "s"), ("Undo", "u"), ("Back", "b"))


class _Keys(anywidget.AnyWidget):  # type: ignore[misc]
    """A box that, clicked once, hands over each key that is pressed."""

    _esm = _KEYS
    hint = traitlets.Unicode("").tag(sync=True)
    pressed = traitlets.Unicode("").tag(sync=True)


def annotator(
    path: str | os.PathLike[str],
    task: str,
    expert: str,
    *,
    n: int | None = None,
    seed: int = 0,
    strata: Sequence[str] | None = None,
    where: Where = None,
) -> Annotator:
    """A widget in which `expert` labels responses of the study at `path` for `task`.

    `task` is a criterion of responses, `adherence`, or a dimension (see `labels.sample`, also for
    the other arguments). Neither the model nor any verdict is shown, nor the
    context's mode and the roles of its documents. Keys: y or 1 yes, n or 0 no,
    s skip, u undo, b back, for criteria with a wider range a digit. Each label is safe at once;
    calling it again goes on where it stopped. *Finish* makes the labels verdicts of a human judge,
    and shows agreement with other people and what is to be settled.

    The expert checks, `query_consistency` and `context_validity`, are tasks too: instances are
    shown before use, without any response; for the second with the mode that the context is to
    have. They become rows of `verifications`. An instance that fails one check leaves all scores,
    for every model and judge, and stays out: *Finish* asks once more before it stores failures.

    Raises:
        UnknownName, UnknownColumn: a task, stratum or filter that the study does not have.
        RagbenchError: nothing to label, or the name cannot be that of an expert.

    Example:
        >>> annotator("my.duckdb", "rejection", "ann", n=50)  # doctest: +SKIP
    """
    given = labels.Labels(path, task, expert)
    if not given.items:
        if strata is None:
            strata = labels.strata_of(task)
        about = {"seed": seed, "strata": list(strata), "n": n, "where": dict(where or {})}
        given.begin(
            labels.sample(connect(path), task, n, seed=seed, strata=strata, where=where), **about
        )
    return in_cell(lambda: Annotator(given))


class Annotator(w.VBox):  # type: ignore[misc]
    """The widget that `annotator` makes."""

    def __init__(self, given: labels.Labels) -> None:
        self.labels = given
        self._con = connect(given.study)
        self._is_check = given.task in labels.CHECKS
        self._ends = _range(self._con, given.items[0])
        self._at = given.next() or 0
        self._is_warned = False
        self._keys = _Keys()
        self._bar = w.IntProgress(max=len(given.items), layout=w.Layout(width="20em"))
        self._said, self._question, self._page, self._end = (w.HTML() for _ in range(4))
        self._note = w.Text(placeholder="note (optional)", layout=w.Layout(width="30em"))
        buttons = [self._button(text, key) for text, key in _BUTTONS]
        self._done = w.Button(description="Finish", button_style="primary")
        self._done.on_click(lambda _: self._finish())
        self._keys.observe(lambda change: self.press(change["new"].split("\0")[0]), "pressed")
        flow = w.Layout(flex_flow="row wrap")
        super().__init__(
            [
                w.HBox([self._bar, self._said], layout=flow),
                w.HBox([*buttons, self._note, self._done], layout=flow),
                self._question,
                self._keys,
                self._page,
                self._end,
            ]
        )
        self._show()

    def _button(self, text: str, key: str) -> w.Button:
        button = w.Button(description=text, layout=w.Layout(width="5em"))
        button.on_click(lambda _: self.press(key))
        return button

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The live widget, and its first page for where no kernel runs."""
        bundle: dict[str, Any] = dict(super()._repr_mimebundle_(**kwargs))
        return bundle | {"text/html": f"<p>{self._said.value}</p>{self._page.value}"}

    def close(self) -> None:
        """Close the widget and its connection: the notebook's outputs hold on to it."""
        super().close()
        self._con.close()

    def press(self, key: str) -> None:
        """Do what the key says; keys without a meaning do nothing."""
        low, high = self._ends
        score = {"y": high, "n": low}.get(key.lower())
        if score is None and key.isdigit() and low <= int(key) <= high:
            score = float(key)
        last = len(self.labels.items) - 1
        try:
            if score is not None:
                self.labels.put(self._at, score, self._note.value)
                self._at = min(self._at + 1, last)
            elif key.lower() == "s":
                self._at = min(self._at + 1, last)
            elif key.lower() == "b":
                self._at = max(self._at - 1, 0)
            elif key.lower() == "u":
                back = self.labels.undo()
                self._at = self._at if back is None else back
            else:
                return
        except OSError as problem:
            self._end.value = (
                f"<b>Not saved: {html.escape(problem.strerror or str(problem))}.</b> The label "
                "before is safe; free some space and label this one again."
            )
            return
        self._is_warned = False
        self._end.value = ""
        self._show()

    def _show(self) -> None:
        given, item = self.labels, self.labels.items[self._at]
        mine = given.labels.get(self._at)
        self._note.value = mine[1] if mine else ""
        self._bar.value = len(given.labels)
        now = "no label yet" if mine is None else f"your label: {mine[0]:g}"
        done = f"{len(given.labels)} of {len(given.items)} labelled"
        self._said.value = f"{done} · item {self._at + 1}: <b>{now}</b>"
        name, text = _asked(self._con, item)
        asked = f"<b>{html.escape(clean(name))}</b>: {html.escape(clean(text or ''))}"
        if self._is_check:
            asked += f"<div><small>{_OUT}</small></div>"
        self._question.value = f'<div style="{_LINES}">{asked}</div>'
        low, high = self._ends
        digits = "" if (low, high) == (0, 1) else f" or a digit from {low:g} to {high:g}"
        self._keys.hint = (
            f"Click here, then: y yes, n no{digits}; s skip, u undo, b back. "
            "Notes: in the field above."
        )
        self._page.value = _blind(self._con, item)._repr_html_()

    def _finish(self) -> None:
        """Store the labels, and show how far people agree."""
        given = self.labels
        failed = 0 if self._is_warned else given.failures()
        if failed:
            self._is_warned = True
            self._end.value = (
                f"<b>{failed} of {len(given.labels)} failed.</b> {_OUT} Nothing is stored yet: "
                "press Finish again to store them."
            )
            return
        try:
            made = given.finish()
            con = connect(given.study)
            parts = [f"{made['verdicts'].item()} verdicts of {html.escape(given.expert)} stored."]
            if kept := made["kept"].item():
                parts.append(
                    f"<b>{kept} labels were changed after they had been stored: the verdicts in "
                    "the study stay as they were.</b>"
                )
            agreed = _agreed(con, given.items[0])
            parts += [_table(agreed)] if agreed.height else []
            apart = labels.disagreements(con, given.task)
            parts.append(f"<b>To be settled: {apart.height}</b>")
            parts += [_table(apart)] if apart.height else []
            self._end.value = "".join(f"<div>{part}</div>" for part in parts)
        except RagbenchError as problem:
            self._end.value = f"<b>{html.escape(clean(problem))}</b>"


_LINES = "line-height:1.45;max-width:70em;margin:.3em 0"  # widgets would set lines far apart
_OUT = (
    "Once stored, an instance that fails one check of one person leaves all scores, for every "
    "model and judge."
)


def _table(frame: pl.DataFrame) -> str:
    return tables.html(frame).as_raw_html()


def _agreed(con: Any, item: labels.Item | labels.Check) -> pl.DataFrame:
    """How far people agree; without rows when there are fewer than two."""
    if isinstance(item, labels.Check):
        return labels.check_agreement(con, item.check)
    people = con.sql(
        "SELECT DISTINCT judge FROM judgments JOIN judges USING (judge) "
        "WHERE kind = 'human' AND criterion = ? ORDER BY 1",
        params=[item.criterion],
    ).fetchall()
    if len(people) < 2:
        return pl.DataFrame()
    return agreement(con, item.criterion, [row[0] for row in people])


def _range(con: Any, item: labels.Item | labels.Check) -> tuple[float, float]:
    if isinstance(item, labels.Check):
        return 0.0, 1.0
    found = con.sql(
        "SELECT lowest, highest FROM criteria WHERE criterion = ?", params=[item.criterion]
    ).fetchall()
    return float(found[0][0]), float(found[0][1])


def _asked(con: Any, item: labels.Item | labels.Check) -> tuple[str, str | None]:
    """What a label is about: a dimension and a constraint, or a criterion or check explained."""
    if isinstance(item, labels.Check):
        return item.check.replace("_", " "), labels.CHECKS[item.check].format(_meant(con, item))
    sql, key = (
        ("SELECT dimension, text FROM constraints WHERE constraint_id = ?", item.target_id)
        if item.criterion == "adherence"
        else ("SELECT criterion, description FROM criteria WHERE criterion = ?", item.criterion)
    )
    name, text = con.sql(sql, params=[key]).fetchall()[0]
    return str(name), text


def _meant(con: Any, item: labels.Check) -> str:
    """What the context of an instance is to be."""
    found = con.execute(
        "SELECT context_mode::VARCHAR FROM instances WHERE instance_id = ?", [item.instance_id]
    ).fetchall()
    mode = next(entry for entry in taxonomy.CONTEXT_MODES if entry.key == found[0][0])
    meaning = mode.meaning.partition(":")[0]  # what follows is what the model is to do
    return f"{mode.label} – {meaning}"


def _blind(con: Any, item: labels.Item | labels.Check) -> Reading:
    """What is to be labelled, without model and verdicts, and without what gives the label away."""
    if isinstance(item, labels.Check):
        return _unused(con, item)
    name, text = _asked(con, item)
    row = {"dimension": name, "constraint": text, "verdict": "to label", "reason": "", "judge": ""}
    about = {**heading(con, item.response_id), "model": None, "setting": None}
    about["context_mode"] = None  # a gap says that the right answer is to decline
    shown = documents(con, item.response_id).with_columns(role=pl.lit(""))
    return Reading(about, shown, pl.DataFrame([row]), "not shown")


def _unused(con: Any, item: labels.Check) -> Reading:
    """An instance before use: query and requirements, and what its context is to be, if asked."""
    key = [item.instance_id]
    about = con.sql(
        "SELECT q.text AS query, q.domain, i.context_mode::VARCHAR AS context_mode "
        "FROM instances AS i LEFT JOIN queries AS q USING (query_id) WHERE i.instance_id = ?",
        params=key,
    ).pl()
    demanded = con.sql(
        'SELECT coalesce(d.label, c.dimension) AS dimension, c.text AS "constraint" '
        "FROM instance_constraints AS ic JOIN constraints AS c USING (constraint_id) "
        "LEFT JOIN dimensions AS d USING (dimension) WHERE ic.instance_id = ? ORDER BY ic.ordinal",
        params=key,
    ).pl()
    head = about.row(0, named=True)
    shown = None
    if item.check == "query_consistency":
        head["context_mode"] = None  # the requirements are to suit the query, whatever is retrieved
    else:
        shown = retrieved(con, item.instance_id).with_columns(role=pl.lit(""))
    return Reading(head, shown, demanded, "")
