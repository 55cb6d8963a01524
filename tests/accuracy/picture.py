"""Draws predicted against traced bytes, both logarithmic, as an SVG without any library."""

from collections.abc import Iterator
from math import log10

from tests.accuracy.scoring import Score, Scores

_SIZE, _MARGIN = 560, 64
_LOWEST, _HIGHEST = 8.0, 12.0
"""Axes from 100 MB to 1 TB, as powers of ten."""
_TICKS = ((8, "100 MB"), (9, "1 GB"), (10, "10 GB"), (11, "100 GB"), (12, "1 TB"))
_SERIES = (
    ("training, reserved", "#e69f00", "training, reserved"),
    ("FSDP2 rank, reserved", "#cc79a7", "FSDP2 rank, reserved"),
    ("training, peak", "#0072b2", "training, allocated"),
    ("FSDP2 rank, peak", "#009e73", "FSDP2 rank, allocated"),
    ("serving, prefill", "#d55e00", "serving, prefill"),
)
"""Quantity, colour (Okabe and Ito's palette, told apart by colour-blind readers too) and legend,
the upper ones last.
"""


def scatter(scores: Scores) -> str:
    """Return the picture."""
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_SIZE}" height="{_SIZE}" fill="#ffffff"/>',
        *_axes(),
    ]
    for row, (quantity, colour, legend) in enumerate(_SERIES):
        parts += [_dot(score, colour) for score in scores.of(quantity)]
        parts += _legend(row, colour, legend)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _place(power: float) -> float:
    """Return how far a power of ten lies along an axis, in pixels from its origin."""
    return (power - _LOWEST) / (_HIGHEST - _LOWEST) * (_SIZE - 2 * _MARGIN)


def _x(power: float) -> str:
    return f"{_MARGIN + _place(power):.1f}"


def _y(power: float) -> str:
    return f"{_SIZE - _MARGIN - _place(power):.1f}"


def _axes() -> Iterator[str]:
    low, high = _LOWEST, _HIGHEST
    for power, name in _TICKS:
        yield _stroke(_x(power), _y(low), _x(power), _y(high), "#dddddd")
        yield _stroke(_x(low), _y(power), _x(high), _y(power), "#dddddd")
        yield f'<text x="{_x(power)}" y="{_SIZE - _MARGIN + 18}" text-anchor="middle">{name}</text>'
        yield (
            f'<text x="{_MARGIN - 6}" y="{_y(power)}" text-anchor="end" '
            f'dominant-baseline="middle">{name}</text>'
        )
    yield _stroke(_x(low), _y(low), _x(high), _y(high), "#888888")
    yield f'<text x="{_SIZE / 2}" y="{_SIZE - 18}" text-anchor="middle">traced</text>'
    yield (
        f'<text x="18" y="{_SIZE / 2}" text-anchor="middle" transform="rotate(-90 18 '
        f'{_SIZE / 2})">predicted</text>'
    )


def _stroke(x1: str, y1: str, x2: str, y2: str, colour: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"/>'


def _dot(score: Score, colour: str) -> str:
    x, y = _x(log10(score.traced)), _y(log10(score.predicted))
    return f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}" fill-opacity="0.6"/>'


def _legend(row: int, colour: str, name: str) -> list[str]:
    y = _MARGIN + 14 + 18 * row
    return [
        f'<circle cx="{_MARGIN + 14}" cy="{y}" r="4" fill="{colour}"/>',
        f'<text x="{_MARGIN + 26}" y="{y}" dominant-baseline="middle">{name}</text>',
    ]
