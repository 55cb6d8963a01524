"""What each optimizer keeps per tensor and needs at its step, counted by hand from its library's
source.
"""

import pytest

from service.estimator.memory.optimizers.table import MODELLED, get_optimizer, resolve_optimizer
from service.estimator.memory.optimizers.tensors import (
    TrainedTensor,
    count_row_elements,
    flatten,
    list_tensors,
    split_rows,
)
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.states import TrainStates, compute_train_states
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout, Sharding
from tests.builders import a_model, a_sharded_layout, a_training

_MATRIX = TrainedTensor(shape=(512, 256), count=3, hidden=True)
_TABLE = TrainedTensor(shape=(1000, 256), count=1, hidden=False, is_table=True)
_VECTOR = TrainedTensor(shape=(256,), count=2, hidden=True)
_ALL = (_TABLE, _MATRIX, _VECTOR)
_M, _T, _V = 512 * 256, 1000 * 256, 256


def _states(optimizer: str, layout: Layout | None = None) -> TrainStates:
    model, workload = a_model(), a_training(precision="bf16", optimizer=optimizer)
    return compute_train_states(resolve_setup(model, workload, layout or Layout()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("adamw_8bit", 2 * (3 * (_M + _M // 64) + _T + _T // 64 + 2 * 4 * _V) + 2 * 1024),
        ("lion_8bit", 3 * (_M + _M // 64) + _T + _T // 64 + 2 * 4 * _V + 1024),
        ("lion", 4 * (3 * _M + _T + 2 * _V)),
        ("paged_adamw_8bit", 2 * (3 * _M // 64 + _T // 64 + 2 * 4 * _V) + 2 * 1024),
        ("paged_adamw", 8 * 2 * _V),
        ("paged_lion", 4 * 2 * _V),
        ("rmsprop_bnb", 4 * (3 * _M + _T + 2 * _V)),
        ("ademamix", 3 * 4 * (3 * _M + _T + 2 * _V)),
        ("ademamix_8bit", 3 * (3 * (_M + _M // 64) + _T + _T // 64 + 2 * 4 * _V) + 2 * 1024),
        ("paged_ademamix_8bit", 3 * (3 * _M // 64 + _T // 64 + 2 * 4 * _V) + 2 * 1024),
        ("stable_adamw", 3 * 2 * (3 * _M + _T + 2 * _V) + 6 * (2 + 4)),
        ("adafactor_torch", 2 * (3 * (512 + 256) + 1000 + 256 + 2 * _V)),
        ("schedule_free_sgd", 2 * (3 * _M + _T + 2 * _V)),
        (
            "adamw_8bit_torchao",
            2 * (3 * (_M + _M // 64 + 1024) + _T + _T // 64 + 1024 + 2 * 2 * _V),
        ),
        ("adamw_4bit", 2 * (3 * (_M // 2 + _M // 32 + 64) + _T // 2 + _T // 32 + 64 + 2 * 2 * _V)),
        ("adafactor", 4 * (3 * (512 + 256 + 1) + 1000 + 256 + 1 + 2 * (_V + 1))),
        ("muon", 2 * (3 * _M + 2 * _T + 2 * 2 * _V)),
        ("galore_adamw", 2 * (3 * (2 * 128 * 512 + 128 * 256) + 2 * _T + 2 * 2 * _V)),
        ("apollo", 2 * (3 * (2 * 128 * 512 + 128 * 256 + 1) + 2 * _T + 2 * 2 * _V)),
        ("adagrad", 2 * (3 * _M + _T + 2 * _V)),
        ("schedule_free_adamw", 2 * 2 * (3 * _M + _T + 2 * _V)),
    ],
)
def test_states_follow_the_shapes_of_the_tensors(name: str, expected: int) -> None:
    """Blocks of 256 with an fp32 maximum, rows and columns, low ranks: each library's own rule, on
    16-bit weights.
    """
    assert get_optimizer(name).state_bytes(_ALL, 2) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("adamw_8bit", 0),
        ("adamw", 2 * (3 * _M + _T + 2 * _V)),
        ("adamw_loop", 2 * (2 * _M + _T)),
        ("adafactor", 4 * (4 * _T + 1000 + 256)),
        ("adafactor_torch", 2 * (_M + _T + 512 + 256 + 1)),
        ("muon", max(_M * 6 + 4 * 256**2, 2 * (_T + 2 * _V))),
        ("galore_adamw", 4 * (2 * _M + (512 + 256) * 256) + 2 * (_M + 128 * 512)),
        ("apollo", 2 * (2 * _T + _V)),
        ("adagrad", 2 * 2 * (3 * _M + _T + 2 * _V)),
    ],
)
def test_a_step_needs_what_its_loop_holds_at_once(name: str, expected: int) -> None:
    """A fused kernel needs nothing, foreach a list of all tensors, a loop what one tensor and the
    one before it leave.
    """
    assert get_optimizer(name).step_bytes(_ALL, 2) == expected


def test_a_loop_holds_the_update_of_the_tensor_before() -> None:
    """The last hidden matrix' update is alive while the head's gradient is squared; vectors come
    after all matrices, since they have no weight decay.
    """
    head = TrainedTensor(shape=(1000, 256), count=1, hidden=False)
    adafactor = get_optimizer("adafactor")

    assert adafactor.step_bytes((_MATRIX, _VECTOR, head), 2) == 4 * (4 * _T + _M)
    assert adafactor.step_bytes((_MATRIX, _VECTOR, head), 4) == 4 * (2 * _T + _M)


def test_a_projection_in_fp32_holds_all_singular_vectors() -> None:
    """GaLore slices them, and a cast to 16 bits is what would copy its part."""
    galore = get_optimizer("galore_adamw")

    assert galore.states(_MATRIX, 4).device[0] == 4 * 256 * 256
    assert galore.states(_MATRIX, 2).device[0] == 2 * 128 * 256


def test_the_trainer_keeps_embeddings_in_32_bits() -> None:
    """It registers nn.Embedding with bitsandbytes' manager; a loop of one's own, which holds its
    logits, does not.
    """
    trainer, loop = (
        resolve_optimizer(a_training(optimizer="adamw_8bit", keeps_logits=keeps), Layout())
        for keeps in (False, True)
    )

    assert trainer.states(_TABLE, 2) == ((4 * _T, 4 * _T), ())
    assert loop.states(_TABLE, 2) == ((_T, _T, _T // 64, _T // 64), ())
    assert trainer.states(_MATRIX, 2) == loop.states(_MATRIX, 2)


def test_an_embedding_of_a_paged_optimizer_is_managed_in_32_bits() -> None:
    """Its states are too large for the allocator in either format."""
    paged = resolve_optimizer(a_training(optimizer="paged_adamw_8bit"), Layout())

    assert paged.managed_bytes((_TABLE,), 2) == 2 * 4 * _T
    assert paged.state_bytes((_TABLE,), 2) == 2 * 1024


@pytest.mark.parametrize("name", [name for name, row in MODELLED.items() if row.record])
def test_events_of_a_step_reach_its_peak_and_leave_nothing(name: str) -> None:
    """The replayed order and the bytes at the peak are of one recording."""
    events = get_optimizer(name).list_events(_ALL, 2)
    live = peak = 0
    for event in events.order:
        live += events.sizes[event] if event >= 0 else -events.sizes[~event]
        peak = max(peak, live)

    assert (live, peak) == (0, get_optimizer(name).step_bytes(_ALL, 2))
    assert len(events.order) == 2 * len(events.sizes)


def test_shapes_do_not_matter_to_a_plain_optimizer() -> None:
    """What is said per element and what is said per tensor agree, for every optimizer that has
    both.
    """
    for optimizer in MODELLED.values():
        if optimizer.num_states is not None:
            elements = sum(tensor.numel * tensor.count for tensor in _ALL)
            assert optimizer.state_bytes(_ALL, 4) == 4 * optimizer.num_states * elements
            if optimizer.per_element_temporaries is not None:
                assert (
                    optimizer.step_bytes(_ALL, 4)
                    == 4 * optimizer.per_element_temporaries * elements
                )


def test_managed_states_are_what_the_allocator_does_not_count() -> None:
    """A paged optimizer keeps the same bytes in all, those of large tensors beside the
    allocator.
    """
    matrix = TrainedTensor(shape=(1000, 100), count=1, hidden=True)
    paged, plain = get_optimizer("paged_adamw_8bit"), get_optimizer("adamw_8bit")

    left = plain.state_bytes((matrix,), 2) - paged.state_bytes((matrix,), 2)

    assert left == paged.managed_bytes((matrix,), 2) == 2 * matrix.numel
    assert (
        _states("paged_adamw_8bit").managed_states == 0
    )  # no tensor of the small model is large enough


def test_rows_are_split_per_tensor_and_rounded_up() -> None:
    """FSDP2 cuts each tensor's first dimension: the first rank holds a row of a tensor with fewer
    rows than ranks.
    """
    weights = a_model().parameter_counts().tensors
    local = split_rows(list_tensors(weights), 48)

    assert {tensor.shape for tensor in local} >= {(11, 64), (2, 64), (4, 64), (2,)}
    assert sum(tensor.numel * tensor.count for tensor in local) == count_row_elements(weights, 48)


def test_a_flat_partition_has_no_shapes() -> None:
    """ZeRO cuts one joint buffer: Adafactor cannot factor it, and no tensor of it is too small for
    eight bits.
    """
    (flat,) = flatten(10_001, 4)

    assert flat.shape == (2501,)
    assert (
        _states("adafactor", a_sharded_layout(2)).optimizer_states
        > _states("adafactor").optimizer_states
    )


@pytest.mark.parametrize("name", ["muon", "galore_adamw", "apollo"])
def test_an_optimizer_of_whole_matrices_is_refused_on_shards(name: str) -> None:
    """No rank has the whole matrix that an orthogonal or low-rank update needs."""
    layout = a_sharded_layout(8, sharding=Sharding.FSDP2)

    with pytest.raises(NotModelledError) as refusal:
        check_in_transformers(a_model(), a_training(optimizer=name), layout)

    assert refusal.value.field == "workload.optimizer"
