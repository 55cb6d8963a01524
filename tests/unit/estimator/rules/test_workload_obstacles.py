"""What a probe runs, word by word: what the service lets through must not be refused after its turn
in the queue.
"""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.rules.obstacles import find_workload_obstacles
from service.estimator.rules.tables.probes.loops import is_mixed
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import (
    Cache,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

TRAIN = TrainWorkload(sequence_length=8)
LORA = replace(TRAIN, method=Method.LORA, lora=Lora())
SERVE = ServeWorkload(num_sequences=1, prompt_tokens=8)
GATHERED = Precision(
    name="gathered",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)


def fields(workload: Workload, layout: Layout | None = None) -> list[str]:
    """Return the fields that stand in the way."""
    return [field for field, _ in find_workload_obstacles(workload, layout or Layout())]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"optimizer": "lion"}, "workload.optimizer"),
        ({"optimizer": "adamw_fused"}, "workload.optimizer"),
        ({"precision": GATHERED}, "workload.precision"),
        ({"reentrant_checkpointing": True}, "workload.reentrant_checkpointing"),
        ({"framework_version": "5.0"}, "workload.framework_version"),
        ({"compile": True}, "workload.compile"),
        ({"optimizer_in_backward": True}, "workload.optimizer_in_backward"),
    ],
)
def test_words_that_no_loop_of_a_probe_has(change: dict[str, Any], field: str) -> None:
    """What would be ignored or fail in the worker is named by its field."""
    assert fields(replace(TRAIN, **change)) == [field]


@pytest.mark.parametrize(
    ("lora", "field"),
    [
        (Lora(variant="dora"), "workload.lora.variant"),
        (Lora(dtype=DType.BF16), "workload.lora.dtype"),
    ],
)
def test_adapters_that_no_probe_makes(lora: Lora, field: str) -> None:
    """A probe makes plain adapters in fp32."""
    assert fields(replace(LORA, lora=lora)) == [field]


def test_norms_and_head_stay_in_the_dtype_of_the_weights() -> None:
    """A measurement that silently left the cast out would be evidence for another question."""
    assert fields(replace(LORA, fp32_norms_and_head=True)) == ["workload.fp32_norms_and_head"]


def test_a_pool_of_pages_is_no_cache_of_transformers() -> None:
    """A probe serves from the library's own cache objects."""
    assert fields(replace(SERVE, cache=Cache.PAGED)) == ["workload.cache"]


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("workload", [TRAIN, LORA], ids=["full", "lora"])
def test_every_named_precision_runs(name: str, workload: TrainWorkload) -> None:
    """No policy of the contract waits in the queue to be refused."""
    assert fields(replace(workload, precision=POLICIES[name])) == []


def test_a_cast_at_gather_needs_something_that_gathers() -> None:
    """FSDP2 casts what it gathers; a rank that is alone casts by autocast only."""
    gathering = Layout(data_parallel=2, sharding=Sharding.FSDP2, zero_stage=3)

    assert fields(replace(TRAIN, precision=GATHERED), gathering) == []


def test_the_fused_optimizer_runs_where_gradients_are_as_wide_as_what_it_updates() -> None:
    """Adapters in fp32 are their own masters, whatever the policy of the frozen weights."""
    assert is_mixed(TRAIN)
    assert not is_mixed(LORA)
    assert fields(replace(LORA, optimizer="adamw_fused")) == []
    assert fields(replace(TRAIN, optimizer="adamw_fused", precision=POLICIES["bf16"])) == []
