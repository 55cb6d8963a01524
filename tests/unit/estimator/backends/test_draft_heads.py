"""Draft heads against the layers that vLLM 0.33.0 and SGLang 0.5.23 load, counted by hand."""

import json
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.speculative import DraftHead, Speculative
from service.estimator.values.workload import Engine, ServeWorkload
from tests.unit.estimator.backends.test_vllm import LLAMA_8B

EAGLE3: dict[str, Any] = LLAMA_8B | {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "max_position_embeddings": 2048,
    "draft_vocab_size": 32000,
}
"""Fields of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B."""
HIDDEN, INNER, HEADS, GROUPS, HEAD = 4096, 14336, 32, 8, 128
LAYER = 3 * HIDDEN * INNER + 2 * HIDDEN * HEAD * (HEADS + GROUPS) + 2 * HIDDEN
TABLE = 2048 * HEAD
ENGINES = [Engine.VLLM, Engine.SGLANG]


def _name(name: str) -> Architecture:
    return load_architecture(resolve_model(name))


def _serve(
    model: Architecture,
    speculative: Speculative | None,
    engine: Engine = Engine.VLLM,
    ranks: int = 1,
    **words: Any,  # noqa: ANN401 - each word has its own type
) -> Estimate:
    return estimate(
        model,
        ServeWorkload(
            num_sequences=8,
            prompt_tokens=1000,
            output_tokens=24,
            engine=engine,
            speculative=speculative,
            **words,
        ),
        layout=Layout(tensor_parallel=ranks),
        device=resolve_gpu("B200-SXM6-180GB").to_device(),
    )


def _size(answer: Estimate, name: str) -> int:
    return next(part.bytes for part in answer.components if part.name == name)


def _token(answer: Estimate) -> int:
    assert answer.serving is not None
    assert answer.serving.kv_bytes_per_token is not None
    return answer.serving.kv_bytes_per_token


@pytest.mark.parametrize("engine", ENGINES)
def test_an_eagle3_head_is_a_layer_a_projection_and_an_output_layer(engine: Engine) -> None:
    """Its attention reads twice the width, and it names its own 32,000 tokens."""
    model = architecture_from_config(LLAMA_8B)
    head = Speculative(num_tokens=3, head=DraftHead.EAGLE3, config=json.dumps(EAGLE3))

    alone, both = _serve(model, None, engine), _serve(model, head, engine)

    wider = HIDDEN * HEAD * (HEADS + 2 * GROUPS)
    elements = LAYER + wider + 3 * HIDDEN * HIDDEN + 2 * HIDDEN + 32000 * HIDDEN + TABLE
    assert _size(both, "weights") - _size(alone, "weights") == 2 * elements + 8 * 32000
    assert _token(both) - _token(alone) == 2 * 2 * GROUPS * HEAD


@pytest.mark.parametrize("engine", ENGINES)
def test_an_eagle_head_shares_the_output_layer(engine: Engine) -> None:
    """Beside its layer it has the projection of two hidden states."""
    model = architecture_from_config(LLAMA_8B)
    head = Speculative(num_tokens=3, head=DraftHead.EAGLE, config=json.dumps(EAGLE3))

    more = _size(_serve(model, head, engine), "weights") - _size(
        _serve(model, None, engine), "weights"
    )

    assert more == 2 * (LAYER + 2 * HIDDEN * HIDDEN + TABLE)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_predictors_are_layers_like_the_last(engine: Engine, ranks: int) -> None:
    """DeepSeek-V3's is a layer of experts behind a whole projection, and has a cache."""
    config = {**load_config(resolve_model("deepseek-v3")), "first_k_dense_replace": 1}
    model, deeper = (
        architecture_from_config({**config, "num_hidden_layers": layers}) for layers in (3, 4)
    )
    head = Speculative(num_tokens=1, head=DraftHead.MTP)

    with_head = _serve(model, head, engine, ranks)
    more = _size(with_head, "weights") - _size(_serve(deeper, None, engine, ranks), "weights")

    hidden = model.spec.hidden_size
    assert more == 2 * hidden * (2 * hidden + 3)
    assert _token(with_head) == _token(_serve(deeper, None, engine, ranks))


