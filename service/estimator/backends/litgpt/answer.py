"""Estimate of framework ``litgpt``: one step of a fine-tuning script."""

from dataclasses import replace

from service.estimator.backends.litgpt.linears import INDEX_BYTES
from service.estimator.backends.litgpt.model import (
    LitGptSpec,
    build_litgpt_model,
    list_adapters,
    name_targets,
)
from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.transformers.training import (
    TrainJob,
    explain_training,
    outline_training,
)
from service.estimator.memory.allocator.kernel_buffers import (
    KernelBuffers,
    find_kernel_buffers,
    select_kernels,
)
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.phase_peaks import correct_phase_peaks
from service.estimator.memory.question import TrainQuestion
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.static import build_static_memory
from service.estimator.memory.step_prices import StepPrices, price_step
from service.estimator.memory.timeline import (
    Timeline,
    build_timeline,
    list_phase_peaks,
    select_peak,
)
from service.estimator.memory.training_pass import (
    BatchShape,
    build_setup_pass,
    describe_batch,
    get_fixed_fields,
    resolve_batch_shape,
)
from service.estimator.model.architecture import Architecture
from service.estimator.passes.recorder import record_training
from service.estimator.rules.tables.training.litgpt import TRAIN_LITGPT
from service.estimator.tape import sizes
from service.estimator.tape.pass_shape import ROWS
from service.estimator.values.dtypes import DType
from service.estimator.values.memo import Memo
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import Framework, Lora, Method

_NO_LAYERS = Lora(rank=1, targets=("adapter",))
"""What frozen weights are asked for beside LitGPT's own adapters."""


def answer(question: TrainQuestion, cache: PassCache) -> Estimate:
    """Estimate the memory of a rank in the steady state."""
    cache.get_checks(TRAIN_LITGPT, question.model).check(question.workload, question.layout)
    partial_estimate = _estimate_step(question, cache)
    return assemble(partial_estimate, question, question.workload.precision.compute_dtype)


def _estimate_step(question: TrainQuestion, cache: PassCache) -> PartialEstimate:
    job = _get_job(question, cache)
    setup, num_tokens = job.static_memory.setup, question.num_tokens
    workload = replace(
        setup.workload,
        micro_batch_size=question.workload.micro_batch_size,
        sequence_length=question.workload.sequence_length,
    )
    shape = resolve_batch_shape(setup.model, workload)
    # Products of several sequences read copies of what one's are views of.
    shape = shape._replace(batched=workload.rows[0] > 1)
    if question.workload.peft is not None:
        shape = shape._replace(row_padding=-workload.rows[1] % ROWS)
    prices = _get_prices(job, shape, find_kernel_buffers(question.device), cache)
    values = sizes.evaluate_monomials(*workload.rows)
    lasting = _count_kept(setup.model, *workload.rows, workload.precision.compute_dtype)
    steady_bytes = job.static_memory.steady_bytes + sum(lasting.values())
    if question.detail is Detail.NUMBERS:
        sums = list_phase_peaks(prices, values)
        height = sums[-1].with_more(sum(lasting.values()))
        corrected = correct_phase_peaks((*sums[:-1], height), question.corrections, num_tokens)
        outline = outline_training(job, select_peak(job.static_memory, 0, corrected))
        return replace(outline, steady_bytes=steady_bytes)
    timeline = _keep_logits(build_timeline(prices, values, 0), lasting)
    peaks = correct_phase_peaks(timeline.peaks, question.corrections, num_tokens)
    notes = describe_batch(setup.model, workload)
    explained = explain_training(job, timeline, notes, peaks)
    return replace(explained, steady_bytes=steady_bytes)


def _count_kept(model: Architecture, num_rows: int, length: int, dtype: DType) -> dict[str, int]:
    """Return what outlives a micro batch, by part.

    The loop has names for its logits and its batch, the model for its rotary tables.
    """
    spec, tokens, width = model.spec, num_rows * length, DType.FP32.bytes_per_element
    assert isinstance(spec, LitGptSpec)  # noqa: S101 - whoever made the model
    tables = 2 * length * spec.rope_dim * width
    inputs = tokens * spec.kept_input_width * dtype.bytes_per_element
    return {
        "logits": tokens * model.vocab_size * width,
        "activations": tables + 2 * tokens * INDEX_BYTES + inputs,
    }


def _keep_logits(timeline: Timeline, lasting: dict[str, int]) -> Timeline:
    """Return a timeline with what is there beside the optimizer's step."""
    *passes, step = timeline.peaks
    added = sum(lasting.values())
    parts = step.parts | {name: step.parts.get(name, 0) + lasting[name] for name in lasting}
    raised = replace(step, allocated_bytes=step.allocated_bytes + added, parts=parts)
    *phases, (name, bytes_) = timeline.phases
    return replace(timeline, peaks=(*passes, raised), phases=(*phases, (name, bytes_ + added)))


def _get_job(question: TrainQuestion, cache: PassCache) -> TrainJob:
    """Return the job of a question, made once for every batch."""
    model, workload, layout = question.model, question.workload, question.layout
    jobs: Memo[TrainJob] = cache.get_memo("litgpt jobs")
    key = (cache.get_model_key(model), get_fixed_fields(workload), layout)
    job = jobs.get(key)
    if job is not None:
        return job
    dtype, peft = workload.precision.param_dtype, workload.peft
    lora = _NO_LAYERS if peft is not None else workload.lora
    # Its versions are LitGPT's own, none of them a release of transformers, and nothing of it
    # calls PEFT.
    plain = replace(
        workload,
        framework=Framework.TRANSFORMERS,
        framework_version=None,
        fp32_norms_and_head=False,
        method=workload.method if peft is None else Method.LORA,
        peft=None,
        lora=None if lora is None else name_targets(lora, dtype),
    )
    setup = resolve_setup(built := build_litgpt_model(model, workload), plain, layout)
    if peft is not None:
        weights = list_adapters(built)
        numel = sum(weight.numel * count for weight, count in weights)
        setup = replace(setup, trained=replace(setup.trained, trained=numel, weights=weights))
    return jobs.store(key, TrainJob(build_static_memory(setup)))


def _get_prices(
    job: TrainJob, shape: BatchShape, kernels: KernelBuffers | None, cache: PassCache
) -> StepPrices:
    """Return the prices of a shape's recording on a GPU."""
    memo: Memo[StepPrices] = cache.get_memo("litgpt prices")
    prices = memo.get((job, shape, kernels))
    if prices is not None:
        return prices
    setup = job.static_memory.setup
    config = select_kernels(build_setup_pass(setup, shape), kernels)
    candidates = cache.get_recording(setup.model, config, record_training)
    return memo.store((job, shape, kernels), price_step(job.static_memory, candidates))
