"""Launches of transformers' Trainer as they are rendered, read back."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from service.cli.offline.inline import resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.validation_errors import decode
from service.estimator.values.batches import Evaluation
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import ContextMethod, Layout, Sharding
from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import (
    Allocator,
    Attention,
    Checkpointing,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    TrainWorkload,
)
from service.formats.renderings.job import Job
from service.formats.renderings.render import make_launch
from service.formats.renderings.trainer import OPTIMIZERS
from service.usecases.questions.fit import FitQuestion
from tests.unit.formats.launches.asking import GPU, ask
from tests.unit.formats.renderings.builders import a_job

UNSHARDED = ["fp32", "bf16", "fp16", "amp_bf16", "amp_fp16", "bf16_autocast", "fp16_autocast"]
DEEPSPEED = ["bf16_mixed", "deepspeed_bf16", "fp16_mixed", "fp32", "bf16"]
ENGINES = [Sharding.DDP, Sharding.DEEPSPEED, Sharding.FSDP1, Sharding.FSDP2]
MAX_STAGE, MAX_RANKS = 3, 16
GATHERED = Precision(
    name="custom",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
    reduce_dtype=DType.BF16,
)


def read_back(job: Job) -> FitQuestion:
    """Return the question of a job's rendered launch, with what its notes leave to the script."""
    launch, workload = make_launch(job), job.workload
    assert isinstance(workload, TrainWorkload)
    environment = [f"{name}={value}" for name, value in launch.environment.items()]
    adapters = launch.objects.get("LoraConfig")
    question = ask(
        gpu=GPU,
        model=job.model_name,
        command=[*environment, *launch.command],
        files=[{"name": name, "content": text} for name, text in launch.files.items()],
        arguments={
            "model_kwargs": launch.objects["from_pretrained"],
            **({} if adapters is None else {"peft": adapters}),
        },
        workload={
            "sequence_length": workload.sequence_length,
            **(
                {}
                if workload.method is not Method.QLORA
                else {"fp32_norms_and_head": bool(workload.fp32_norms_and_head)}
            ),
        },
    )
    assert (question.missing, question.refusal) == ((), None)
    request = decode(question.document, FitRequest)
    return read_fit(request, resolve_offline_model(request.model))


@st.composite
def draw_jobs(draw: st.DrawFn) -> Any:  # noqa: ANN401 - a job
    """Draw a job of the Trainer that its launch says."""
    sharding = draw(st.sampled_from(ENGINES))
    recomputes = draw(st.booleans())
    workload = TrainWorkload(
        sequence_length=1024,
        micro_batch_size=draw(st.sampled_from([1, 4])),
        gradient_accumulation_steps=draw(st.sampled_from([1, 8])),
        optimizer=draw(st.sampled_from(sorted(OPTIMIZERS))),
        activation_checkpointing=Checkpointing.FULL if recomputes else Checkpointing.NONE,
        reentrant_checkpointing=recomputes and draw(st.booleans()),
        attention=draw(st.sampled_from([Attention.SDPA, Attention.FLASH, Attention.EAGER])),
        gradient_clipping=draw(st.booleans()),
        allocator=draw(st.sampled_from(Allocator)),
        compile=draw(st.booleans()),
        deterministic=draw(st.booleans()),
        save_total_limit=draw(st.sampled_from([None, 2])),
        evaluation=draw(
            st.sampled_from(
                [None, Evaluation(batch_size=64, kept_batches=0), Evaluation(kept_batches=3)]
            )
        ),
    )
    if draw(st.booleans()):
        workload = replace(workload, kernels=Kernels.LIGER, loss=Loss.FUSED_LINEAR)
    job = _draw_engine(draw, workload, sharding)
    if job.layout.context_parallel == 1 or not isinstance(job.workload, TrainWorkload):
        return job
    # Of an evaluation whose sequences ranks share there is no term, and a launch of it is not read.
    return replace(job, workload=replace(job.workload, evaluation=None))


def _draw_engine(draw: st.DrawFn, workload: TrainWorkload, sharding: Sharding) -> Job:
    if sharding is Sharding.DDP:
        method = draw(st.sampled_from([Method.FULL, Method.LORA, Method.QLORA]))
        return a_job(
            replace(
                workload,
                precision=POLICIES[draw(st.sampled_from(UNSHARDED))],
                method=method,
                lora=None if method is Method.FULL else _draw_lora(draw),
                **({} if method is not Method.QLORA else _draw_bits(draw)),
            ),
            Layout(data_parallel=draw(st.sampled_from([1, 2, 8]))),
            gpu=GPU,
        )
    if sharding is Sharding.DEEPSPEED:
        return _draw_deepspeed(draw, workload)
    return _draw_fsdp(draw, workload, sharding)


