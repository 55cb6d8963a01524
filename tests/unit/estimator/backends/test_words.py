"""Words of a serving request that contradict a model, or that an engine does nothing with."""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.contract.to_answer.requests import render_workload
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from tests.unit.estimator.backends.test_vllm import LLAMA_8B

GPTQ = LLAMA_8B | {
    "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}
}
ENGINES = [Engine.TRANSFORMERS, Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM]


def serve(engine: Engine, config: dict[str, Any] = LLAMA_8B, **words: Any) -> Estimate:  # noqa: ANN401 - words differ in type
    """Ask what a server on one H100 needs."""
    layout = words.pop("layout", Layout())
    asked: dict[str, Any] = {"num_sequences": 2, "prompt_tokens": 500, "engine": engine}
    device = resolve_gpu("H100-SXM5-80GB").to_device()
    return estimate(
        architecture_from_config(config),
        ServeWorkload(**asked | words),
        layout=layout,
        device=device,
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", [{"unquantised": True}, {"quantization": Quantization.INT8}])
def test_a_format_that_contradicts_the_config_is_refused(
    engine: Engine, words: dict[str, Any]
) -> None:
    """Neither "none" nor another format undoes what a checkpoint's config says of its weights."""
    with pytest.raises(InvalidInputError, match="config packs its weights as gptq") as refusal:
        serve(engine, GPTQ, **words)

    assert refusal.value.field == "workload.quantization"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_formats_own_word_changes_nothing(engine: Engine) -> None:
    """Said or left out, the config's format is the one that is served."""
    assert (
        serve(engine, GPTQ).device_bytes
        == serve(engine, GPTQ, quantization=Quantization.GPTQ_INT4).device_bytes
    )


def test_a_workload_says_none_only_where_it_was_said() -> None:
    """Sent back, an absent word stays absent, so that a config still decides."""
    absent = render_workload(ServeWorkload(num_sequences=1, prompt_tokens=1))
    said = render_workload(ServeWorkload(num_sequences=1, prompt_tokens=1, unquantised=True))

    assert "quantization" not in absent
    assert said["quantization"] == "none"
    assert "unquantised" not in absent.keys() | said.keys()


@pytest.mark.parametrize(
    ("model", "engine"), [("bert-base", Engine.VLLM), ("whisper-tiny", Engine.SGLANG)]
)
def test_models_with_encoders_are_refused_by_what_they_are(model: str, engine: Engine) -> None:
    """A model with a decoder behind its encoder has a cache; transformers serves both."""
    workload = ServeWorkload(num_sequences=1, prompt_tokens=64, engine=engine)
    device = resolve_gpu("H100-SXM5-80GB").to_device()

    with pytest.raises(NotModelledError, match="engine transformers") as refusal:
        estimate(load_architecture(resolve_model(model)), workload, layout=Layout(), device=device)

    assert refusal.value.field == "workload.engine"
    assert "without a cache" not in refusal.value.message
