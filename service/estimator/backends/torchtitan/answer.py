"""Estimate of framework ``torchtitan``.

Its own blocks on FSDP2, and the pools of FSDP2's streams.
"""

from dataclasses import replace
from functools import partial

from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.torchtitan.model import build_torchtitan_model
from service.estimator.backends.torchtitan.parts import PartRecord
from service.estimator.backends.torchtitan.pipeline import PipelineWalk, flatten_pipeline
from service.estimator.backends.torchtitan.stages import explain_pipeline
from service.estimator.backends.transformers.training import (
    TrainJob,
    explain_training,
    outline_training,
)
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.offloading import count_host_activation_bytes
from service.estimator.memory.phase_peaks import PhasePeakBytes, correct_phase_peaks
from service.estimator.memory.question import TrainQuestion
from service.estimator.memory.setup import TrainSetup, resolve_setup
from service.estimator.memory.static import StaticMemory, build_static_memory
from service.estimator.memory.step_prices import StepPrices, price_step
from service.estimator.memory.timeline import build_timeline, list_phase_peaks, select_peak
from service.estimator.memory.training_pass import (
    BatchShape,
    build_setup_pass,
    describe_batch,
    get_fixed_fields,
    resolve_batch_shape,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.split import split_model
from service.estimator.model.pipelines.torchtitan import name_torchtitan_split
from service.estimator.passes.config import PeakCandidates, TrainingPass
from service.estimator.passes.losses import LossPass
from service.estimator.passes.recorder import record_training
from service.estimator.rules.tables.training.torchtitan import (
    TORCHTITAN_MODELS,
    TRAIN_TORCHTITAN,
    is_loss_compiled,
)
from service.estimator.rules.tables.training.transformers import STEP_BY_OPERATION
from service.estimator.tape import sizes
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.memo import Memo
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import Framework, TrainWorkload

MAX_RECORDINGS = 1024
_PLAIN = LossPass(kind=Loss.FULL_LOGITS)


def answer(question: TrainQuestion, cache: PassCache) -> Estimate:
    """Estimate the memory of a rank in the steady state."""
    cache.get_checks(TRAIN_TORCHTITAN, question.model).check(question.workload, question.layout)
    workload, layout = _split_to_rank(question.workload, question.layout)
    context_ranks = question.layout.context_parallel
    local = replace(question, workload=workload, layout=layout)
    if layout.pipeline_parallel > 1:
        return _answer_pipeline(question, local, context_ranks, cache)
    job = _get_job(local, context_ranks, cache)
    cache.get_checks(STEP_BY_OPERATION, question.model).check_sizes(workload, layout)
    prices = _get_prices(local, context_ranks, job, cache)
    values = sizes.evaluate_monomials(workload.micro_batch_size, workload.sequence_length)
    peaks = list_phase_peaks(prices, values)
    host_bytes = count_host_activation_bytes(job.static_memory.setup, local.num_tokens)
    if question.detail is Detail.NUMBERS:
        corrected = correct_phase_peaks(peaks, question.corrections, local.num_tokens)
        peak = select_peak(job.static_memory, host_bytes, corrected)
        partial_estimate = outline_training(job, peak)
    else:
        timeline = build_timeline(prices, values, host_bytes)
        notes = describe_batch(job.static_memory.model, workload)
        corrected_peaks = correct_phase_peaks(
            timeline.peaks, question.corrections, local.num_tokens
        )
        partial_estimate = explain_training(job, timeline, notes, corrected_peaks)
    return assemble(
        replace(
            partial_estimate,
            gathers=False,
            kind="torchtitan",
            stream_bytes=_stream_bytes(job.static_memory, peaks),
        ),
        question,
        question.workload.precision.compute_dtype,
    )


def _answer_pipeline(
    question: TrainQuestion, local: TrainQuestion, context_ranks: int, cache: PassCache
) -> Estimate:
    """Estimate the memory of the worst stage of a pipeline."""
    alone = replace(local, layout=flatten_pipeline(local.layout))
    job = _get_job(alone, context_ranks, cache)
    cache.get_checks(STEP_BY_OPERATION, question.model).check_sizes(local.workload, alone.layout)
    setup, workload = job.static_memory.setup, local.workload
    config = _build_pass(setup, resolve_batch_shape(setup.model, workload), workload)
    records: Memo[PartRecord] = cache.get_memo("torchtitan parts", MAX_RECORDINGS)
    key = (*_list_form(alone, context_ranks, cache), local.layout.tensor_parallel)
    walk = PipelineWalk(setup.model, workload, local.layout, config, records, key)
    stages = walk.list_stages(split_model(question.model, name_torchtitan_split(local.layout)))
    return assemble(
        explain_pipeline(question, stages, job.checkpoint),
        question,
        question.workload.precision.compute_dtype,
    )


def _split_to_rank(workload: TrainWorkload, layout: Layout) -> tuple[TrainWorkload, Layout]:
    """Return the workload and layout of one rank.

    It has its part of each sequence, with states over data and context ranks. For context ranks,
    sequences are split into twice as many parts as there are ranks, of which each takes an early
    and a late one; its tensor-parallel ranks share those between them.
    """
    num_parts = layout.context_parallel * layout.tensor_parallel
    if num_parts == 1:
        return workload, layout
    local = replace(workload, sequence_length=workload.sequence_length // num_parts)
    if layout.context_parallel == 1:
        return local, layout
    return local, replace(
        layout, context_parallel=1, data_parallel=layout.data_parallel * layout.context_parallel
    )


def _get_job(question: TrainQuestion, context_ranks: int, cache: PassCache) -> TrainJob:
    """Return the job of a rank, checked and made once.

    It serves every batch and sequence. Raises what the checks raise.
    """
    model, workload, layout = question.model, question.workload, question.layout
    jobs: Memo[TrainJob] = cache.get_memo("torchtitan jobs", MAX_RECORDINGS)
    key = (cache.get_model_key(model), get_fixed_fields(workload), layout, context_ranks)
    job = jobs.get(key)
    if job is not None:
        return job
    plain = replace(
        workload,
        framework=Framework.TRANSFORMERS,
        compile=False,
        float8=False,
        framework_version=None,
    )
    unsplit = replace(layout, tensor_parallel=1, sequence_parallel=False)
    cache.get_checks(STEP_BY_OPERATION, model).check(plain, unsplit)
    cache.get_checks(TORCHTITAN_MODELS, model).check(workload, layout)
    shard = _get_shard(question, context_ranks, cache)
    # Its versions are torchtitan's own: none of them is a release of transformers.
    unversioned = replace(workload, framework_version=None)
    setup = resolve_setup(shard, unversioned, layout)
    return jobs.store(key, TrainJob(build_static_memory(setup)))


def _get_shard(question: TrainQuestion, context_ranks: int, cache: PassCache) -> Architecture:
    """Return a rank's shard of torchtitan's form of a model, made once."""
    shards: Memo[Architecture] = cache.get_memo("torchtitan shards", MAX_RECORDINGS)
    tensor_ranks = question.layout.tensor_parallel
    key = (*_list_form(question, context_ranks, cache), tensor_ranks)
    build = partial(build_torchtitan_model, context_ranks=context_ranks, tensor_ranks=tensor_ranks)
    return shards.get_or_make(key, lambda: build(question.model, question.workload))


def _list_form(question: TrainQuestion, context_ranks: int, cache: PassCache) -> tuple[object, ...]:
    """Return the values that decide torchtitan's form of a model."""
    workload = question.workload
    return (
        cache.get_model_key(question.model),
        workload.compile,
        workload.activation_checkpointing,
        workload.selective_every,
        context_ranks,
    )


def _get_prices(
    question: TrainQuestion, context_ranks: int, job: TrainJob, cache: PassCache
) -> StepPrices:
    """Return the prices of the recording that answers a question."""
    setup, workload = job.static_memory.setup, question.workload
    shape = resolve_batch_shape(setup.model, workload)
    memo: Memo[StepPrices] = cache.get_memo("torchtitan prices", MAX_RECORDINGS)
    prices = memo.get((job, shape))
    if prices is not None:
        return prices
    config = _build_pass(setup, shape, workload)
    form = _list_form(question, context_ranks, cache)
    candidates = _get_candidates(setup.model, (*form, config), config, cache)
    return memo.store((job, shape), price_step(job.static_memory, candidates))


def _build_pass(setup: TrainSetup, shape: BatchShape, workload: TrainWorkload) -> TrainingPass:
    """Return a pass with the loss that torchtitan computes."""
    loss = LossPass(kind=workload.loss, compiled=is_loss_compiled(workload))
    return replace(build_setup_pass(setup, shape), loss=None if loss == _PLAIN else loss)


def _get_candidates(
    model: Architecture, key: object, config: TrainingPass, cache: PassCache
) -> PeakCandidates:
    """Return the recording of a pass, made once."""
    passes: Memo[PeakCandidates] = cache.get_memo("torchtitan passes", MAX_RECORDINGS)
    return passes.get_or_make(key, lambda: record_training(model, config))


def _stream_bytes(static_memory: StaticMemory, peaks: tuple[PhasePeakBytes, ...]) -> int:
    """Return the bytes in the memory pools of FSDP2's own streams.

    They come beside the highest point of the compute stream's pool. The caching allocator keeps a
    pool per stream: sharded gradients come out of the reduce-scatter stream, all-gather outputs out
    of the copy-in stream, where the root's is followed by a block's (torch 2.13
    ``_fully_shard/_fsdp_collectives.py``).
    """
    fsdp, layout = static_memory.setup.gathering, static_memory.setup.layout
    if fsdp is None or layout.shards == 1:
        return 0
    model = static_memory.model
    counts = model.parameter_counts()
    block = counts.largest_block * fsdp.gather_bytes
    head = model.head_unit_elements if fsdp.splits_root else 0
    gathered = max(counts.outside_blocks - head, head) * fsdp.gather_bytes + block
    peak = max(height.allocated_bytes for height in peaks)
    computing = max(
        height.allocated_bytes
        - height.gradients
        - (0 if height.name == "optimizer_step" else block)
        for height in peaks
    )
    return max(computing + static_memory.states.gradients + gathered - peak, 0)