def _draw_deepspeed(draw: st.DrawFn, workload: TrainWorkload) -> Job:
    stage = draw(st.sampled_from([1, 2, 3]))
    targets = [OffloadTarget.NONE, OffloadTarget.CPU, OffloadTarget.NVME][: stage + 1]
    offload = Offload(
        parameters=draw(st.sampled_from(targets)) if stage == MAX_STAGE else OffloadTarget.NONE,
        optimizer=draw(st.sampled_from(targets)),
    )
    adapts = draw(st.booleans())
    policies = ["bf16_mixed", "fp16_mixed"] if adapts else DEEPSPEED
    policy = POLICIES[draw(st.sampled_from(policies))]
    workload = replace(workload, precision=policy, offload=offload)
    if adapts:
        lora = replace(_draw_lora(draw), dtype=policy.param_dtype)
        workload = replace(workload, method=Method.LORA, lora=lora)
    ranks = draw(st.sampled_from([1, 8, 16]))
    shares = draw(st.sampled_from([1, 2]))
    method = ContextMethod.ULYSSES if shares > 1 else ContextMethod.RING
    layout = Layout(
        data_parallel=ranks,
        context_parallel=shares,
        context_parallel_method=method,
        zero_stage=stage,
        sharding=Sharding.DEEPSPEED,
    )
    return a_job(workload, layout, gpu=GPU)


def _draw_fsdp(draw: st.DrawFn, workload: TrainWorkload, sharding: Sharding) -> Job:
    target = draw(st.sampled_from([OffloadTarget.NONE, OffloadTarget.CPU]))
    is_second = sharding is Sharding.FSDP2
    recomputes = workload.activation_checkpointing is Checkpointing.FULL
    offloads = is_second and recomputes and not workload.reentrant_checkpointing
    activations = draw(st.sampled_from([OffloadTarget.NONE, OffloadTarget.CPU][: 1 + offloads]))
    adapts = draw(st.booleans())
    ranks = draw(st.sampled_from([2, 8, 16]))
    return a_job(
        replace(
            workload,
            precision=GATHERED,
            offload=Offload(parameters=target, optimizer=target, activations=activations),
            method=Method.LORA if adapts else Method.FULL,
            lora=_draw_lora(draw) if adapts else None,
        ),
        Layout(
            data_parallel=ranks,
            zero_stage=3,
            sharding=sharding,
            reshard_after_forward=draw(st.booleans()),
            tensor_parallel=draw(st.sampled_from([1, 2])) if is_second else 1,
            context_parallel=draw(st.sampled_from([1, 2])) if is_second else 1,
            shard_size=8 if ranks == MAX_RANKS and draw(st.booleans()) else None,
        ),
        gpu=GPU,
    )


def _draw_lora(draw: st.DrawFn) -> Lora:
    targets = draw(st.sampled_from([None, ("q_proj", "v_proj")]))
    variant = draw(st.sampled_from(["lora", "dora", "rslora"]))
    return Lora(rank=draw(st.sampled_from([8, 64])), targets=targets, variant=variant)


def _draw_bits(draw: st.DrawFn) -> dict[str, Any]:
    bits = draw(st.sampled_from([4, 8]))
    double = draw(st.booleans()) if bits == 4 else True
    norms = draw(st.booleans())
    return {
        "quantization_bits": bits,
        "double_quantization": double,
        "fp32_norms_and_head": norms,
    }


def test_an_optimizer_that_deepspeed_makes_is_read_back() -> None:
    """DeepSpeed's file names it, and the trainer's arguments have no word for it."""
    workload = TrainWorkload(
        sequence_length=1024, optimizer="onebit_adam", precision=POLICIES["fp16_mixed"]
    )
    job = a_job(workload, Layout(data_parallel=8, sharding=Sharding.DEEPSPEED), gpu=GPU)

    question = read_back(job)

    assert question.workload == job.workload
    assert question.layout == job.layout


@settings(max_examples=60, deadline=None)
@given(job=draw_jobs())
def test_what_is_rendered_is_read_back(job: Any) -> None:  # noqa: ANN401 - a job
    """A rendered launch asks what was evaluated, of the same model, workload and layout."""
    question = read_back(job)

    assert question.workload == job.workload
    assert question.layout == job.layout
