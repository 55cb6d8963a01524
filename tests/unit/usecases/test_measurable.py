"""What is refused before it waits in the queue."""

from typing import Any

import msgspec
import pytest

from service.errors import InvalidRequestError
from service.estimator.dtypes import DType
from service.estimator.errors import NotModelledError
from service.estimator.families.registry import architecture_from_config
from service.estimator.layout import Layout
from service.estimator.precision import Precision
from service.estimator.workload import (
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Loss,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.jobs.contract import ModelSource, ProbeDevice, task_of
from service.usecases.measurable import check_measurable, check_plannable
from tests.job_builders import TINY_LLAMA, a_request

FP8 = Precision(
    name="custom", param_dtype=DType.FP8, compute_dtype=DType.FP8, grad_dtype=DType.FP32, optimizer_dtype=DType.FP32
)

QUANTISED: dict[str, object] = {**TINY_LLAMA, "quantization_config": {"bits": 4}}


def serving(**words: Any) -> dict[str, object]:  # noqa: ANN401  # words of ServeWorkload
    """Return the change to a serving request."""
    return {"task": task_of(ServeWorkload(num_sequences=1, prompt_tokens=8, **words))}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"device": ProbeDevice.CUDA}, "device"),
        ({"layout": Layout(pipeline_parallel=2)}, "layout.pipeline_parallel"),
        ({"layout": Layout(data_parallel=2), "rank": 2}, "rank"),
        ({"model": ModelSource(architecture={})}, "model"),
        (
            {"model": ModelSource(architecture={}, hf_config=QUANTISED)},
            "model.hf_config.quantization_config",
        ),
        ({"model": ModelSource(architecture={}, hf_config=QUANTISED, name="stored")}, "model"),
        ({"task": task_of(TrainWorkload(sequence_length=8, precision=FP8))}, "workload.precision.param_dtype"),
        ({"task": task_of(TrainWorkload(sequence_length=8, method=Method.QLORA, lora=Lora()))}, "workload.method"),
        ({"task": task_of(TrainWorkload(sequence_length=8, loss=Loss.CHUNKED))}, "workload.loss"),
        ({"task": task_of(TrainWorkload(sequence_length=8, framework=Framework.TORCHTITAN))}, "workload.framework"),
        ({"task": task_of(TrainWorkload(sequence_length=8, frozen=("norm",)))}, "workload.frozen"),
        (
            {"task": task_of(TrainWorkload(sequence_length=8, activation_checkpointing=Checkpointing.SELECTIVE))},
            "workload.activation_checkpointing",
        ),
        (serving(engine=Engine.VLLM), "workload.engine"),
        (serving(quantization=Quantization.NF4), "workload.quantization"),
        (serving(weight_dtype=DType.FP8, kv_cache_dtype=DType.FP8), "workload.weight_dtype"),
        (serving(kv_cache_dtype=DType.FP8), "workload.kv_cache_dtype"),
    ],
)
def test_what_no_probe_can_run_is_refused_by_its_field(change: dict[str, object], field: str) -> None:
    """Each refusal names the field of the request and says what would be right."""
    with pytest.raises(InvalidRequestError) as refusal:
        check_measurable(msgspec.structs.replace(a_request(), **change))

    errors = refusal.value.extra["errors"]
    assert isinstance(errors, list)
    assert errors[0] == {"field": field, "message": refusal.value.detail}


@pytest.mark.parametrize(
    ("workload", "field"),
    [
        (TrainWorkload(sequence_length=8, optimizer="shampoo"), "workload.optimizer"),
        (ServeWorkload(num_sequences=1, prompt_tokens=8, kv_cache_dtype=DType.FP8), "workload.kv_cache_dtype"),
    ],
)
def test_what_the_estimator_cannot_answer_is_not_queued(workload: Workload, field: str) -> None:
    """Its probe would refuse it too, since it plans with the analytic answer."""
    with pytest.raises(NotModelledError) as refusal:
        check_plannable(architecture_from_config(TINY_LLAMA), workload, Layout())

    assert refusal.value.field == field


@pytest.mark.parametrize("model_type", ["bert", "t5", "whisper", "vit"])
def test_a_model_that_no_probe_builds_is_not_queued(model_type: str) -> None:
    """Probes run causal language models; encoders are answered for, and measured by nobody."""
    model = architecture_from_config({"model_type": model_type})

    with pytest.raises(InvalidRequestError, match=f"and {model_type} is none"):
        check_plannable(model, TrainWorkload(sequence_length=64), Layout())


@pytest.mark.parametrize("change", [{}, serving(), serving(weight_dtype=DType.FP32, kv_cache_dtype=DType.FP32)])
def test_what_a_probe_can_run_passes(change: dict[str, object]) -> None:
    """The plain requests wait for their worker."""
    check_measurable(msgspec.structs.replace(a_request(), **change))
