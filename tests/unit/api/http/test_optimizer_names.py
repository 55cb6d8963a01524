"""Names of optimizers in a request: ours, transformers', and those that are refused."""

import pytest

from service.contract.schemas.workload import TrainRequest
from service.estimator.values.optimizers import OptimizerName
from tests.unit.api.http.test_decoding import changed, fit, refusal


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("adamw_torch_fused", OptimizerName.ADAMW_FUSED),
        ("adamw_bnb_8bit", OptimizerName.ADAMW_8BIT),
        ("paged_lion_32bit", OptimizerName.PAGED_LION),
        ("ademamix", OptimizerName.ADEMAMIX),
    ],
)
def test_a_name_of_transformers_is_read(word: str, expected: OptimizerName) -> None:
    """What a user gives --optim means the optimizer that the Trainer builds."""
    workload = fit(changed("workload.optimizer", word)).workload

    assert isinstance(workload, TrainRequest)
    assert workload.optimizer is expected


@pytest.mark.parametrize(
    ("word", "nearest"),
    [("lomo", "sgd"), ("grokadamw", "adamw_loop"), ("galore_adafactor", "galore_adamw")],
)
def test_an_optimizer_without_a_term_is_refused_with_the_reason(word: str, nearest: str) -> None:
    """A name that transformers knows is no slip of the pen: it is told why it is refused."""
    field, message, hint = refusal(changed("workload.optimizer", word))

    assert (field, hint) == ("workload.optimizer", nearest)
    assert message.startswith(f"optimizer {word!r} has no term: ")
    assert message.endswith(f"The nearest is {nearest}.")
