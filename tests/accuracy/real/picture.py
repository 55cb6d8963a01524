"""Draws the answers of the clients' runs over their readings, as an SVG without any library."""

from collections.abc import Iterator, Sequence
from html import escape

from tests.accuracy.real.scoring import DEVICE, RealScore

_WIDTH, _ROW, _TOP, _LEFT, _RIGHT = 760, 22, 56, 210, 70
_LOWEST, _HIGHEST = -0.03, 0.03
_TICKS = (-0.03, -0.02, -0.01, 0.0, 0.01, 0.02, 0.03)
_POINT, _BAR, _AXIS = "#0072b2", "#9ecae1", "#dddddd"


def draw_runs(scores: Sequence[RealScore]) -> str:
    """Return the picture: a row for each run, its interval as a bar, its answer as a dot."""
    height = _TOP + _ROW * len(scores) + 16
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _write(_LEFT, 18, "device bytes: answer over what NVML read, bars are 0.95 intervals"),
        *_draw_axis(height),
    ]
    for row, score in enumerate(scores):
        parts += _draw_row(score, _TOP + _ROW * row)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_axis(height: int) -> Iterator[str]:
    for tick in _TICKS:
        x = _place(tick)
        colour = "#888888" if tick == 0 else _AXIS
        yield f'<path d="M{x:.1f} {_TOP - 10}V{height - 12}" stroke="{colour}"/>'
        yield _write(x, _TOP - 16, f"{tick:+.0%}" if tick else "exact", anchor="middle")


def _draw_row(score: RealScore, top: float) -> Iterator[str]:
    pair, middle = score.pairs[DEVICE], top + _ROW / 2
    low, high = (_place(end / pair.reading - 1) for end in (pair.interval.low, pair.interval.high))
    title = f"{score.group} {score.name}: {pair.error:+.2%}"
    yield _write(_LEFT - 8, middle + 4, f"{score.group} {score.model}", anchor="end")
    yield (
        f'<rect x="{low:.1f}" y="{middle - 5:.1f}" width="{max(high - low, 1):.1f}" height="10" '
        f'rx="2" fill="{_BAR}"/>'
    )
    yield (
        f'<circle cx="{_place(pair.error):.1f}" cy="{middle:.1f}" r="4" fill="{_POINT}">'
        f"<title>{escape(title)}</title></circle>"
    )
    yield _write(_WIDTH - 8, middle + 4, f"{pair.error:+.2%}", anchor="end")


def _place(error: float) -> float:
    """Return where an error lies across, the outermost ones at the edges."""
    share = (min(max(error, _LOWEST), _HIGHEST) - _LOWEST) / (_HIGHEST - _LOWEST)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _write(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
