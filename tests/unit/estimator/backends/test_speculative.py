"""A draft model beside the target: its weights and its cache; n-grams cost nothing but room for
what they guess.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.base.errors import InvalidRequestError, UnknownModelError
from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_question.workloads import read_workload
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.speculative import Speculative
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.checkpoints.gguf_document import join_headers
from service.formats.checkpoints.gguf_header import parse_gguf_header
from service.formats.checkpoints.gguf_model import build_gguf_architecture
from service.planner.fit.changes import to_json_value
from tests.builders import a_device
from tests.unit.estimator.backends.test_vllm import LLAMA_8B

DRAFT: dict[str, Any] = LLAMA_8B | {
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "intermediate_size": 8192,
    "head_dim": 64,
    "tie_word_embeddings": True,
}
DRAFTING = [engine for engine in Engine if engine not in {Engine.LMDEPLOY, Engine.TGI}]
BESIDE = Speculative(num_tokens=4, config=json.dumps(DRAFT))
TOKEN_BYTES = 16 * 2 * 8 * 64 * 2
"""What the draft's cache keeps of one token: 16 layers, key and value, 8 heads of 64, 16 bits."""


def serve(
    engine: Engine, speculative: Speculative | None, layout: Layout | None = None
) -> Estimate:
    """Ask for eight sequences of 1,024 tokens."""
    workload = ServeWorkload(
        num_sequences=8,
        prompt_tokens=1000,
        output_tokens=24,
        engine=engine,
        speculative=speculative,
        client=Client.LOOP if engine is Engine.TRANSFORMERS else Client.GENERATE,
    )
    return estimate(
        architecture_from_config(LLAMA_8B), workload, layout=layout or Layout(), device=a_device()
    )


def weights(answer: Estimate) -> int:
    """Return the bytes of the weights."""
    return next(component.bytes for component in answer.components if component.name == "weights")


@pytest.mark.parametrize("engine", DRAFTING)
def test_a_draft_adds_its_weights(engine: Engine) -> None:
    """Llama-3.2-1B takes 2.3 GiB, wherever it drafts."""
    more = weights(serve(engine, BESIDE)) - weights(serve(engine, None))
    tensors = architecture_from_config(DRAFT).weight_bytes(
        ServeWorkload(num_sequences=1, prompt_tokens=1).weight_dtype
    )

    assert more == pytest.approx(tensors, rel=0.02)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM])
def test_a_draft_shares_the_pool(engine: Engine) -> None:
    """A token takes what both models keep of it."""
    alone, both = serve(engine, None).serving, serve(engine, BESIDE).serving

    assert alone is not None
    assert both is not None
    assert both.kv_bytes_per_token - alone.kv_bytes_per_token == TOKEN_BYTES
    assert (both.kv_pool_tokens or 0) < (alone.kv_pool_tokens or 0)


def test_a_draft_has_a_cache_of_its_own_on_transformers() -> None:
    """Assisted generation keeps a cache for each model."""
    alone, both = (
        serve(Engine.TRANSFORMERS, None).serving,
        serve(Engine.TRANSFORMERS, BESIDE).serving,
    )

    assert alone is not None
    assert both is not None
    assert both.kv_cache_bytes - alone.kv_cache_bytes == 8 * 1024 * TOKEN_BYTES


@pytest.mark.parametrize("engine", DRAFTING)
def test_n_grams_need_no_weights(engine: Engine) -> None:
    """Guesses from the prompt itself run on no model."""
    assert weights(serve(engine, Speculative(num_tokens=4))) == weights(serve(engine, None))


def test_a_request_names_a_draft_of_the_catalogue() -> None:
    """The name becomes the config that the catalogue has of it, and is said again in answers."""
    asked = {"task": "serve", "num_sequences": 1, "prompt_tokens": 8}
    speculative = {"num_tokens": 4, "draft": "llama-3.2-1b"}
    request: Any = msgspec.convert(asked | {"speculative": speculative}, WorkloadRequest)
    workload, _ = read_workload(request)

    assert isinstance(workload, ServeWorkload)
    assert workload.speculative is not None
    assert json.loads(workload.speculative.config or "")["num_hidden_layers"] == 16
    assert to_json_value(workload.speculative) == speculative


