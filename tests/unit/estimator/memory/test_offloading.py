"""Offloading: what leaves the GPU, what the host must hold instead, and a host that is too
small.
"""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.offloading import round_up_pinned
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Checkpointing, Lora, Method, Offload, OffloadTarget
from service.planner.fit.verdict import Verdict, judge
from tests.builders import a_device, a_model, a_training

_MODEL = a_model(num_hidden_layers=8)
_N = _MODEL.parameter_counts().total
_CPU, _NVME = OffloadTarget.CPU, OffloadTarget.NVME


def _ranks(*, stage: int = 3, sharding: Sharding = Sharding.DEEPSPEED, **changes: Any) -> Layout:  # noqa: ANN401 - fields of a layout
    return Layout(data_parallel=4, zero_stage=stage, sharding=sharding, **changes)


def _ask(layout: Layout, offload: Offload, **changes: Any) -> Estimate:  # noqa: ANN401 - each field has its own type
    workload = a_training(activation_checkpointing=Checkpointing.FULL, offload=offload, **changes)
    return estimate(_MODEL, workload, layout=layout, device=a_device())


def _component(answer: Estimate, name: str) -> int:
    return sum(component.bytes for component in answer.components if component.name == name)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_offloaded_optimizer_leaves_weights_alone(stage: int) -> None:
    """Master weights, moments and fp32 gradients of all partitions are on the node: 16 bytes per
    parameter (ZeRO-Offload).
    """
    here, away = (
        _ask(_ranks(stage=stage), Offload(optimizer=target))
        for target in (OffloadTarget.NONE, _CPU)
    )

    assert here.host_bytes_per_node == 0
    assert away.host_bytes_per_node == pytest.approx(16 * _N, rel=1e-3)
    buffer = (
        2 if stage == 3 else 0
    )  # stage 3 keeps the buffer of its gradient partition between steps
    assert here.steady_bytes - away.steady_bytes == pytest.approx(
        (4 + 8 + buffer) * _N / 4, rel=1e-3
    )


def test_offloaded_parameters_leave_what_is_gathered() -> None:
    """The 16-bit partitions move as well (ZeRO-3 ``offload_param``); nothing but buffers stays
    between steps.
    """
    optimizer = _ask(_ranks(), Offload(optimizer=_CPU))
    both = _ask(_ranks(), Offload(optimizer=_CPU, parameters=_CPU))

    assert both.host_bytes_per_node - optimizer.host_bytes_per_node == pytest.approx(
        2 * _N, rel=1e-3
    )
    assert optimizer.steady_bytes - both.steady_bytes == pytest.approx(2 * _N / 4, rel=1e-3)


@pytest.mark.parametrize("stage", [1, 2])
def test_nvme_wants_sharded_parameters(stage: int) -> None:
    """DeepSpeed's documentation of ``offload_optimizer``: NVMe with ZeRO stage 3 only."""
    with pytest.raises(InvalidInputError, match="stage 3"):
        _ask(_ranks(stage=stage), Offload(optimizer=_NVME))


def test_nvme_leaves_buffers_and_gradients_in_memory() -> None:
    """States are swapped through four pinned buffers of a sub-group each."""
    swapped = _ask(_ranks(), Offload(optimizer=_NVME))
    partition = -(-_N // 4) * 4

    assert swapped.host_bytes_per_node == 4 * (4 * round_up_pinned(partition) + partition)


def test_fsdp_offloads_all_that_is_sharded() -> None:
    """``CPUOffloadPolicy`` keeps parameters, gradients and states on the host, the first two in
    pinned memory.
    """
    answer = _ask(_ranks(sharding=Sharding.FSDP2), Offload(optimizer=_CPU, parameters=_CPU))

    assert answer.steady_bytes == _MODEL.buffer_bytes
    assert answer.host_bytes_per_node >= 16 * _N
    assert _component(answer, "gathered_weights") > 0


def test_offloaded_activations_leave_one_layer_on_the_gpu() -> None:
    """Every layer's input waits in a pinned tensor; one comes back at a time."""
    offload = Offload(activations=_CPU)
    here, away = (_ask(Layout(), asked, sequence_length=4096) for asked in (Offload(), offload))
    layer = 2 * 4096 * 64 * 2

    assert away.host_bytes_per_node == 8 * round_up_pinned(layer)
    assert here.allocated_bytes - away.allocated_bytes == pytest.approx(7 * layer, rel=0.15)


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 0), (1, 1), (4096, 4096), (4097, 8192), (3 << 30, 4 << 30)]
)
def test_pinned_tensors_are_rounded_to_powers_of_two(size: int, expected: int) -> None:
    """PyTorch's host allocator hands out powers of two."""
    assert round_up_pinned(size) == expected


