"""Recorded loops of serving: their replay reserves what the allocator did on a real GPU."""

import pytest

from service.catalog.gpus import find_gpus
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail
from service.estimator.values.workload import ServeWorkload
from tests.accuracy.allocator.recorded import GPU, list_loops, load_loop
from tests.accuracy.real.rows import make_recorded_plans

SERVED = ("s01", "s03")


@pytest.mark.parametrize("name", SERVED)
def test_reserved_bytes_are_the_recorded_ones(name: str) -> None:
    """Load, a prompt and 32 tokens after it, to the byte."""
    (path,) = list_loops((name,))
    loop = load_loop(path)
    case = loop.case
    (device,) = find_gpus(GPU)

    answer = estimate(
        load_architecture(resolve_model(loop.model)),
        ServeWorkload(
            num_sequences=case["batch"],
            prompt_tokens=case["prompt"],
            output_tokens=case["new"],
            weight_dtype=DType(case["load"]),
            kv_cache_dtype=DType(case["load"]),
            client=Client.LOOP,
        ),
        layout=Layout(),
        device=device.to_device(),
        plans=make_recorded_plans(),
        detail=Detail.REPLAYED,
    )

    assert answer.reserved_bytes == loop.reserved_bytes


def test_every_loop_of_serving_is_replayed() -> None:
    """Not one is left out."""
    loops = map(load_loop, list_loops())

    assert tuple(loop.name for loop in loops if not loop.trains) == SERVED
