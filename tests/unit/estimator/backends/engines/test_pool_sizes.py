"""Pools of keys and values that a server's arguments size, in blocks or tokens."""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate, Serving
from service.estimator.values.workload import Engine, ServeWorkload
from tests.builders import a_device
from tests.unit.estimator.backends.test_vllm import LLAMA_8B

TOKEN_BYTES = 2 * 32 * 8 * 128 * 2
"""Keys and values of all layers in 16 bits."""


def serve(engine: Engine, ranks: int = 1, **words: Any) -> Estimate:  # noqa: ANN401 - each has its own type
    """Return the estimate of eight sequences on a GPU of 80 GiB."""
    workload = ServeWorkload(
        num_sequences=8, prompt_tokens=1000, output_tokens=24, engine=engine, **words
    )
    layout = Layout(pipeline_parallel=ranks)
    return estimate(architecture_from_config(LLAMA_8B), workload, layout=layout, device=a_device())


def get_serving(answer: Estimate) -> Serving:
    """Return what an engine says of itself."""
    assert answer.serving is not None
    return answer.serving


@pytest.mark.parametrize("words", [{}, {"kv_pool_bytes": 2**30}, {"gpu_memory_fraction": 0.3}])
def test_blocks_are_taken_whatever_else_is_said(words: dict[str, Any]) -> None:
    """VLLM's override stands in for the profiled number, and for bytes."""
    answer = get_serving(serve(Engine.VLLM, max_model_len=8192, kv_pool_blocks=1000, **words))

    assert answer.kv_pool_bytes == 1000 * 16 * TOKEN_BYTES
    assert answer.kv_pool_tokens == 16_000
    assert answer.max_num_sequences == 16_000 // 1024


def test_blocks_beyond_the_gpu_do_not_fit() -> None:
    """They are not cut to what is left."""
    answer = serve(Engine.VLLM, max_model_len=8192, kv_pool_blocks=100_000)

    assert get_serving(answer).kv_pool_bytes == 100_000 * 16 * TOKEN_BYTES
    assert "a lower kv_pool_blocks leaves more" in " ".join(answer.warnings)


def test_a_pool_without_room_for_the_longest_request_does_not_start() -> None:
    """The engine compares it with ``max_model_len``."""
    answer = serve(Engine.VLLM, max_model_len=8192, kv_pool_blocks=511)

    assert "no room for one sequence of max_model_len" in " ".join(answer.warnings)


def test_every_stage_has_as_many_blocks() -> None:
    """A stage of half of the layers holds half of their bytes."""
    halves = get_serving(serve(Engine.VLLM, 2, max_model_len=8192, kv_pool_blocks=1000))

    assert halves.kv_pool_bytes == 1000 * 16 * TOKEN_BYTES // 2


@pytest.mark.parametrize(
    ("engine", "rounded"), [(Engine.SGLANG, 9999), (Engine.TENSORRT_LLM, 10016)]
)
def test_tokens_are_a_limit(engine: Engine, rounded: int) -> None:
    """Where there is room for more, the pool has no more, and the rest of the GPU stays free."""
    free = serve(engine)
    limited, beyond = serve(engine, kv_pool_tokens=9999), serve(engine, kv_pool_tokens=10**7)

    pool = get_serving(limited)
    assert (pool.kv_pool_tokens, pool.kv_pool_bytes) == (rounded, rounded * TOKEN_BYTES)
    assert pool.max_num_sequences == 9
    assert limited.device_bytes < free.device_bytes
    assert (limited.device_interval.low, limited.device_interval.high) != (
        limited.device_bytes,
        limited.device_bytes,
    )
    assert get_serving(beyond) == get_serving(free)


@pytest.mark.parametrize(
    ("engine", "field"),
    [
        (Engine.SGLANG, "kv_pool_blocks"),
        (Engine.VLLM, "kv_pool_tokens"),
        (Engine.LLAMA_CPP, "kv_pool_tokens"),
        (Engine.TGI, "kv_pool_blocks"),
    ],
)
def test_other_engines_have_no_such_word(engine: Engine, field: str) -> None:
    """It is refused by its name."""
    with pytest.raises(EstimatorError, match=field):
        serve(engine, **{field: 1000})
