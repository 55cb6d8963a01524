"""Contexts: what a process takes on a GPU before its first tensor."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import list_gpus
from service.estimator.backends.transformers.training_kinds import get_context_kind
from service.estimator.memory.overheads.cuda_context import (
    DEFAULT_CONTEXT,
    SHARDED_TRAINING,
    WITHOUT_CUDNN,
    find_context,
)
from service.estimator.memory.overheads.overheads import get_context_overhead
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.static import build_static_memory
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import MIB
from service.estimator.values.workload import Attention
from tests.builders import a_model, a_training


@pytest.mark.parametrize("name", [entry.name for entry in list_gpus()])
def test_every_catalogued_gpu_has_a_context_with_its_source(name: str) -> None:
    """The point lies inside of its interval, and somebody has read it."""
    found = find_context(name)

    assert 100 * MIB < found.low <= found.point <= found.high < 2048 * MIB
    assert found.source
    assert found.formula


def test_boards_of_one_chip_share_their_context() -> None:
    """A context belongs to the chip, not to the memory beside it."""
    assert find_context("H100-SXM5-80GB") is find_context("H100-PCIE-80GB")
    assert (
        find_context("T4").point < find_context("L4").point < find_context("H100-SXM5-80GB").point
    )


def test_serving_loads_fewer_kernels_than_training() -> None:
    """Both were read on the same GPUs, over what was reserved."""
    training, serving = (find_context("H100-SXM5-80GB", kind) for kind in ("training", "inference"))

    assert serving is find_context("H200-SXM5-141GB", "inference")
    assert (serving.low, serving.point, serving.high) == (678 * MIB, 686 * MIB, 692 * MIB)
    assert serving.high < training.low


def test_a_context_holds_what_a_run_loads() -> None:
    """A run whose attention is another's does not load cuDNN; FSDP2 makes streams."""
    without, training, sharded = (
        find_context("H100-SXM5-80GB", kind).point // MIB
        for kind in (WITHOUT_CUDNN, "training", SHARDED_TRAINING)
    )

    assert (without, training, sharded) == (742, 758, 828)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, None),
        ({"attention": Attention.FLASH}, WITHOUT_CUDNN),
        ({"precision": POLICIES["fp32"]}, WITHOUT_CUDNN),
        ({"precision": POLICIES["amp_bf16"]}, None),
    ],
)
def test_sdpa_loads_cudnn_in_16_bits_alone(changes: dict[str, Any], kind: str | None) -> None:
    """It takes its attention there unless a kernel is named."""
    setup = resolve_setup(a_model(), replace(a_training(), **changes), Layout())

    assert get_context_kind(build_static_memory(setup)) == kind


def test_a_gpu_without_a_reading_gets_the_interval_of_the_others() -> None:
    """Nothing is known of a card that only has a size."""
    assert find_context("any") is DEFAULT_CONTEXT
    assert (get_context_overhead().low, get_context_overhead().high) == (
        DEFAULT_CONTEXT.low,
        DEFAULT_CONTEXT.high,
    )
