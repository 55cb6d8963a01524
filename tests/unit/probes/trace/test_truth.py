"""Cases that were traced independently, traced by ourselves; all of them in
``tests.accuracy.traced``.
"""

import pytest

from tests.accuracy.cases import serving_cases, training_cases
from tests.accuracy.traced import LIMIT, Case
from tests.traces.scoring import score_kept

CASES = (
    "train-56",  # eager, pure bf16
    "train-64",  # the math kernel
    "train-73",  # the memory-efficient kernel, checkpointing
    "train-88",  # fp32, sgd
    "train-192",  # experts
    "train-202",  # experts with sinks, eager
    "breadth-45",  # dense and expert layers
    "breadth-41",  # adapters, checkpointing
    "breadth-60",  # fused AdamW, norms of queries and keys
    "breadth-165",  # an encoder
    "serve-2",
    "serve-20",  # experts
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
)  # PEFT still asks


def case_named(name: str) -> Case:
    """Return a traced case."""
    cases: list[Case] = [*training_cases(), *serving_cases()]
    return next(case for case in cases if case.id == name)


@pytest.mark.parametrize("name", CASES)
def test_a_trace_is_what_was_traced_independently(name: str) -> None:
    """The highest bytes are the same within a tenth of a per cent; all of these are the same to a
    few hundred bytes.
    """
    scored = score_kept(case_named(name))

    assert abs(scored.error) <= LIMIT
