"""Engines beside an indexer: its keys, scales of an fp8 cache, what is profiled, and which GPUs."""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.paged_pool.rank_memory import build_ranks
from service.estimator.backends.paged_pool.sparse_latents import find_sparse
from service.estimator.estimate import estimate
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.units import MIB
from service.estimator.values.workload import Cache, Engine, Quantization, ServeWorkload

HOPPER, BLACKWELL = "H200-SXM-141GB", "B200-SXM-180GB"
_INDEX, _LATENT = 128 + 4, 512 + 64
_SCALED = 512 + 4 * 4 + 2 * 64
_RANKS = Layout(tensor_parallel=8)


def serve(name: str, engine: Engine, gpu: str = HOPPER, **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    """Return the answer of one replica on eight GPUs."""
    workload = ServeWorkload(num_sequences=4, prompt_tokens=4096, engine=engine, **words)
    device = resolve_gpu(gpu).to_device()
    model = load_architecture(resolve_model(name))
    return estimate(model, workload, layout=_RANKS, device=device, detail=Detail.FULL)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
@pytest.mark.parametrize(
    ("name", "gpu", "dtype", "token_bytes"),
    [
        ("deepseek-v3.2", HOPPER, DType.BF16, 61 * (2 * _LATENT + _INDEX)),
        ("deepseek-v3.2", HOPPER, DType.FP8, 61 * (_SCALED + _INDEX)),
        ("deepseek-v3.2", BLACKWELL, DType.FP8, 61 * (_LATENT + _INDEX)),
        ("glm-5.2-fp8", HOPPER, DType.BF16, 78 * 2 * _LATENT + 21 * _INDEX),
    ],
)
def test_a_token_has_its_latents_and_a_key_of_each_indexer(
    engine: Engine, name: str, gpu: str, dtype: DType, token_bytes: int
) -> None:
    """Keys are in fp8 with a scale whatever the cache is; layers that share a choice have none."""
    serving = serve(name, engine, gpu, kv_cache_dtype=dtype).serving

    assert serving is not None
    assert serving.kv_bytes_per_token == token_bytes


def test_an_indexer_is_whole_on_every_rank() -> None:
    """Heads of attention are split, those of the indexer are not (``ReplicatedLinear``)."""
    model = load_architecture(resolve_model("deepseek-v3.2"))
    scheme = select_scheme(Quantization.NONE, model)
    (rank,) = build_ranks(model, _RANKS, scheme=scheme, dtype=DType.BF16)

    attention = find_sparse(rank.model)

    assert attention is not None
    assert attention.num_heads == 128 // 8
    assert attention.indexer is not None
    assert attention.indexer.wide.out_features == 64 * 128
    assert attention.indexer.weighing.out_features == 64


def test_blocks_have_as_many_tokens_as_the_kernel_of_indexers_takes() -> None:
    """64 tokens, of which the pool is made (``DeepseekV32IndexerBackend``)."""
    answer = serve("deepseek-v3.2", Engine.VLLM)

    (formula,) = [part.formula for part in answer.components if part.name == "kv_cache"]
    assert "x 64 tokens x 78324 B" in formula


def test_fewer_tokens_leave_the_indexer_its_logits() -> None:
    """Positions of 2,048 keys for each token of a step, and 512 MiB of logits at least."""
    small, large = (
        next(
            part.bytes
            for part in serve(
                "deepseek-v3.2", Engine.VLLM, max_num_batched_tokens=tokens, max_num_sequences=8
            ).components
            if part.name == "activations"
        )
        for tokens in (512, 1024)
    )

    assert small > 512 * MIB
    assert large - small >= 512 * 2048 * 4


@pytest.mark.parametrize(
    ("name", "engine", "gpu", "words", "field"),
    [
        ("glm-5-fp8", Engine.VLLM, "A100-SXM4-80GB", {}, "cluster.gpu"),
        ("glm-5-fp8", Engine.SGLANG, "A100-SXM4-80GB", {}, "cluster.gpu"),
        ("glm-5-fp8", Engine.TENSORRT_LLM, HOPPER, {}, "workload.engine"),
        ("glm-5", Engine.LLAMA_CPP, HOPPER, {}, "workload.engine"),
        ("glm-5-fp8", Engine.VLLM, HOPPER, {"engine_version": "0.20.0"}, "workload.engine_version"),
    ],
)
def test_what_was_not_read_is_refused(
    name: str, engine: Engine, gpu: str, words: dict[str, object], field: str
) -> None:
    """Kernels of older GPUs, other engines' caches, and older releases."""
    with pytest.raises(NotModelledError) as refused:
        serve(name, engine, gpu, **words)

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("name", "engine", "gpu", "dtype", "warned"),
    [
        ("glm-5", Engine.VLLM, BLACKWELL, DType.BF16, True),
        ("glm-5", Engine.VLLM, BLACKWELL, DType.FP8, False),
        ("glm-5", Engine.VLLM, HOPPER, DType.BF16, False),
        ("deepseek-v3.2", Engine.VLLM, BLACKWELL, DType.BF16, False),
        ("deepseek-v3.2", Engine.SGLANG, BLACKWELL, DType.BF16, True),
    ],
)
def test_a_cache_that_an_engine_would_keep_in_fp8_is_said(
    name: str, engine: Engine, gpu: str, dtype: DType, *, warned: bool
) -> None:
    """On Blackwell vLLM does so for GLM-5, SGLang for both, unless somebody names a format."""
    warnings = serve(name, engine, gpu, kv_cache_dtype=dtype).warnings

    assert any("--kv-cache-dtype" in text for text in warnings) is warned


def test_a_static_cache_is_refused() -> None:
    """Engine transformers keeps the indexer's keys in a growing cache alone."""
    with pytest.raises(NotModelledError) as refused:
        serve("deepseek-v3.2", Engine.TRANSFORMERS, cache=Cache.STATIC)

    assert refused.value.field == "workload.cache"
