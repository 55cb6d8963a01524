"""What is refused before it waits in the queue."""

from typing import Any

import msgspec
import pytest

from service.base.errors import InvalidRequestError
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.precision import Precision
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.jobs.contract import ModelSource, ProbeDevice, make_task
from service.usecases.jobs.measurable import check_measurable, check_plannable
from tests.job_builders import TINY_LLAMA, a_request
from tests.tiny_models import tiny_config

FP8 = Precision(
    name="custom",
    param_dtype=DType.FP8,
    compute_dtype=DType.FP8,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)

QUANTISED: dict[str, object] = {**TINY_LLAMA, "quantization_config": {"bits": 4}}


def serving(**words: Any) -> dict[str, object]:  # noqa: ANN401 - words of ServeWorkload
    """Return the change to a serving request."""
    return {"task": make_task(ServeWorkload(num_sequences=1, prompt_tokens=8, **words))}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"layout": Layout(pipeline_parallel=2)}, "layout.pipeline_parallel"),
        ({"layout": Layout(data_parallel=2), "rank": 2}, "rank"),
        ({"model": ModelSource(architecture={})}, "model"),
        (
            {"model": ModelSource(architecture={}, hf_config=QUANTISED)},
            "model.hf_config.quantization_config",
        ),
        ({"model": ModelSource(architecture={}, hf_config=QUANTISED, name="stored")}, "model"),
        (
            {"task": make_task(TrainWorkload(sequence_length=8, precision=FP8))},
            "workload.precision.param_dtype",
        ),
        (
            {"task": make_task(TrainWorkload(sequence_length=8, method=Method.QLORA, lora=Lora()))},
            "workload.method",
        ),
        ({"task": make_task(TrainWorkload(sequence_length=8, loss=Loss.CHUNKED))}, "workload.loss"),
        (
            {"task": make_task(TrainWorkload(sequence_length=8, framework=Framework.TORCHTITAN))},
            "workload.framework",
        ),
        (
            {"task": make_task(TrainWorkload(sequence_length=8, frozen=("norm",)))},
            "workload.frozen",
        ),
        (
            {
                "task": make_task(
                    TrainWorkload(
                        sequence_length=8, activation_checkpointing=Checkpointing.SELECTIVE
                    ),
                ),
            },
            "workload.activation_checkpointing",
        ),
        (serving(engine=Engine.VLLM), "workload.engine"),
        (serving(quantization=Quantization.NF4), "workload.quantization"),
        (serving(weight_dtype=DType.FP8, kv_cache_dtype=DType.FP8), "workload.weight_dtype"),
        (serving(kv_cache_dtype=DType.FP8), "workload.kv_cache_dtype"),
    ],
)
def test_what_no_probe_can_run_is_refused_by_its_field(
    change: dict[str, object], field: str
) -> None:
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
        (
            ServeWorkload(num_sequences=1, prompt_tokens=8, kv_cache_dtype=DType.FP8),
            "workload.kv_cache_dtype",
        ),
    ],
)
def test_what_the_estimator_cannot_answer_is_not_queued(workload: Workload, field: str) -> None:
    """Its probe would refuse it too, since it plans with the analytic answer."""
    with pytest.raises(NotModelledError) as refusal:
        check_plannable(architecture_from_config(TINY_LLAMA), workload, Layout())

    assert refusal.value.field == field


@pytest.mark.parametrize("model_type", ["t5", "whisper", "vit"])
def test_what_has_other_stacks_is_trained_and_not_served(model_type: str) -> None:
    """Probes build vision models and models of two stacks; their passes are those of training
    alone.
    """
    model = architecture_from_config(tiny_config(model_type))
    length = {"vit": 17, "whisper": 50}.get(model_type, 64)

    check_plannable(model, TrainWorkload(sequence_length=length), Layout())
    with pytest.raises(InvalidRequestError, match=f"and {model_type} is none"):
        check_plannable(model, ServeWorkload(num_sequences=1, prompt_tokens=8), Layout())


def test_an_encoder_is_served_by_one_pass() -> None:
    """A probe runs it as it is called, without tokens after it."""
    model = architecture_from_config(tiny_config("bert"))

    check_plannable(
        model, ServeWorkload(num_sequences=1, prompt_tokens=8, output_tokens=0), Layout()
    )


@pytest.mark.parametrize("device", list(ProbeDevice))
def test_every_device_is_asked_in_the_same_words(device: ProbeDevice) -> None:
    """A request waits for a worker of its device."""
    check_measurable(msgspec.structs.replace(a_request(), device=device))


@pytest.mark.parametrize(
    "change", [{}, serving(), serving(weight_dtype=DType.FP32, kv_cache_dtype=DType.FP32)]
)
def test_what_a_probe_can_run_passes(change: dict[str, object]) -> None:
    """The plain requests wait for their worker."""
    check_measurable(msgspec.structs.replace(a_request(), **change))
