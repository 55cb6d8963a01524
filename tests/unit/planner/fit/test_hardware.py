"""Engines and frameworks are asked on hardware that they run on, in formats that it has."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Engine,
    Framework,
    Lora,
    Method,
    Workload,
)
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.fit import assess_fit
from service.planner.fit.hardware import check_hardware, select_attention_kernel, select_format
from service.planner.plans.objectives import Objective
from service.planner.plans.plans import find_plans
from service.planner.search.offer import Offer
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import CHAT, ONE_GPU, SHORT, shallow

MODEL = shallow("tinyllama-1.1b", 2)
SERVED = replace(CHAT, engine=Engine.VLLM)
UNSLOTH = replace(
    SHORT,
    method=Method.QLORA,
    lora=Lora(rank=8),
    kernels=Kernels.UNSLOTH,
    loss=Loss.FUSED_LINEAR,
    precision=POLICIES["fp16_autocast"],
)


def _on(gpu: str) -> Evaluator:
    return make_evaluator(MODEL, resolve_gpu(gpu).to_device())


@pytest.mark.parametrize(
    ("gpu", "workload", "field", "said"),
    [
        (
            "MI300X",
            replace(CHAT, engine=Engine.TENSORRT_LLM),
            "workload.engine",
            "runs on GPUs of NVIDIA, and MI300X",
        ),
        (
            "Gaudi2",
            replace(CHAT, engine=Engine.TENSORRT_LLM),
            "workload.engine",
            "is one of Intel Gaudi",
        ),
        (
            "Gaudi2",
            replace(SHORT, framework=Framework.MEGATRON),
            "workload.framework",
            "runs on GPUs of NVIDIA and AMD",
        ),
    ],
)
def test_what_does_not_run_on_a_makers_gpus_is_refused(
    gpu: str, workload: Workload, field: str, said: str
) -> None:
    """No bytes are told of a program that would not start."""
    with pytest.raises(InvalidInputError, match=said) as refused:
        assess_fit(_on(gpu), workload, ONE_GPU)

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("gpu", "workload"),
    [
        ("MI300X", replace(SHORT, framework=Framework.MEGATRON)),
        ("Gaudi2", SHORT),
        ("MI300X", SERVED),
        ("Gaudi2", SERVED),
    ],
)
def test_what_runs_there_is_answered(gpu: str, workload: Workload) -> None:
    """Megatron has a Transformer Engine for AMD's GPUs; vLLM and transformers run on all."""
    assert assess_fit(_on(gpu), workload, ONE_GPU).estimate.device_bytes


def test_of_a_gpu_that_is_a_number_of_bytes_nothing_is_refused() -> None:
    """Nobody told who makes it."""
    unknown = replace(resolve_gpu("MI300X").to_device(), vendor="unknown")

    check_hardware(unknown, replace(CHAT, engine=Engine.TENSORRT_LLM))


def test_plans_of_a_gaudi_train_with_what_runs_there() -> None:
    """Megatron is none of their ways, though it would need the least."""
    question = Question(workload=SHORT, layout=ONE_GPU, limits=Limits(max_gpus=2))
    subject = _on("Gaudi2")
    plans = find_plans([(Offer(device=subject.device), subject)], question, Objective.FASTEST)

    assert plans.best is not None
    for candidate in plans.best.plan.candidates:
        assert getattr(candidate.workload, "framework", None) is not Framework.MEGATRON


@pytest.mark.parametrize(
    ("gpu", "dtype"), [("T4", DType.FP16), ("V100-SXM2-32GB", DType.FP16), ("L4", DType.BF16)]
)
def test_plans_serve_in_a_format_that_the_gpu_has(gpu: str, dtype: DType) -> None:
    """Engines refuse bf16 on GPUs without it; fp16 has as many bytes."""
    subject = _on(gpu)
    plans = find_plans(
        [(Offer(device=subject.device), subject)],
        Question(workload=SERVED, layout=ONE_GPU),
        Objective.FEWEST_GPUS,
    )

    assert plans.best is not None
    workload = plans.best.plan.candidates[0].workload
    assert (getattr(workload, "weight_dtype", None), getattr(workload, "kv_cache_dtype", None)) == (
        dtype,
        dtype,
    )
    assert not any(
        "no hardware" in said for said in plans.best.plan.candidates[0].estimate.warnings
    )


