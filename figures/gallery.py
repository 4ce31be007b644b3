"""Run the code of figures/README.md and draw the pictures that it shows, each beside this file.

ragbench sample simulated.duckdb --seed 0
python figures/gallery.py
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from PIL import Image

from ragbench import render

FOLDER = Path(__file__).resolve().parent
SCALE = 2.0  # 960 pixels wide: sharp on a page


def pictures() -> list[str]:
    """The names of the pictures that the page shows; the code has a figure of each name."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    return re.findall(r"!\[[^\]]*\]\((\w+)\.png\)", text)


def run() -> dict[str, Any]:
    """Every name that the code of the page defines, run from top to bottom in this directory."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "figures/README.md", "exec"), names)
    return names


def draw(figure: go.Figure, path: Path) -> None:
    """Write one picture of the page, in at most 128 colours: a third of the bytes."""
    drawn = Image.open(io.BytesIO(render.images(figure, ["png"], scale=SCALE)["png"]))
    drawn.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    made = run()
    for name in pictures():
        draw(made[name], FOLDER / f"{name}.png")
        print(f"{name}.png")