def test_a_host_that_is_too_small_does_not_fit() -> None:
    """The GPU has room, the node's memory has not: the verdict says no, and a warning says why."""
    offload = Offload(optimizer=_CPU)
    small, large = (_ask(_ranks(host_memory_bytes=size), offload) for size in (10 * _N, 32 * _N))

    assert judge(small, a_device()).verdict is Verdict.DOES_NOT_FIT
    assert any("host is too small" in warning for warning in small.warnings)
    assert judge(large, a_device()).verdict is Verdict.FITS
    assert [text for text in large.warnings if "max_reuse_distance" not in text] == []


@pytest.mark.parametrize(
    ("layout", "offload", "changes", "error"),
    [
        (Layout(), Offload(optimizer=_CPU), {}, NotModelledError),
        (_ranks(sharding=Sharding.FSDP2), Offload(optimizer=_CPU), {}, NotModelledError),
        (_ranks(sharding=Sharding.FSDP2), Offload(parameters=_CPU), {}, InvalidInputError),
        (
            _ranks(sharding=Sharding.FSDP2),
            Offload(optimizer=_NVME, parameters=_NVME),
            {},
            InvalidInputError,
        ),
        (_ranks(stage=2), Offload(parameters=_CPU), {}, InvalidInputError),
        (Layout(), Offload(activations=_NVME), {}, NotModelledError),
        (
            _ranks(),
            Offload(optimizer=_CPU),
            {"method": Method.LORA, "lora": Lora()},
            NotModelledError,
        ),
    ],
)
def test_what_nobody_moves_is_refused(
    layout: Layout, offload: Offload, changes: dict[str, Any], error: type[Exception]
) -> None:
    """The optimizer alone is DeepSpeed's to move, parameters need shards, and FSDP2 moves all or
    nothing.
    """
    with pytest.raises(error):
        _ask(layout, offload, **changes)


def test_activations_move_with_full_checkpointing_alone() -> None:
    """Only the inputs of recomputed layers are known to wait."""
    workload = a_training(offload=Offload(activations=_CPU))

    with pytest.raises(NotModelledError):
        estimate(_MODEL, workload, layout=Layout(), device=a_device())


def test_a_lone_rank_fetches_its_parameters_from_the_host() -> None:
    """ZeRO-3 on one GPU gathers nothing, but with its parameters on the host a block's copy is on
    the GPU while it runs.
    """
    lone = Layout(zero_stage=3, sharding=Sharding.DEEPSPEED)
    block = 2 * _MODEL.parameter_counts().largest_block

    away = _ask(lone, Offload(optimizer=_CPU, parameters=_CPU), sequence_length=4096)

    assert _component(_ask(lone, Offload(), sequence_length=4096), "gathered_weights") == 0
    assert _component(away, "gathered_weights") >= block // 2
    assert _component(away, "weights") == _MODEL.buffer_bytes


def test_what_is_swapped_is_counted_on_nvme_and_held_against_it() -> None:
    """Master copy and moments are 12 bytes of each parameter, with parameters 14; a drive that is
    too small says so.
    """
    states = _ask(_ranks(), Offload(optimizer=_NVME))
    all_of_it = _ask(_ranks(), Offload(optimizer=_NVME, parameters=_NVME))
    small = _ask(_ranks(nvme_bytes=states.nvme_bytes_per_node - 1), Offload(optimizer=_NVME))

    assert all_of_it.nvme_bytes_per_node - states.nvme_bytes_per_node == pytest.approx(
        states.nvme_bytes_per_node / 6, rel=0.01
    )
    assert _ask(_ranks(), Offload(optimizer=_CPU)).nvme_bytes_per_node == 0
    assert any("the NVMe is too small" in warning for warning in small.warnings)
