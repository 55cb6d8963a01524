"""Polynomials in batch and sequence, and the ledger of what is alive."""

from hypothesis import given
from hypothesis import strategies as st

from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Ledger, Point, Section, Storage

_SIZES = st.tuples(*[st.integers(0, 1000)] * 6)
_SMALL = st.integers(1, 50)


@given(_SIZES, _SIZES, st.integers(0, 9), _SMALL, _SMALL)
def test_arithmetic_on_sizes_is_arithmetic_on_bytes(
    left: sizes.Size, right: sizes.Size, factor: int, batch: int, sequence: int
) -> None:
    """Adding, scaling and subtracting polynomials commutes with putting numbers in."""
    values = sizes.evaluate_monomials(batch, sequence)

    def at(size: sizes.Size) -> int:
        return sizes.evaluate(size, values)

    assert at(sizes.add(left, right)) == at(left) + at(right)
    assert at(sizes.subtract(left, right)) == at(left) - at(right)
    assert at(sizes.scale(left, factor)) == factor * at(left)
    assert at(sizes.total([left, right, left])) == 2 * at(left) + at(right)


@given(_SIZES, _SIZES, _SMALL, _SMALL)
def test_a_covering_size_is_never_smaller(
    left: sizes.Size, right: sizes.Size, batch: int, sequence: int
) -> None:
    """What is dropped because another point covers it can decide no question."""
    values = sizes.evaluate_monomials(batch, sequence)

    if sizes.covers(left, right):
        assert sizes.evaluate(left, values) >= sizes.evaluate(right, values)


def test_each_monomial_has_a_name() -> None:
    """Three sequences of five tokens: 1, b, s, bs, ss, bss."""
    values = sizes.evaluate_monomials(3, 5)
    names = (
        sizes.constant,
        sizes.per_sequence,
        sizes.per_position,
        sizes.per_token,
        sizes.per_mask_element,
        sizes.per_score,
    )

    assert [sizes.evaluate(name(2), values) for name in names] == [2, 6, 10, 30, 50, 150]


def _ledger(*amounts: int) -> Ledger:
    """Return a ledger after adding (positive) and removing (negative) bytes."""
    ledger = Ledger(Section.FORWARD)
    for amount in amounts:
        if amount > 0:
            ledger.add(Category.ACTIVATIONS, sizes.constant(amount))
        else:
            ledger.remove(Category.ACTIVATIONS, sizes.constant(-amount))
    return ledger


def _bytes(points: tuple[Point, ...]) -> list[int]:
    return [point.bytes[0] for point in points]


def test_points_are_taken_where_memory_stops_rising() -> None:
    """Only local maxima are kept, and of those the ones that nothing covers."""
    assert _bytes(_ledger(5, 5, -3, 1, -8, 9).find_peak_candidates()[Section.FORWARD]) == [10]


def test_a_section_has_its_own_highest_points() -> None:
    """Entering a section ends the one before it."""
    ledger = _ledger(5)
    ledger.enter(Section.BACKWARD)
    ledger.remove(Category.ACTIVATIONS, sizes.constant(4))
    ledger.add(Category.ACTIVATIONS, sizes.constant(1))

    highest = ledger.find_peak_candidates()

    assert _bytes(highest[Section.FORWARD]) == [5]
    assert _bytes(highest[Section.BACKWARD]) == [2]


def test_a_point_with_more_gradients_is_not_covered_by_more_bytes() -> None:
    """A gradient's price is known only when the question comes, so both points must be kept."""
    ledger = _ledger(100)
    storage = Storage(Category.ACTIVATIONS, sizes.constant(90))
    ledger.convert(storage, 50)
    ledger.add(Category.ACTIVATIONS, sizes.constant(5))

    points = ledger.find_peak_candidates()[Section.FORWARD]

    assert [(point.bytes[0], point.gradients) for point in points] == [(100, 0), (15, 50)]


def test_growth_is_what_was_added_since_a_snapshot() -> None:
    """By category, those that did not change included."""
    ledger = _ledger(5)
    before = ledger.snapshot()
    ledger.add(Category.LOGITS, sizes.constant(7))

    assert ledger.growth_since(before) == {
        Category.ACTIVATIONS: sizes.ZERO,
        Category.LOGITS: sizes.constant(7),
    }


def test_shifting_raises_points_and_echoing_repeats_them() -> None:
    """Forward's points of a repeated block all move up; backward's are seen again at the level of
    the last block.
    """
    growth = {Category.ACTIVATIONS: sizes.constant(10)}
    shifted, echoed = _ledger(5), _ledger(5)

    shifted.raise_points(0, growth, 3)
    echoed.mark()
    echoed.repeat_points(0, growth, -2)

    assert [live[Category.ACTIVATIONS][0] for live in shifted.points[Section.FORWARD]] == [35]
    assert [live[Category.ACTIVATIONS][0] for live in echoed.points[Section.FORWARD]] == [5, -15]
    assert shifted.live == {Category.ACTIVATIONS: sizes.constant(35)}


@given(st.lists(st.tuples(_SIZES, st.booleans()), min_size=1, max_size=12), _SMALL, _SMALL)
def test_the_candidates_hold_the_highest_point(
    steps: list[tuple[sizes.Size, bool]], batch: int, sequence: int
) -> None:
    """Whatever batch and sequence, one of them is as high as memory ever was."""
    ledger, live = Ledger(Section.FORWARD), list[sizes.Size]()
    values, highest = sizes.evaluate_monomials(batch, sequence), 0
    for size, frees in steps:
        ledger.add(Category.ACTIVATIONS, size)
        live.append(size)
        highest = max(highest, sizes.evaluate(sizes.total(live), values))
        if frees:
            ledger.remove(Category.ACTIVATIONS, live.pop(0))

    points = ledger.find_peak_candidates()[Section.FORWARD]

    assert max(sizes.evaluate(point.bytes, values) for point in points) == highest
