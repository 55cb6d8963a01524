"""A run's length may be said in samples, which are counted in tokens."""

from typing import Any

import pytest
from msgspec import convert

from service.contract.schemas.workload import TrainRequest
from service.contract.to_question.workloads import read_workload
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import TrainWorkload


def _read(**fields: object) -> tuple[TrainWorkload, list[str]]:
    request = convert({"task": "train", "sequence_length": 512, **fields}, TrainRequest)
    workload, assumptions = read_workload(request)
    assert isinstance(workload, TrainWorkload)
    return workload, assumptions


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, 1000 * 512),
        ({"trainer": "reward"}, 1000 * 512 * 2),
        ({"sequence_lengths": {"100": 1, "300": 1}}, 1000 * 512),
        ({"sequence_lengths": {"100": 1, "900": 1}, "packing": "packed"}, 1000 * (100 + 512) // 2),
    ],
)
def test_samples_are_as_long_as_the_step_reads_them(fields: dict[str, Any], tokens: int) -> None:
    """Padded rows are whole sequences, pairs are two, packed samples have their own lengths."""
    workload, assumptions = _read(num_samples=1000, **fields)

    assert workload.num_tokens == tokens
    assert any(line.startswith(f"workload.num_tokens = {tokens}: ") for line in assumptions)


def test_a_run_has_one_length() -> None:
    """Samples and tokens together are refused, and without either nothing is said."""
    with pytest.raises(InvalidInputError, match="say one") as refused:
        _read(num_samples=10, num_tokens=5120)

    assert refused.value.field == "workload.num_samples"
    assert _read()[0].num_tokens is None
