"""The ledger of a tape: what is alive, by category, and the points at which it could be at its highest."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from service.estimator.tape import sizes
from service.estimator.tape.sizes import Size


class Category(StrEnum):
    """The component that a storage belongs to; ``GRADIENTS`` counts elements, all others count bytes."""

    ACTIVATIONS = "activations"
    LOGITS = "logits"
    GRADIENTS = "gradients"
    GATHERED_WEIGHTS = "gathered_weights"
    COMMUNICATION = "communication_buffers"
    KV_CACHE = "kv_cache"
    RECURRENT_STATE = "recurrent_state"
    TEMPORARIES = "temporaries"


class Section(StrEnum):
    """Parts of a pass; the instants and phases of an answer are maxima over them."""

    __hash__ = str.__hash__
    """An enumeration's own is written in Python, and every answer looks sections up a dozen times."""

    FORWARD = "forward"
    LOSS_FORWARD = "loss_forward"
    LOSS_BACKWARD = "loss_backward"
    BACKWARD = "backward"
    PREFILL = "prefill"
    DECODE = "decode"
    FIRST_DECODE = "first_decode"
    """the first decode step after a prompt beyond the window, which layers with a window drop then"""


class Storage:
    """One block of memory with a reference count; ``size`` is in bytes, ``event`` its place in a log where one is kept."""

    __slots__ = ("category", "event", "references", "size")

    def __init__(self, category: Category, size: Size) -> None:
        """Start with one reference."""
        self.category = category
        self.size = size
        self.references = 1
        self.event: int | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """What is alive at one moment: ``live`` by category, ``bytes`` without gradients, ``gradients`` in elements."""

    live: tuple[tuple[Category, Size], ...]
    bytes: Size
    gradients: int
    parts: tuple[tuple[str, Size], ...]
    """What ``live`` counts in bytes, by the names that an answer gives them."""

    def parts_at(self, values: Size) -> dict[str, int]:
        """Return the bytes of each part, gradients left out, for the given values of the monomials."""
        _, g, h, i, j, k = values
        return {name: a + b * g + c * h + d * i + e * j + f * k for name, (a, b, c, d, e, f) in self.parts}

    def part_at(self, part: str, values: Size) -> int:
        """Return the bytes of one part, 0 where the point has none of it."""
        return next((sizes.evaluate(size, values) for name, size in self.parts if name == part), 0)

    def covers(self, other: "Point") -> bool:
        """Tell whether this point is at least as high as another for every batch, sequence and price of a gradient."""
        return self.gradients >= other.gradients and sizes.covers(self.bytes, other.bytes)


def highest_of(points: Iterable[Point], values: Size, *, gradient_bytes: int = 0, shards: int = 1) -> Point:
    """Return the highest of at least one point, where a gradient costs so many bytes an element, spread over ``shards``.

    Every answer prices dozens of points: the polynomial is written out here, because a call for each would cost more than it.
    """
    _, g, h, i, j, k = values
    best: Point | None = None
    most = -1
    for point in points:
        a, b, c, d, e, f = point.bytes
        price = a + b * g + c * h + d * i + e * j + f * k + point.gradients * gradient_bytes // shards
        if price > most:
            best, most = point, price
    assert best is not None, "a section that is priced has a point"  # noqa: S101 - the caller asked for points that are there
    return best


Live = dict[Category, Size]


class Ledger:
    """Counts live bytes; a point is taken where memory stops rising."""

    __slots__ = ("_rising", "live", "points", "section")

    def __init__(self, section: Section) -> None:
        """Start empty in a section."""
        self.section = section
        self.live: Live = {}
        self.points: dict[Section, list[Live]] = {section: []}
        self._rising = False

    def enter(self, section: Section) -> None:
        """Go on in another section."""
        self._take()
        self.section = section
        self.points.setdefault(section, [])

    def add(self, category: Category, size: Size) -> None:
        """Count a new storage."""
        self.live[category] = sizes.add(self.live.get(category, sizes.ZERO), size)
        self._rising = True

    def remove(self, category: Category, size: Size) -> None:
        """Count a storage out, after taking a point if memory was rising."""
        self._take()
        self.live[category] = sizes.subtract(self.live.get(category, sizes.ZERO), size)

    def convert(self, storage: Storage, gradient_elements: int) -> None:
        """Turn a storage into a stored gradient of so many elements; nothing is allocated."""
        self.remove(storage.category, storage.size)
        self.store_gradients(gradient_elements)

    def store_gradients(self, elements: int, *, new: bool = False) -> None:
        """Count so many elements of stored gradients, whatever one of them costs; ``new`` ones are allocated now."""
        self._rising = self._rising or new
        self.live[Category.GRADIENTS] = sizes.add(self.live.get(Category.GRADIENTS, sizes.ZERO), sizes.constant(elements))

    def mark(self) -> int:
        """Return how many points the section has, for ``shift`` and ``echo``."""
        self._take()
        return len(self.points[self.section])

    def snapshot(self) -> Live:
        """Return what is alive now."""
        self._take()
        return dict(self.live)

    def growth_since(self, before: Live) -> Live:
        """Return what has been added since a snapshot."""
        return {key: sizes.subtract(size, before.get(key, sizes.ZERO)) for key, size in self.live.items()}

    def shift(self, mark: int, growth: Live, factor: int) -> None:
        """Raise the points since ``mark`` and what is alive by ``factor`` times ``growth``."""
        self._take()
        points = self.points[self.section]
        points[mark:] = [_raised(point, growth, factor) for point in points[mark:]]
        self.live = _raised(self.live, growth, factor)

    def echo(self, mark: int, growth: Live, factor: int) -> None:
        """Repeat the points since ``mark``, raised by ``factor`` times ``growth``, and raise what is alive."""
        self._take()
        points = self.points[self.section]
        points.extend([_raised(point, growth, factor) for point in points[mark:]])
        self.live = _raised(self.live, growth, factor)

    def _take(self) -> None:
        if self._rising:
            self.points[self.section].append(dict(self.live))
            self._rising = False

    def highest(self) -> dict[Section, tuple[Point, ...]]:
        """Return, per section, the points that no other point covers."""
        self._take()
        return {section: _frontier(points) for section, points in self.points.items()}


def _raised(live: Live, growth: Live, factor: int) -> Live:
    raised = dict(live)
    for key, size in growth.items():
        if size != sizes.ZERO:
            raised[key] = sizes.add(raised.get(key, sizes.ZERO), sizes.scale(size, factor))
    return raised


def _point(live: Live) -> Point:
    kept = tuple((key, size) for key, size in live.items() if size != sizes.ZERO)
    gradients = live.get(Category.GRADIENTS, sizes.ZERO)[0]
    parts = tuple((key.value, size) for key, size in kept if key is not Category.GRADIENTS)
    return Point(kept, sizes.total(size for _, size in parts), gradients, parts)


def _frontier(lives: list[Live]) -> tuple[Point, ...]:
    kept: list[Point] = []
    points = sorted((_point(live) for live in lives), key=lambda point: sum(point.bytes), reverse=True)
    for point in points:
        if not any(other.covers(point) for other in kept):
            kept.append(point)
    return tuple(kept)
