"""Live bytes by category, and the candidate points for the peak."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter

from service.estimator.tape import sizes
from service.estimator.tape.compiling import mypyc_attr
from service.estimator.tape.sizes import Size


class Category(StrEnum):
    """Memory component of a storage.

    ``GRADIENTS`` counts elements, all others count bytes.
    """

    ACTIVATIONS = "activations"
    LOGITS = "logits"
    GRADIENTS = "gradients"
    GATHERED_WEIGHTS = "gathered_weights"
    COMMUNICATION = "communication_buffers"
    KV_CACHE = "kv_cache"
    RECURRENT_STATE = "recurrent_state"
    TEMPORARIES = "temporaries"


class Section(StrEnum):
    """Parts of a pass.

    The instants and phases of an answer are maxima over them.
    """

    __hash__ = str.__hash__
    """An enumeration's own is written in Python, and every answer looks sections up a dozen times.
    """

    FORWARD = "forward"
    LOSS_FORWARD = "loss_forward"
    LOSS_BACKWARD = "loss_backward"
    BACKWARD = "backward"
    PREFILL = "prefill"
    DECODE = "decode"
    FIRST_DECODE = "first_decode"
    """the first decode step after a prompt beyond the window, which layers with a window drop then
    """


class Storage:
    """One block of memory with a reference count.

    ``size`` is in bytes, ``event`` its place in a log where one is kept.
    """

    __slots__ = ("category", "event", "references", "size")

    def __init__(self, category: Category, size: Size) -> None:
        """Start with one reference."""
        self.category = category
        self.size = size
        self.references = 1
        self.event: int | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """Live memory at one moment.

    ``live`` is by category, ``bytes`` is without gradients, ``gradients`` is in elements.
    """

    live: tuple[tuple[Category, Size], ...]
    bytes: Size
    gradients: int
    parts: tuple[tuple[str, Size], ...]
    """What ``live`` counts in bytes, by the names that an answer gives them."""

    def evaluate_parts(self, values: Size) -> dict[str, int]:
        """Return the bytes of each part for given monomial values.

        Gradients are left out.
        """
        _, g, h, i, j, k = values
        return {
            name: a + b * g + c * h + d * i + e * j + f * k
            for name, (a, b, c, d, e, f) in self.parts
        }

    def evaluate_part(self, part: str, values: Size) -> int:
        """Return the bytes of one part, 0 where it is absent."""
        return next((sizes.evaluate(size, values) for name, size in self.parts if name == part), 0)


def find_highest_point(
    points: Iterable[Point], values: Size, *, gradient_bytes: int = 0, shards: int = 1
) -> Point:
    """Return the highest of at least one point.

    A gradient costs ``gradient_bytes`` an element, spread over ``shards``. Every answer prices
    dozens of points: the polynomial is written out here, because a call for each would cost more
    than it.
    """
    _, g, h, i, j, k = values
    best: Point | None = None
    highest_price = -1
    for point in points:
        a, b, c, d, e, f = point.bytes
        price = (
            a + b * g + c * h + d * i + e * j + f * k + point.gradients * gradient_bytes // shards
        )
        if price > highest_price:
            best, highest_price = point, price
    assert best is not None, "a section that is priced has a point"  # noqa: S101 - the caller asked for points that are there
    return best


Live = dict[Category, Size]


@mypyc_attr(allow_interpreted_subclasses=True)
class Ledger:
    """Counter of live bytes.

    A point is taken where memory stops rising.
    """

    __slots__ = ("_rising", "live", "points", "section")

    def __init__(self, section: Section) -> None:
        """Start empty in a section."""
        self.section = section
        self.live: Live = {}
        self.points: dict[Section, list[Live]] = {section: []}
        self._rising = False

    def enter(self, section: Section) -> None:
        """Go on in another section."""
        self._take_point()
        self.section = section
        self.points.setdefault(section, [])

    def add(self, category: Category, size: Size) -> None:
        """Count a new storage."""
        self.live[category] = sizes.add(self.live.get(category, sizes.ZERO), size)
        self._rising = True

    def remove(self, category: Category, size: Size) -> None:
        """Count a storage out.

        A point is taken first if memory was rising.
        """
        self._take_point()
        self.live[category] = sizes.subtract(self.live.get(category, sizes.ZERO), size)

    def convert(self, storage: Storage, gradient_elements: int) -> None:
        """Turn a storage into a stored gradient of so many elements.

        Nothing is allocated.
        """
        self.remove(storage.category, storage.size)
        self.store_gradients(gradient_elements)

    def store_gradients(self, elements: int, *, new: bool = False) -> None:
        """Count so many elements of stored gradients, whatever one costs.

        ``new`` ones are allocated now.
        """
        self._rising = self._rising or new
        self.live[Category.GRADIENTS] = sizes.add(
            self.live.get(Category.GRADIENTS, sizes.ZERO), sizes.constant(elements)
        )

    def mark(self) -> int:
        """Return the number of points in the section.

        ``raise_points`` and ``repeat_points`` take it as the place where to begin.
        """
        self._take_point()
        return len(self.points[self.section])

    def snapshot(self) -> Live:
        """Return what is alive now."""
        self._take_point()
        return dict(self.live)

    def growth_since(self, before: Live) -> Live:
        """Return what has been added since a snapshot."""
        return {
            key: sizes.subtract(size, before.get(key, sizes.ZERO))
            for key, size in self.live.items()
        }

    def raise_points(self, mark: int, growth: Live, factor: int) -> None:
        """Raise the points since ``mark`` and live memory.

        They rise by ``factor`` times ``growth``.
        """
        self._take_point()
        points = self.points[self.section]
        points[mark:] = [_raise_live(point, growth, factor) for point in points[mark:]]
        self.live = _raise_live(self.live, growth, factor)

    def repeat_points(self, mark: int, growth: Live, factor: int) -> None:
        """Repeat the points since ``mark``, raised, and raise live memory.

        Both rise by ``factor`` times ``growth``.
        """
        self._take_point()
        points = self.points[self.section]
        points.extend([_raise_live(point, growth, factor) for point in points[mark:]])
        self.live = _raise_live(self.live, growth, factor)

    def _take_point(self) -> None:
        if self._rising:
            self.points[self.section].append(dict(self.live))
            self._rising = False

    def find_peak_candidates(self) -> dict[Section, tuple[Point, ...]]:
        """Return the points of each section that no other point covers."""
        self._take_point()
        return {section: _find_frontier(points) for section, points in self.points.items()}


def _raise_live(live: Live, growth: Live, factor: int) -> Live:
    raised = dict(live)
    for key, size in growth.items():
        if size != sizes.ZERO:
            raised[key] = sizes.add(raised.get(key, sizes.ZERO), sizes.scale(size, factor))
    return raised


def build_point(live: Live) -> Point:
    """Return the point of live memory, without empty parts."""
    nonzero = tuple((key, size) for key, size in live.items() if size != sizes.ZERO)
    gradients = live.get(Category.GRADIENTS, sizes.ZERO)[0]
    parts = tuple((key.value, size) for key, size in nonzero if key is not Category.GRADIENTS)
    return Point(nonzero, sizes.total(size for _, size in parts), gradients, parts)


def _find_frontier(lives: list[Live]) -> tuple[Point, ...]:
    """Return the points that no other point covers, the largest first.

    A recording of a deep model takes thousands of points and keeps dozens: they are compared by
    their bounds, and become points when they are kept.
    """
    bounds: dict[_Bounds, int] = {}
    for index, live in enumerate(lives):
        bounds.setdefault(_bound(live), index)
    frontier: list[int] = []
    covering: list[_Bounds] = []
    for bound in sorted(bounds, key=itemgetter(_AT_ONE), reverse=True):
        rank = _find_covering(covering, bound)
        if rank is None:
            frontier.append(bounds[bound])
            covering.append(bound)
        elif rank:
            # A point that covers one mostly covers its neighbours as well: it is tried first.
            covering.insert(0, covering.pop(rank))
    return tuple([build_point(lives[index]) for index in frontier])


_Bounds = tuple[int, int, int, int, int, int, int]
_AT_ONE = 5
"""Place of the bytes at one sequence of one token."""


def _bound(live: Live) -> _Bounds:
    """Return the bounds of bytes and of gradients.

    None of them is larger in a point that is covered.
    """
    a = b = c = d = e = f = gradients = 0
    for key, (g, h, i, j, k, m) in live.items():
        if key is Category.GRADIENTS:
            gradients = g
        else:
            a, b, c, d, e, f = a + g, b + h, c + i, d + j, e + k, f + m
    return (*sizes.expand_at_one((a, b, c, d, e, f)), gradients)


def _find_covering(covering: list[_Bounds], bound: _Bounds) -> int | None:
    """Return the index of the first of some bounds that covers another."""
    a, b, c, d, e, f, g = bound
    for index, (h, i, j, k, m, n, o) in enumerate(covering):
        if o >= g and h >= a and i >= b and j >= c and k >= d and m >= e and n >= f:
            return index
    return None
