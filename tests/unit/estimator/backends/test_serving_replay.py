"""Replicas on transformers whose allocations are replayed, and those that have a ratio."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import Allocator, Cache, Quantization, ServeWorkload

GPU = resolve_gpu("H100-SXM5-80GB").to_device()
MODEL = load_architecture(resolve_model("llama-3.2-1b"))
WORKLOAD = ServeWorkload(num_sequences=4, prompt_tokens=256, output_tokens=8)


def _ask(detail: Detail, **words: Any) -> Estimate:  # noqa: ANN401 - each field has its own type
    workload = replace(WORKLOAD, **words)
    return estimate(MODEL, workload, layout=Layout(), device=GPU, detail=detail)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"client": Client.LOOP},
        {"output_tokens": 0},
        {"quantization": Quantization.NF4},
        {"allocator": Allocator.EXPANDABLE_SEGMENTS},
    ],
)
def test_a_dynamic_cache_is_replayed(words: dict[str, Any]) -> None:
    """Reserved bytes are the replay's, never fewer than the least; allocated ones stay."""
    ratio, least, replayed = (
        _ask(detail, **words) for detail in (Detail.FULL, Detail.LEAST, Detail.REPLAYED)
    )

    assert ratio.allocated_bytes == least.allocated_bytes == replayed.allocated_bytes
    assert least.reserved_bytes <= replayed.reserved_bytes != ratio.reserved_bytes
    assert replayed.reserved_bytes % 2**21 == 0


@pytest.mark.parametrize(
    "words",
    [
        {"cache": Cache.STATIC},
        {"num_beams": 2},
        {"quantization": Quantization.INT8},
        {"engine_version": "4.30"},
    ],
)
def test_what_has_no_known_order_has_a_ratio(words: dict[str, Any]) -> None:
    """Neither a replay nor its lower bound stands in for it."""
    ratio, least, replayed = (
        _ask(detail, **words) for detail in (Detail.FULL, Detail.LEAST, Detail.REPLAYED)
    )

    assert least.reserved_bytes == replayed.reserved_bytes == ratio.reserved_bytes


def test_a_window_that_is_filled_while_decoding_has_a_ratio() -> None:
    """Its cache grows first and is cut later."""
    model = load_architecture(resolve_model("gemma-3-1b"))
    inside, across, beyond = (
        [
            estimate(
                model,
                replace(WORKLOAD, prompt_tokens=prompt),
                layout=Layout(),
                device=GPU,
                detail=detail,
            ).reserved_bytes
            for detail in (Detail.FULL, Detail.REPLAYED)
        ]
        for prompt in (256, 508, 600)
    )

    assert across[0] == across[1]
    assert inside[0] != inside[1]
    assert beyond[0] != beyond[1]


def test_a_full_gpu_takes_what_is_there() -> None:
    """Cached memory is released before a request fails: a little less room does too."""
    words: dict[str, Any] = {"num_sequences": 256, "prompt_tokens": 1024}
    roomy = _ask(Detail.REPLAYED, **words)
    usable_bytes = roomy.device_bytes - (roomy.reserved_bytes - roomy.allocated_bytes) // 32

    answer = estimate(
        MODEL,
        replace(WORKLOAD, **words),
        layout=Layout(),
        device=replace(GPU, usable_bytes=usable_bytes),
        detail=Detail.REPLAYED,
    )

    assert answer.allocated_bytes == roomy.allocated_bytes
    assert answer.device_bytes <= usable_bytes < roomy.device_bytes
