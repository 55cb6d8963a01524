"""Embeddings, rerankers and rewards on vLLM and SGLang: no logits, and a pool for the prompts."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.heads.config import put_head_in_config
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.speculative import Speculative
from service.estimator.values.units import MIB
from service.estimator.values.workload import Engine, ServeWorkload

EMBEDDING = load_architecture(resolve_model("qwen3-embedding-8b"))
QWEN = load_config(resolve_model("qwen3-8b"))
PROMPTS = ServeWorkload(num_sequences=16, prompt_tokens=8192, output_tokens=0, engine=Engine.VLLM)


def _serve(
    model: Architecture, workload: ServeWorkload = PROMPTS, layout: Layout | None = None
) -> Estimate:
    device = resolve_gpu("L40S").to_device()
    return estimate(model, workload, layout=layout or Layout(), device=device)


def _get_bytes(answer: Estimate, name: str) -> int:
    return sum(part.bytes for part in answer.components if part.name == name)


def test_weights_are_those_without_a_head() -> None:
    """The generating model has a table and a head of 151,936 rows, this one 151,665 filled up to
    64; the allocator rounds by 2 MiB.
    """
    generating = _serve(architecture_from_config(QWEN), replace(PROMPTS, output_tokens=1))

    answer = _serve(EMBEDDING)

    rows = 2 * 151936 - 151680
    assert _get_bytes(generating, "weights") - _get_bytes(answer, "weights") == pytest.approx(
        2 * 4096 * rows, abs=2 * MIB
    )


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
@pytest.mark.parametrize(
    ("num_sequences", "tokens", "held"), [(16, 8192, 2), (1, 8192, 1), (1024, 512, 5), (3, 512, 3)]
)
def test_the_pool_holds_the_prompts_of_a_step(
    engine: Engine, num_sequences: int, tokens: int, held: int
) -> None:
    """36 layers keep 8 heads of 128 keys and values of each token that a step of 2,048 reads, with
    what it began and what it ends; other prompts wait.
    """
    workload = replace(
        PROMPTS,
        engine=engine,
        num_sequences=num_sequences,
        prompt_tokens=tokens,
        max_num_batched_tokens=2048,
    )

    answer = _serve(EMBEDDING, workload)

    assert answer.serving is not None
    assert answer.serving.kv_bytes_per_token == 36 * 2 * 8 * 128 * 2
    assert answer.serving.kv_cache_bytes == held * tokens * answer.serving.kv_bytes_per_token


def test_a_generating_model_of_the_same_layers_has_less_room() -> None:
    """Its head, its logits, its sampler and whole CUDA graphs are what the other has not."""
    generating = _serve(architecture_from_config(QWEN), replace(PROMPTS, output_tokens=1))

    answer = _serve(EMBEDDING)

    assert _get_bytes(generating, "sampler_state") > 0
    assert _get_bytes(answer, "sampler_state") == 0
    assert _get_bytes(answer, "activations") < _get_bytes(generating, "activations")
    assert _get_bytes(answer, "cuda_graphs") < _get_bytes(generating, "cuda_graphs")
    assert _get_bytes(answer, "kv_cache") > _get_bytes(generating, "kv_cache")


def test_one_score_stands_on_every_rank() -> None:
    """A head of one label is no vocabulary that ranks could split."""
    reward = architecture_from_config(put_head_in_config(QWEN, Head.REWARD, None))

    one, two = _serve(reward), _serve(reward, layout=Layout(tensor_parallel=2))

    table = 151936 * 4096
    assert _get_bytes(one, "weights") - 2 * (table + 40960 * 128) == pytest.approx(
        2 * (_get_bytes(two, "weights") - table - 2 * 40960 * 128), rel=1e-4
    )


@pytest.mark.parametrize(
    ("change", "layout", "names"),
    [
        ({"output_tokens": 1}, Layout(), "say 0"),
        ({"engine_version": "0.9.2"}, Layout(), "0.10"),
        ({"speculative": Speculative(num_tokens=3)}, Layout(), "drop speculative"),
        ({"engine": Engine.TENSORRT_LLM}, Layout(), "engine vllm or sglang"),
        ({}, Layout(pipeline_parallel=2), "pipeline_parallel of qwen3"),
    ],
)
def test_what_is_not_pooled_so_is_refused(
    change: dict[str, Any], layout: Layout, names: str
) -> None:
    """Each refusal says what would be right."""
    workload = replace(PROMPTS, **change)

    with pytest.raises((InvalidInputError, NotModelledError)) as refused:
        _serve(EMBEDDING, workload, layout)

    assert names in str(refused.value)
