"""Ranks with real tensors, with fake ones, and as they are estimated."""

from dataclasses import replace
from functools import cache

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing
from service.jobs.contract import ProbeDevice, ProbeResult
from tests.unit.probes.ranks.runs import CAST_AT_GATHER, LLAMA, TRAIN, Asked, fsdp2, run

ASKED = {
    "FSDP2": Asked(layout=fsdp2(8), workload=replace(TRAIN, precision=CAST_AT_GATHER)),
    "FSDP2 with masters, checkpointed": Asked(
        layout=fsdp2(8),
        workload=replace(
            TRAIN, precision=POLICIES["bf16_mixed"], activation_checkpointing=Checkpointing.FULL
        ),
    ),
    "FSDP2 under autocast": Asked(
        layout=fsdp2(8), workload=replace(TRAIN, precision=POLICIES["amp_bf16"])
    ),
    "hybrid shards": Asked(layout=fsdp2(8, shard_size=4)),
    "embedding and head apart": Asked(layout=fsdp2(8, shard_embeddings_separately=True)),
    "kept after forward": Asked(layout=fsdp2(4, reshard_after_forward=False)),
    "uneven shards": Asked(layout=fsdp2(48)),
    "tensor parallel": Asked(layout=Layout(tensor_parallel=2)),
    "both": Asked(layout=fsdp2(2, tensor_parallel=2)),
    "DDP": Asked(layout=Layout(data_parallel=8)),
    "DDP with fp32 main gradients": Asked(
        layout=Layout(data_parallel=8), workload=replace(TRAIN, precision=POLICIES["megatron_bf16"])
    ),
    "a table beside which blocks are small": Asked(
        layout=fsdp2(8),
        workload=replace(TRAIN, sequence_length=16, micro_batch_size=1),
        config={**LLAMA, "vocab_size": 32768},
    ),
}
_ESTIMATED_OTHERWISE = {
    "tensor parallel": (
        "foreach takes what is split and what is whole in two parts, an estimate takes all at once"
    )
}
_ON_HOST_BYTES = 2048
"""Steps that the optimizer counts and the tokens that both hold, which estimate and trace count
differently.
"""


@cache
def trace(name: str) -> ProbeResult:
    """Return what a rank's trace says; each is held to a real run and to an estimate."""
    return run(ASKED[name], ProbeDevice.TRACE)


@pytest.mark.parametrize("name", ASKED)
def test_a_traced_rank_is_one_with_real_tensors(name: str) -> None:
    """The peaks of every instant agree within 0.1 per cent, counters of steps and meshes of ranks
    aside.
    """
    traced = trace(name)

    real = run(ASKED[name], ProbeDevice.CPU)

    for one, other in zip(traced.instants, real.instants, strict=True):
        assert one.name == other.name
        assert one.allocated_bytes == pytest.approx(other.allocated_bytes, rel=1e-3, abs=512)


def estimated(asked: Asked) -> dict[str, int]:
    """Return the bytes of every instant as they are estimated."""
    boundless = Device(name="none", capacity_bytes=2**60, usable_bytes=2**60)
    answer = estimate(
        architecture_from_config(asked.config),
        asked.workload,
        layout=asked.layout,
        device=boundless,
    )
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


@pytest.mark.parametrize("name", [name for name in ASKED if name not in _ESTIMATED_OTHERWISE])
def test_a_traced_rank_is_what_was_estimated(name: str) -> None:
    """The highest instant agrees within 0.2 per cent."""
    highest = max(estimated(ASKED[name]).values())

    assert trace(name).peaks.allocated_bytes == pytest.approx(highest, rel=2e-3, abs=_ON_HOST_BYTES)


def test_uneven_shares_are_filled_up_before_they_are_gathered() -> None:
    """Of 64 rows 48 ranks have two each, as far as they go: 96 rows are gathered, and forward holds
    what was traced.
    """
    traced = {instant.name: instant.allocated_bytes for instant in trace("uneven shards").instants}

    assert traced["forward"] == pytest.approx(
        estimated(ASKED["uneven shards"])["forward"], rel=1e-4
    )


def test_every_instant_of_a_root_unit_that_is_most_of_the_model() -> None:
    """What the root is gathered in lives until the first block has its own, and backward begins by
    gathering it again.
    """
    name = "a table beside which blocks are small"
    traced = {instant.name: instant.allocated_bytes for instant in trace(name).instants}

    assert traced == pytest.approx(estimated(ASKED[name]), rel=1e-4, abs=_ON_HOST_BYTES)
