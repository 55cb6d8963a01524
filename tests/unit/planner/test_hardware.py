"""Engines and frameworks are asked on hardware that they run on, in formats that it has."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.dtypes import DType
from service.estimator.errors import InvalidInputError
from service.estimator.workload import Engine, Framework, Quantization, Workload
from service.planner.fit import judged
from service.planner.hardware import check_hardware
from service.planner.objectives import Objective
from service.planner.offer import Offer
from service.planner.plans import find_plans
from service.planner.space import Limits, Question
from service.planner.subject import Subject, make_subject
from tests.unit.planner.builders import CHAT, ONE_GPU, SHORT, shallow

MODEL = shallow("tinyllama-1.1b", 2)
SERVED = replace(CHAT, engine=Engine.VLLM)


def _on(gpu: str) -> Subject:
    return make_subject(MODEL, resolve_gpu(gpu).device())


@pytest.mark.parametrize(
    ("gpu", "workload", "field", "said"),
    [
        ("MI300X", replace(CHAT, engine=Engine.TENSORRT_LLM), "workload.engine", "runs on GPUs of NVIDIA, and MI300X"),
        ("Gaudi2", replace(CHAT, engine=Engine.TENSORRT_LLM), "workload.engine", "is one of Intel Gaudi"),
        ("Gaudi2", replace(SHORT, framework=Framework.MEGATRON), "workload.framework", "runs on GPUs of NVIDIA and AMD"),
    ],
)
def test_what_does_not_run_on_a_makers_gpus_is_refused(gpu: str, workload: Workload, field: str, said: str) -> None:
    """No bytes are told of a program that would not start."""
    with pytest.raises(InvalidInputError, match=said) as refused:
        judged(_on(gpu), workload, ONE_GPU)

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("gpu", "workload"),
    [("MI300X", replace(SHORT, framework=Framework.MEGATRON)), ("Gaudi2", SHORT), ("MI300X", SERVED), ("Gaudi2", SERVED)],
)
def test_what_runs_there_is_answered(gpu: str, workload: Workload) -> None:
    """Megatron has a Transformer Engine for AMD's GPUs; vLLM and transformers run on all."""
    assert judged(_on(gpu), workload, ONE_GPU).estimate.device_bytes


def test_of_a_gpu_that_is_a_number_of_bytes_nothing_is_refused() -> None:
    """Nobody told who makes it."""
    unknown = replace(resolve_gpu("MI300X").device(), vendor="unknown")

    check_hardware(unknown, replace(CHAT, engine=Engine.TENSORRT_LLM))


def test_plans_of_a_gaudi_train_with_what_runs_there() -> None:
    """Megatron is none of their ways, though it would need the least."""
    question = Question(workload=SHORT, layout=ONE_GPU, limits=Limits(max_gpus=2))
    subject = _on("Gaudi2")
    plans = find_plans([(Offer(device=subject.device), subject)], question, Objective.FASTEST)

    assert plans.best is not None
    for candidate in plans.best.plan.candidates:
        assert getattr(candidate.workload, "framework", None) is not Framework.MEGATRON


@pytest.mark.parametrize(("gpu", "dtype"), [("T4", DType.FP16), ("V100-SXM2-32GB", DType.FP16), ("L4", DType.BF16)])
def test_plans_serve_in_a_format_that_the_gpu_has(gpu: str, dtype: DType) -> None:
    """Engines refuse bf16 on GPUs without it; fp16 has as many bytes."""
    subject = _on(gpu)
    plans = find_plans(
        [(Offer(device=subject.device), subject)], Question(workload=SERVED, layout=ONE_GPU), Objective.FEWEST_GPUS
    )

    assert plans.best is not None
    workload = plans.best.plan.candidates[0].workload
    assert (getattr(workload, "weight_dtype", None), getattr(workload, "kv_cache_dtype", None)) == (dtype, dtype)
    assert not any("no hardware" in said for said in plans.best.plan.candidates[0].estimate.warnings)


def test_a_format_that_is_asked_for_is_kept() -> None:
    """The request's own word stands, with a warning."""
    subject = _on("T4")
    question = Question(workload=SERVED, layout=ONE_GPU, fixed=frozenset({"weight_dtype"}))
    plans = find_plans([(Offer(device=subject.device), subject)], question, Objective.FEWEST_GPUS)

    assert plans.best is not None
    assert getattr(plans.best.plan.candidates[0].workload, "weight_dtype", None) is DType.BF16


@pytest.mark.parametrize(
    ("gpu", "changes", "said"),
    [
        ("T4", {"quantization": Quantization.FP8}, ["quantization fp8 needs fp8 arithmetic"]),
        ("V100-SXM2-32GB", {"kv_cache_dtype": DType.FP8}, ["kv_cache_dtype fp8 needs fp8 arithmetic"]),
        (
            "A100-SXM4-80GB",
            {"quantization": Quantization.FP8, "kv_cache_dtype": DType.FP8},
            ["quantization fp8 and kv_cache_dtype fp8 need fp8 arithmetic"],
        ),
        ("L4", {"quantization": Quantization.FP8, "kv_cache_dtype": DType.FP8}, []),
    ],
)
def test_serving_in_fp8_without_hardware_for_it_is_told(gpu: str, changes: dict[str, object], said: list[str]) -> None:
    """The bytes hold where a kernel unpacks them, and nowhere else."""
    warnings = judged(_on(gpu), replace(SERVED, **changes), ONE_GPU).warnings  # type: ignore[arg-type]  # each word has its own type

    assert [one.split(",")[0] for one in warnings if "fp8 arithmetic" in one] == said
