"""Figure of a training step's memory, drawn from an answer.

``python -m deploy.release.memory_figure`` says whether ``docs/memory.svg`` is stale, ``--write``
replaces it.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from service.__main__ import main as run_headroom

FIGURE = Path(__file__).resolve().parents[2] / "docs" / "memory.svg"
QUESTION = "fit llama-3.2-1b --gpu L4 --task train --sequence-length 2048 --precision bf16"
_GIB = 2**30
_WIDTH, _HEIGHT = 760, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 570, 16, 320
_TICKS_GIB = (0, 5, 10, 15, 20)
_MOST_GIB = 24
_BAR_SHARE = 0.7
_BETWEEN = "between steps"
_COLORS = {
    "weights": "#0072b2",
    "gradients": "#009e73",
    "optimizer_states": "#e69f00",
    "activations": "#d55e00",
    "logits": "#f0e442",
    "temporaries": "#999933",
    _BETWEEN: "#8a8f98",
}
"""Component → color, in the order of a bar; between steps an answer has one sum."""
_LEVELS = {"usable": "#000000", "device": "#aa4499", "reserved": "#117733"}

Document = Mapping[str, Any]


def render_figure() -> str:
    """Return the figure as SVG."""
    answer = _ask()
    bars = {each["name"]: each["parts"] for each in answer["per_gpu"]["instants"]}
    bars[_BETWEEN] = {_BETWEEN: answer["per_gpu"]["steady_bytes"]}
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        "<title>Memory of one training step, by instant and component</title>",
        _draw_box(0, 0, _WIDTH, _HEIGHT, "#ffffff"),
        *_draw_axis(),
        *(line for index, name in enumerate(bars) for line in _draw_bar(index, name, bars)),
        *_draw_levels(answer),
        *_draw_legend({name for parts in bars.values() for name in parts}),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compare the figure with the answer; write it where that is asked for."""
    arguments = argparse.ArgumentParser(
        prog="python -m deploy.release.memory_figure", description=__doc__
    )
    arguments.add_argument("--write", action="store_true", help="replace docs/memory.svg")
    figure = render_figure()
    if arguments.parse_args().write:
        FIGURE.write_text(figure, encoding="utf-8")
    is_stale = figure != FIGURE.read_text(encoding="utf-8")
    if is_stale:
        command = "python -m deploy.release.memory_figure --write"
        sys.stdout.write(f"docs/memory.svg is stale; run `{command}`\n")
    return int(is_stale)


def _ask() -> Document:
    output = StringIO()
    with redirect_stdout(output):
        run_headroom([*QUESTION.split(), "--json"])
    answer: Document = json.loads(output.getvalue())
    return answer


def _draw_axis() -> Iterator[str]:
    for gib in _TICKS_GIB:
        y = _get_y(gib * _GIB)
        yield _draw_line(y, "#dddddd")
        yield _draw_text(_LEFT - 6, y + 4, f"{gib} GiB", anchor="end")
    yield _draw_text(_RIGHT, _BOTTOM + 34, "bars: allocated bytes, GiB", anchor="end")


def _draw_bar(index: int, name: str, bars: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    slot = (_RIGHT - _LEFT) / len(bars)
    x, width = _LEFT + slot * (index + (1 - _BAR_SHARE) / 2), slot * _BAR_SHARE
    total = 0
    for part, color in _COLORS.items():
        if size := bars[name].get(part, 0):
            total += size
            top, bottom = _get_y(total), _get_y(total - size)
            yield _draw_box(x, top, width, bottom - top, color)
    center = x + width / 2
    yield _draw_text(center, _get_y(total) - 4, f"{total / _GIB:.2f}", anchor="middle")
    yield _draw_text(center, _BOTTOM + 16, name.replace("_", " "), anchor="middle")


def _draw_levels(answer: Document) -> Iterator[str]:
    sizes = {"usable": answer["usable_bytes"]}
    sizes |= {name: answer["per_gpu"][f"{name}_bytes"] for name in ("device", "reserved")}
    for name, color in _LEVELS.items():
        y = _get_y(sizes[name])
        # Reserved lies close below device: its label goes below its line.
        label_y = y + 12 if name == "reserved" else y
        yield _draw_line(y, color, style=' stroke-width="2" stroke-dasharray="6 3"')
        yield _draw_text(_RIGHT + 6, label_y, f"{name} {sizes[name] / _GIB:.2f} GiB", fill=color)


def _draw_legend(components: set[str]) -> Iterator[str]:
    parts = [part for part in _COLORS if part in components and part != _BETWEEN]
    for row, part in enumerate(reversed(parts)):
        y = _BOTTOM - 18 * (len(parts) - row) + 12
        yield _draw_box(_RIGHT + 6, y - 10, 12, 12, _COLORS[part])
        yield _draw_text(_RIGHT + 24, y, part.replace("_", " "))


def _draw_box(x: float, y: float, width: float, height: float, fill: str) -> str:
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{fill}"/>'


def _draw_line(y: float, color: str, *, style: str = "") -> str:
    ends = f'x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
    return f'<line {ends} stroke="{color}"{style}/>'


def _draw_text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#000000"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{fill}">{text}</text>'


def _get_y(size: int) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * size / (_MOST_GIB * _GIB)


if __name__ == "__main__":
    sys.exit(main())