def test_a_request_brings_a_draft_along() -> None:
    """An inline config is kept as it is."""
    speculative = {"num_tokens": 4, "draft": {"hf_config": DRAFT}}
    asked = {"task": "serve", "num_sequences": 1, "prompt_tokens": 8, "speculative": speculative}
    request: Any = msgspec.convert(asked, WorkloadRequest)
    workload, _ = read_workload(request)

    assert isinstance(workload, ServeWorkload)
    assert to_json_value(workload.speculative) == speculative


def test_an_unknown_draft_is_refused_by_its_field() -> None:
    """The catalogue names the nearest models."""
    speculative = {"num_tokens": 4, "draft": "llama-9"}
    asked = {"task": "serve", "num_sequences": 1, "prompt_tokens": 8, "speculative": speculative}
    request: Any = msgspec.convert(asked, WorkloadRequest)

    with pytest.raises(UnknownModelError):
        read_workload(request)


@pytest.mark.parametrize(
    ("speculative", "layout", "error"),
    [
        (BESIDE, Layout(pipeline_parallel=2), NotModelledError),
        (Speculative(num_tokens=1, config='{"model_type": "mamba"}'), Layout(), InvalidInputError),
    ],
)
def test_drafts_without_a_term_are_refused(
    speculative: Speculative, layout: Layout, error: type[Exception]
) -> None:
    """A pipeline has no stage for a draft, and a config must be whole."""
    with pytest.raises((error, NotModelledError)):
        serve(Engine.VLLM, speculative, layout)


def test_a_guess_is_of_one_token_at_least() -> None:
    """Nothing is guessed with no tokens."""
    with pytest.raises(InvalidInputError):
        Speculative(num_tokens=0)


def test_a_draft_of_another_vocabulary_is_refused_by_vllm() -> None:
    """It verifies that both have as many tokens (config/speculative.py,
    verify_equal_vocab_size_if_draft_model).
    """
    other = Speculative(num_tokens=4, config=json.dumps(DRAFT | {"vocab_size": 32000}))

    with pytest.raises(InvalidInputError, match="vocabulary") as refusal:
        serve(Engine.VLLM, other)

    assert refusal.value.field == "workload.speculative.draft"


def test_a_draft_from_a_file_has_its_own_bytes() -> None:
    """llama.cpp adds what the tensors of the GGUF file hold; other engines say what they need, and
    the answer's own words give the same again.
    """
    file = Path(__file__).parents[3] / "data/checkpoints/gguf/qwen3.gguf"
    with file.open("rb") as stream:
        document = join_headers([parse_gguf_header(stream)]).describe()
    asked: dict[str, Any] = {"task": "serve", "num_sequences": 1, "prompt_tokens": 8}
    draft = {"gguf": document, "origin": "qwen3.gguf"}
    request: Any = msgspec.convert(
        asked | {"speculative": {"num_tokens": 4, "draft": draft}}, WorkloadRequest
    )
    workload, assumptions = read_workload(request)
    assert isinstance(workload, ServeWorkload)
    more = weights(serve(Engine.LLAMA_CPP, workload.speculative)) - weights(
        serve(Engine.LLAMA_CPP, None)
    )
    held = build_gguf_architecture(document).gguf
    again: Any = msgspec.convert(
        asked | {"speculative": to_json_value(workload.speculative)}, WorkloadRequest
    )

    assert "draft model read from qwen3.gguf" in assumptions
    assert held is not None
    assert more == held.layers + held.head
    assert read_workload(again)[0] == workload
    with pytest.raises(NotModelledError, match="a draft model from a GGUF file on vllm"):
        serve(Engine.VLLM, workload.speculative)
    assert weights(serve(Engine.TRANSFORMERS, workload.speculative)) > more


def test_a_draft_is_brought_once() -> None:
    """None and two are refused with the words that there are."""
    asked = {"task": "serve", "num_sequences": 1, "prompt_tokens": 8}
    drafts: tuple[dict[str, Any], ...] = ({}, {"hf_config": {}, "gguf": {}})
    for draft in drafts:
        speculative = {"num_tokens": 4, "draft": draft}
        request: Any = msgspec.convert(asked | {"speculative": speculative}, WorkloadRequest)
        with pytest.raises(InvalidRequestError, match="exactly one of hf_config"):
            read_workload(request)
