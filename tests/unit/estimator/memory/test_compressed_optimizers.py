"""DeepSpeed's optimizers of one bit: copies of the weights, counted by hand from its source."""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.optimizers.table import get_optimizer, resolve_optimizer
from service.estimator.memory.optimizers.tensors import TrainedTensor
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.states import compute_train_states, count_saved_state_bytes
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Lora, Method
from tests.builders import a_device, a_model, a_training

_MATRIX = TrainedTensor(shape=(512, 256), count=3, hidden=True)
_N = 3 * 512 * 256
_FOUR = Layout(data_parallel=4, sharding=Sharding.DEEPSPEED)


@pytest.mark.parametrize(
    ("name", "copies"), [("onebit_adam", 3), ("zero_one_adam", 4), ("onebit_lamb", 4)]
)
def test_an_error_of_the_server_is_that_of_a_rank(name: str, copies: int) -> None:
    """The worker's is of every element; cupy's pool has a byte and five packed bits of each."""
    optimizer = resolve_optimizer(a_training(optimizer=name), _FOUR)
    pool = _N + 4 * _N // 8 + _N // 4 // 8

    assert optimizer.state_bytes((_MATRIX,), 4) == 4 * (copies * _N + _N // 4) + pool
    assert optimizer.saved_bytes((_MATRIX,), 4) == 4 * (copies * _N + _N // 4)


@pytest.mark.parametrize(
    ("name", "ranks", "per_element"),
    [
        ("onebit_adam", 4, 3 * 4 - 2),
        ("onebit_adam", 6, 4 * 4 - 2),
        ("zero_one_adam", 4, 4 * 4 - 2),
        ("onebit_lamb", 6, 4 * 4),
    ],
)
def test_a_step_holds_what_it_compresses_twice(name: str, ranks: int, per_element: int) -> None:
    """The fp32 gradient is beside it, and the update or the momentum before. Six ranks' parts do
    not divide a power of two, so that what is compressed is a copy with zeros behind.
    """
    layout = Layout(data_parallel=ranks, sharding=Sharding.DEEPSPEED)
    matrix = TrainedTensor(shape=(512, 256), count=1, hidden=True)
    optimizer = resolve_optimizer(a_training(optimizer=name), layout)

    assert optimizer.step_bytes((matrix,), 4) == matrix.numel * per_element


def test_a_checkpoint_has_no_buffers_of_cupy() -> None:
    """Its states are those of the rank that saves it, its errors among them."""
    workload = a_training(optimizer="onebit_adam", precision="fp16_mixed")
    setup = resolve_setup(a_model(), workload, _FOUR)
    elements = setup.trained.trained

    saved = count_saved_state_bytes(setup.trained, setup.optimizer)

    assert saved == 4 * (3 * elements + elements // 4)
    assert compute_train_states(setup).optimizer_states > saved


def test_an_optimizer_of_one_bit_is_answered_on_replicas() -> None:
    """Its states are a component of every instant, as DeepSpeed's fp16 optimizer holds them."""
    workload = a_training(optimizer="onebit_adam", precision="fp16_mixed")
    answer = estimate(a_model(), workload, layout=_FOUR, device=a_device())

    setup = resolve_setup(a_model(), workload, _FOUR)
    parts = {component.name: component.bytes for component in answer.components}
    assert parts["optimizer_states"] == compute_train_states(setup).optimizer_states


@pytest.mark.parametrize(
    ("workload", "layout", "message"),
    [
        ({}, {"zero_stage": 1}, "refuses ZeRO beside it"),
        ({}, {"sharding": Sharding.DDP}, "not ddp with 0"),
        ({}, {"data_parallel": 1}, "on one data-parallel rank"),
        ({"precision": "bf16"}, {}, "without fp32 masters"),
        ({"precision": "deepspeed_bf16"}, {}, "without fp32 masters"),
        ({"method": Method.LORA, "lora": Lora(rank=8)}, {}, "of adapters"),
    ],
)
def test_what_deepspeed_refuses_is_refused(
    workload: dict[str, Any], layout: dict[str, Any], message: str
) -> None:
    """ZeRO is named, and what has no term says what has one."""
    asked = a_training(**({"optimizer": "zero_one_adam", "precision": "fp16_mixed"} | workload))
    given: dict[str, Any] = {"data_parallel": 4, "sharding": Sharding.DEEPSPEED}

    with pytest.raises(EstimatorError, match=message):
        check_in_transformers(a_model(), asked, Layout(**(given | layout)))


def test_a_row_of_the_table_is_that_of_one_rank() -> None:
    """The number of ranks comes with a layout."""
    assert get_optimizer("onebit_adam").states(_MATRIX, 4).device[:4] == (4 * _N // 3,) * 4