def test_a_head_reads_hidden_states_that_vllm_keeps() -> None:
    """They are one of each token of a step (TargetDependentARSpeculator.hidden_states)."""
    model = architecture_from_config(LLAMA_8B)
    head = Speculative(num_tokens=3, head=DraftHead.EAGLE3, config=json.dumps(EAGLE3))
    words: dict[str, Any] = {"max_num_batched_tokens": 4096, "max_num_sequences": 64}

    alone, both = _serve(model, None, **words), _serve(model, head, **words)

    assert _size(both, "sampler_state") - _size(alone, "sampler_state") == 4096 * HIDDEN * 2


@pytest.mark.parametrize("name", ["qwen3-next-80b-a3b", "qwen3.5-4b"])
def test_states_are_kept_of_every_guess(name: str) -> None:
    """A sequence takes a block more of each state for each token that is guessed (MambaSpec)."""
    model = _name(name)
    guesses = [None, Speculative(num_tokens=1), Speculative(num_tokens=3)]

    alone, one, three = (_serve(model, guess).serving for guess in guesses)
    head = _serve(model, Speculative(num_tokens=3, head=DraftHead.MTP)).serving

    assert alone is not None
    assert one is not None
    assert three is not None
    assert head is not None
    step = one.kv_cache_bytes - alone.kv_cache_bytes
    assert step > 0
    assert three.kv_cache_bytes - alone.kv_cache_bytes == 3 * step
    assert head.kv_cache_bytes > three.kv_cache_bytes


def test_a_config_without_predictors_has_none_to_load() -> None:
    """VLLM finds no such architecture, and refuses the launch."""
    model = architecture_from_config(LLAMA_8B)

    with pytest.raises(InvalidInputError, match="num_nextn_predict_layers") as refusal:
        _serve(model, Speculative(num_tokens=1, head=DraftHead.MTP))

    assert refusal.value.field == "workload.speculative.head"


def test_other_engines_have_no_heads() -> None:
    """TensorRT-LLM's are not counted, and it says so."""
    head = Speculative(num_tokens=3, head=DraftHead.EAGLE3, config=json.dumps(EAGLE3))

    with pytest.raises(NotModelledError, match="a draft head on tensorrt_llm"):
        _serve(architecture_from_config(LLAMA_8B), head, Engine.TENSORRT_LLM)


def test_a_head_of_another_model_is_refused() -> None:
    """An EAGLE head reads the hidden states of one model."""
    config = EAGLE3 | {"hidden_size": 2048}
    head = Speculative(num_tokens=3, head=DraftHead.EAGLE, config=json.dumps(config))

    with pytest.raises(InvalidInputError, match="hidden states of 2048 features"):
        _serve(architecture_from_config(LLAMA_8B), head)


def test_a_size_of_a_head_is_a_number() -> None:
    """What is no count is quoted."""
    wrong = EAGLE3 | {"draft_vocab_size": "32k"}
    head = Speculative(num_tokens=3, head=DraftHead.EAGLE3, config=json.dumps(wrong))

    with pytest.raises(InvalidInputError, match="draft_vocab_size is '32k'"):
        _serve(architecture_from_config(LLAMA_8B), head)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"head": DraftHead.MTP, "config": "{}"}, "leave the draft out"),
        ({"head": DraftHead.EAGLE3}, "say it as the draft"),
    ],
)
def test_a_head_has_its_checkpoint(words: dict[str, Any], message: str) -> None:
    """The model's own layers are in its checkpoint, others in one of their own."""
    with pytest.raises(InvalidInputError, match=message):
        Speculative(num_tokens=1, **words)


def test_a_pool_of_its_own_size_leaves_the_share_alone() -> None:
    """What is asked must fit into it, and it beside everything else on the GPU."""
    model, size = architecture_from_config(LLAMA_8B), 20 * 2**30

    answer = _serve(model, None, max_model_len=8192, kv_pool_bytes=size, gpu_memory_fraction=0.3)
    large = _serve(model, None, max_model_len=8192, kv_pool_bytes=170 * 2**30)

    assert answer.serving is not None
    assert answer.serving.kv_pool_bytes is not None
    assert 0 <= size - answer.serving.kv_pool_bytes < 16 * 131072
    assert answer.device_interval.low < answer.device_bytes < answer.device_interval.high
    assert "a lower kv_pool_bytes leaves more" in " ".join(large.warnings)
