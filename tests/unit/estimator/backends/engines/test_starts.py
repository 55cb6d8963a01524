"""What an engine asks of its pool before it starts, and what SGLang holds beside its pool."""

import re
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.planner.fit.verdict import Verdict, judge

SMALL, LARGE = resolve_gpu("RTX-4090").to_device(), resolve_gpu("B200").to_device()


def _serve(engine: Engine, device: Device, **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    asked: dict[str, Any] = {"num_sequences": 1, "prompt_tokens": 1000, "output_tokens": 200}
    return estimate(
        load_architecture(resolve_model("llama-3.1-8b")),
        ServeWorkload(**({"engine": engine} | asked | words)),
        layout=Layout(),
        device=device,
    )


@pytest.mark.parametrize(
    "engine", [Engine.SGLANG, Engine.TENSORRT_LLM, Engine.LMDEPLOY, Engine.TGI]
)
def test_an_engine_starts_with_fewer_tokens_than_its_context(engine: Engine) -> None:
    """SGLang's log of Llama 3.1 8B with a context of 131,072 on 24 GB has a pool of 38,141 tokens
    (sgl_l31_8b_24g); TensorRT-LLM, LMDeploy and TGI shorten their longest request.
    """
    answer = _serve(engine, SMALL)

    assert answer.serving is not None
    assert answer.serving.kv_pool_tokens is not None
    assert 1200 < answer.serving.kv_pool_tokens < 131_072
    assert judge(answer, SMALL).verdict is not Verdict.DOES_NOT_FIT
    assert any("longer requests are refused" in text for text in answer.warnings)


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (Engine.VLLM, {}),
        (Engine.TGI, {"max_model_len": 131_072}),
        (Engine.TGI, {"engine_version": "2.4"}),
    ],
)
def test_an_engine_that_asks_for_its_longest_request_does_not_start(
    engine: Engine, words: dict[str, Any]
) -> None:
    """A vLLM refuses its default ``max_model_len``, TGI a ``--max-total-tokens`` that is said."""
    answer = _serve(engine, SMALL, **words)

    assert judge(answer, SMALL).verdict is Verdict.DOES_NOT_FIT
    assert any("no room for one sequence of max_model_len" in text for text in answer.warnings)


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (Engine.VLLM, {}),
        (Engine.TGI, {"max_model_len": 131_072}),
        (Engine.TGI, {"engine_version": "2.4"}),
    ],
)
def test_the_longest_request_that_has_room_is_told(engine: Engine, words: dict[str, Any]) -> None:
    """With the length that is told an engine starts, and with one token more it does not; where
    weights alone are too much none is told.
    """
    found = (
        re.search("with max_model_len ([0-9,]+) it has", text)
        for text in _serve(engine, SMALL, **words).warnings
    )
    (length,) = [int(match[1].replace(",", "")) for match in found if match]

    assert (
        judge(_serve(engine, SMALL, **words | {"max_model_len": length}), SMALL).verdict
        is Verdict.FITS
    )
    above = _serve(engine, SMALL, **words | {"max_model_len": length + 1})
    assert any("does not start" in text for text in above.warnings)
    tiny = Device(name="tiny", capacity_bytes=8 * GIB, usable_bytes=8 * GIB)
    assert not any("with max_model_len" in text for text in _serve(engine, tiny, **words).warnings)


def test_a_pool_without_a_token_does_not_start() -> None:
    """``MemoryPoolConfig`` raises where ``max_total_num_tokens`` is 0."""
    answer = _serve(Engine.SGLANG, resolve_gpu("RTX-4080").to_device())

    assert any("no room for a token" in text for text in answer.warnings)


def _count_table(answer: Estimate) -> int:
    return next(part.bytes for part in answer.components if part.name == "request_table")


def test_a_row_of_the_request_table_has_the_whole_context() -> None:
    """Llama 4 Scout with its context of 10,485,760 tried to allocate 80.04 GiB
    (sgl-project/sglang, number 5755): 2,049 rows of 32-bit integers.
    """
    answer = _serve(Engine.SGLANG, LARGE, max_model_len=10_485_760)

    assert round(_count_table(answer) / GIB, 2) == 80.04


def test_fewer_running_requests_have_fewer_rows() -> None:
    """``--max-running-requests`` and a row of padding."""
    answer = _serve(Engine.SGLANG, LARGE, max_num_sequences=31)

    assert _count_table(answer) == 32 * (131_072 + 4) * 4


def test_graphs_are_none_in_an_eager_server_whose_workspace_stays() -> None:
    """Logs have 0.63 GiB between pool and capture."""
    eager, whole = (
        _serve(Engine.SGLANG, SMALL, enforce_eager=enforce_eager) for enforce_eager in (True, False)
    )
    parts = [{part.name: part.bytes for part in answer.components} for answer in (eager, whole)]

    assert parts[0]["library_workspaces"] == parts[1]["library_workspaces"] == 645 << 20
    assert parts[1].get("cuda_graphs", 0) - parts[0].get("cuda_graphs", 0) == 870 << 20
