"""Prices that decide: what is left out is never the first highest one."""

from hypothesis import given
from hypothesis import strategies as st

from service.estimator.memory.deciding_prices import select_deciding
from service.estimator.tape import sizes
from service.estimator.tape.sizes import Size

_COEFFICIENTS = st.integers(-3, 6)
_PRICES = st.lists(st.tuples(*[_COEFFICIENTS] * 6), min_size=1, max_size=8)


@given(_PRICES, st.integers(1, 9), st.integers(1, 9))
def test_the_first_highest_price_is_kept(prices: list[Size], batch: int, sequence: int) -> None:
    """At any batch and sequence, ties included."""
    values = sizes.evaluate_monomials(batch, sequence)
    totals = [sizes.evaluate(price, values) for price in prices]

    selected = select_deciding(prices)

    assert totals.index(max(totals)) in selected
    assert selected == sorted(selected)


def test_layers_in_between_decide_nothing() -> None:
    """Backward drops activations layer by layer and keeps gradients: its ends decide."""
    layers = [(100 + 10 * done, 0, 0, 64 - 8 * done, 0, 0) for done in range(8)]

    assert select_deciding(layers) == [0, 7]
