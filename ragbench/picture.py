"""A plotly figure in a notebook that takes changes however slow the browser is."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import traitlets

from ragbench.draft import Draft

# Plotly's widget is one module of five megabytes, and anywidget gives a module two seconds to load:
# after that it drops every message to the widget for good, so on a busy machine the picture appears
# and never changes again. This module loads at once, keeps the messages that come before plotly's
# code is there, and loads that code once in a page, however many pictures the page has.
_LOADER = """
const load = async (code) => {
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  try {
    return await import(url);
  } finally {
    URL.revokeObjectURL(url);
  }
};
export default () => {
  let inner;
  return {
    initialize({ model }) {
      const early = [];
      const keepers = model.get("_messages").map((name) => [
        "change:" + name,
        () => early.push([name, model.get(name)]),
      ]);
      keepers.forEach(([event, keep]) => model.on(event, keep));
      const loaded = (globalThis.ragbench_loaded ??= new Map());
      const code = model.get("_code");
      if (!loaded.has(code)) loaded.set(code, load(code));
      inner = loaded.get(code).then((module) => {
        const widget = module.default();
        keepers.forEach(([event, keep]) => model.off(event, keep));
        widget.initialize({ model });
        early.forEach(([name, value]) => model.set(name, value));
        return widget;
      });
    },
    render: async (context) => (await inner).render(context),
  };
};
"""


class Picture(go.FigureWidget):  # type: ignore[misc]
    """A figure that a browser learns of when it is whole.

    Plotly announces it empty and sends what is in it afterwards; a browser that is still loading
    the code for it then draws empty axes, and leaves them.
    """

    _esm = _LOADER
    _code = traitlets.Unicode(str(go.FigureWidget._esm)).tag(sync=True)
    _messages = traitlets.List(
        [name for name in go.FigureWidget.class_trait_names() if name.startswith("_py2js_")]
    ).tag(sync=True)
    _is_whole = False
    layout: Any

    def __init__(self, figure: go.Figure) -> None:
        super().__init__(figure)
        self._config = {"displayModeBar": False}  # a bar of buttons on the numbers at the edge
        self._is_whole = True
        self.open()

    def open(self) -> None:
        """Tell the browser."""
        if self._is_whole:
            super().open()

    def draw(self, draft: Draft) -> None:
        """Show another figure.

        Raises:
            ValueError: a property that plotly does not know, or a value that it cannot have.
        """
        before = {*self.layout._props}
        with self.batch_update():
            self.data = ()
            self.layout = draft.whole_layout()
            self.add_traces(draft.traces)
        # What a layout leaves out stays in the browser until it is taken away by name.
        if gone := before - self.layout._props.keys():
            self._send_relayout_msg(dict.fromkeys(gone))