def test_a_format_that_is_asked_for_is_kept() -> None:
    """The request's own word stands: with a warning where software emulates it, refused where the
    engine does not start.
    """
    subject = _on("T4")
    question = Question(workload=CHAT, layout=ONE_GPU, fixed=frozenset({"weight_dtype"}))
    plans = find_plans([(Offer(device=subject.device), subject)], question, Objective.FEWEST_GPUS)

    assert plans.best is not None
    assert getattr(plans.best.plan.candidates[0].workload, "weight_dtype", None) is DType.BF16
    assert any(
        "no hardware for bf16" in said for said in plans.best.plan.candidates[0].estimate.warnings
    )
    with pytest.raises(InvalidInputError, match="and T4 has 7"):
        find_plans(
            [(Offer(device=subject.device), subject)],
            replace(question, workload=SERVED),
            Objective.FEWEST_GPUS,
        )


def test_training_whose_precision_nobody_said_is_in_fp16_where_there_is_no_bf16() -> None:
    """fp16_mixed keeps as many bytes per parameter as bf16_mixed, which a V100 only emulates."""
    device = resolve_gpu("V100-SXM2-32GB").to_device()

    assert select_format(device, MODEL, SHORT, ONE_GPU) == replace(
        SHORT, precision=POLICIES["fp16_mixed"]
    )
    quantised = replace(
        SHORT, method=Method.QLORA, lora=Lora(), precision=POLICIES["bf16_autocast"]
    )
    assert select_format(device, MODEL, quantised, ONE_GPU) == replace(
        quantised, precision=POLICIES["fp16_autocast"]
    )
    assert select_format(device, MODEL, SHORT, ONE_GPU, fixed=frozenset({"precision"})) is SHORT
    assert select_format(resolve_gpu("A100-SXM4-80GB").to_device(), MODEL, SHORT, ONE_GPU) is SHORT


@pytest.mark.parametrize(
    ("model", "workload", "kernel"),
    [
        ("tinyllama-1.1b", SHORT, Attention.MATH),
        ("tinyllama-1.1b", replace(SHORT, precision=POLICIES["fp16_mixed"]), Attention.MATH),
        ("llama-2-7b", replace(SHORT, precision=POLICIES["fp16_mixed"]), Attention.EFFICIENT),
        (
            "tinyllama-1.1b",
            replace(SHORT, precision=POLICIES["fp16_mixed"], padding_mask=True),
            Attention.EFFICIENT,
        ),
        ("tinyllama-1.1b", UNSLOTH, Attention.EFFICIENT),
        ("tinyllama-1.1b", replace(UNSLOTH, quantization_bits=8), Attention.MATH),
        ("tinyllama-1.1b", replace(UNSLOTH, kernels=Kernels.TORCH), Attention.MATH),
        ("llama-2-7b", replace(SHORT, precision=POLICIES["fp32"]), Attention.SDPA),
        ("llama-2-7b", SERVED, Attention.SDPA),
    ],
)
def test_sdpa_is_another_kernel_on_gpus_without_flash(
    model: str, workload: Workload, kernel: Attention
) -> None:
    """The memory-efficient one takes no bf16 there, and grouped heads of Unsloth alone; in fp32
    and in engines nothing changes.
    """
    runs = select_attention_kernel(
        resolve_gpu("V100-SXM2-32GB").to_device(), shallow(model, 2), workload
    )

    assert runs.attention is kernel


def test_scores_that_are_written_out_are_counted_and_told() -> None:
    """What flash never writes stands in memory on a V100, and the answer says which kernel that
    is.
    """
    workload = replace(SHORT, sequence_length=2048)
    old, new = (
        assess_fit(_on("V100-SXM2-32GB"), workload, ONE_GPU),
        assess_fit(_on("A100-SXM4-80GB"), workload, ONE_GPU),
    )

    scores = 4 * MODEL.spec.num_attention_heads * 2048**2
    assert old.estimate.allocated_bytes > new.estimate.allocated_bytes + scores
    assert any("sdpa is PyTorch's math kernel here" in said for said in old.warnings)
    assert not any("sdpa" in said for said in new.warnings)
