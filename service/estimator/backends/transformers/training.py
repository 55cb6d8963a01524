"""Estimates of training on the transformers library.

They have corrected phase peaks, components of the peak, checkpoint and warnings.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter

from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.transformers.checkpoint_bytes import count_checkpoint_bytes
from service.estimator.backends.transformers.compiled import bound_step
from service.estimator.backends.transformers.evaluation import (
    list_evaluation_peaks,
    list_evaluation_warnings,
    select_notes,
)
from service.estimator.backends.transformers.recorded_family import (
    get_near_family,
    get_recorded_family,
)
from service.estimator.backends.transformers.training_kinds import (
    get_answer_kind,
    get_context_kind,
)
from service.estimator.memory.allocator.kernel_buffers import (
    KernelBuffers,
    find_kernel_buffers,
    select_kernels,
)
from service.estimator.memory.allocator.replay import ReplayResult
from service.estimator.memory.allocator.replay_cache import find_peak_bytes, make_minimal_replay
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.answer.explain import TrainFormulas
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.evaluated_batch import resolve_evaluation
from service.estimator.memory.head_copies import list_head_warnings
from service.estimator.memory.offloading import count_host_activation_bytes, count_ranks_per_node
from service.estimator.memory.optimizers.tensors import TABLE
from service.estimator.memory.phase_peaks import PhasePeak, correct_phase_peaks
from service.estimator.memory.question import TrainQuestion
from service.estimator.memory.setup import TrainSetup, resolve_setup
from service.estimator.memory.static import StaticMemory, build_static_memory
from service.estimator.memory.step_prices import StepPrices, price_step
from service.estimator.memory.timeline import Peak, Timeline, build_timeline, find_peak
from service.estimator.memory.training_pass import (
    BatchNotes,
    BatchShape,
    build_setup_pass,
    describe_batch,
    get_fixed_fields,
    resolve_batch_shape,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.tensor_parallel.split_plan import TRANSFORMERS
from service.estimator.rules.tables.training.transformers import TRAIN_TRANSFORMERS
from service.estimator.tape import sizes
from service.estimator.values.memo import Memo
from service.estimator.values.result import Detail, Estimate, Instant
from service.estimator.values.units import format_bytes


def answer(question: TrainQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of the library's own code, compiled or not."""
    return bound_step(question, lambda step: _answer_step(step, cache))


def _answer_step(question: TrainQuestion, cache: PassCache) -> Estimate:
    detail = question.detail
    if question.corrections is not None:
        partial_estimate = _estimate_step(question, cache)
    else:
        # Of a GPU its kernels alone change what a step holds, of the intervals' level nothing.
        name = "outlined steps" if detail is Detail.NUMBERS else "explained steps"
        memo: Memo[PartialEstimate] = cache.get_memo(name)
        kernels = find_kernel_buffers(question.device)
        model = cache.get_model_key(question.model)
        key = (model, question.workload, question.layout, detail, kernels)
        partial_estimate = memo.get_or_make(key, lambda: _estimate_step(question, cache))
    return assemble(
        partial_estimate,
        question,
        question.workload.precision.compute_dtype,
    )


def _split_sequences(question: TrainQuestion) -> TrainQuestion:
    """Return the question of a rank with a part of every sequence."""
    workload, num_ranks = question.workload, question.layout.context_parallel
    if num_ranks == 1:
        return question
    length = workload.sequence_length // num_ranks
    return replace(question, workload=replace(workload, sequence_length=length))


def _estimate_step(question: TrainQuestion, cache: PassCache) -> PartialEstimate:
    """Return what a step holds, in the detail of the question."""
    job = _get_job(question, cache)
    question = _split_sequences(question)
    model, workload = job.static_memory.model, question.workload
    shape, num_tokens = resolve_batch_shape(model, workload), question.num_tokens
    kernels = find_kernel_buffers(question.device)
    prices = _get_prices(job, shape, cache, kernels)
    values = sizes.evaluate_monomials(*workload.rows)
    host_bytes = count_host_activation_bytes(job.static_memory.setup, num_tokens)
    evaluation = resolve_evaluation(job.static_memory.setup, workload)
    evaluated = list_evaluation_peaks(evaluation, job.static_memory, kernels, cache)
    if question.detail is Detail.NUMBERS:
        corrections = question.corrections
        peak = find_peak(prices, values, host_bytes, num_tokens, corrections, evaluated)
        return outline_training(job, peak)
    timeline = build_timeline(prices, values, host_bytes)
    timeline = replace(timeline, peaks=(*timeline.peaks, *evaluated), evaluation=evaluation)
    peaks = correct_phase_peaks(timeline.peaks, question.corrections, num_tokens)
    return explain_training(
        job,
        timeline,
        select_notes(describe_batch(model, workload), evaluation, peaks),
        peaks,
        _replay(question, model, timeline, cache),
    )


class TrainJob:
    """Static memory of a job, with what every answer about it says."""

    __slots__ = (
        "checkpoint",
        "context_kind",
        "family",
        "formulas",
        "kind",
        "near_family",
        "num_gpus",
        "ranks_per_node",
        "static_memory",
    )

    def __init__(
        self, static_memory: StaticMemory, checkpoint_setup: TrainSetup | None = None
    ) -> None:
        """Describe the job of a rank.

        ``checkpoint_setup`` is that of the model that its ranks save together, where they split it.
        """
        setup = static_memory.setup
        self.static_memory = static_memory
        self.formulas = TrainFormulas(static_memory)
        self.checkpoint = count_checkpoint_bytes(checkpoint_setup or setup)
        self.kind = get_answer_kind(static_memory)
        self.context_kind = get_context_kind(static_memory)
        self.family = get_recorded_family(static_memory)
        self.near_family = get_near_family(static_memory)
        self.num_gpus = setup.layout.num_gpus
        self.ranks_per_node = count_ranks_per_node(setup.layout)


def _get_job(question: TrainQuestion, cache: PassCache) -> TrainJob:
    """Return the job of a question, checked and made once.

    It serves every batch and sequence. Raises what the checks raise.
    """
    model, workload, layout = question.model, question.workload, question.layout
    jobs: Memo[TrainJob] = cache.get_memo("training jobs")
    key = (cache.get_model_key(model), get_fixed_fields(workload), layout)
    job = jobs.get(key)
    checks = cache.get_checks(TRAIN_TRANSFORMERS, model)
    if job is not None:
        checks.check_sizes(workload, layout)
        return job
    checks.check(workload, layout)
    shard = cache.get_shard(model, layout.tensor_parallel, TRANSFORMERS)
    setup = resolve_setup(shard, workload, layout)
    checkpoint_setup = setup if shard is model else resolve_setup(model, workload, layout)
    return jobs.store(key, TrainJob(build_static_memory(setup), checkpoint_setup))


def _get_prices(
    job: TrainJob, shape: BatchShape, cache: PassCache, kernels: KernelBuffers | None
) -> StepPrices:
    """Return the prices of a shape's recording on a GPU."""
    memo: Memo[StepPrices] = cache.get_memo("training prices")
    prices = memo.get((job, shape, kernels))
    if prices is not None:
        return prices
    setup = job.static_memory.setup
    config = select_kernels(build_setup_pass(setup, shape), kernels)
    candidates = cache.get_training(setup.model, config)
    return memo.store((job, shape, kernels), price_step(job.static_memory, candidates))


def _replay(
    question: TrainQuestion, model: Architecture, timeline: Timeline, cache: PassCache
) -> ReplayResult | None:
    """Return the replay of a step in the requested detail."""
    if question.detail.is_replayed:
        return cache.replays.replay_training(
            model, question.workload, question.layout, timeline, question.device
        )
    if question.detail is Detail.LEAST:
        return make_minimal_replay(question.workload.allocator, find_peak_bytes(timeline))
    return None


def outline_training(job: TrainJob, peak: Peak) -> PartialEstimate:
    """Return the numbers of one rank's peak, unexplained."""
    static_memory, layout = job.static_memory, job.static_memory.setup.layout
    return PartialEstimate(
        num_gpus=job.num_gpus,
        linked_gpus=job.num_gpus,
        instants=(),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=peak.steady_bytes,
        components=tuple,
        approximate=static_memory.model.spec.approximate,
        gathers=static_memory.gathers,
        kind=job.kind,
        context_kind=job.context_kind,
        family=job.family,
        near_family=job.near_family,
        allocator=static_memory.setup.workload.allocator,
        host_bytes_per_node=peak.host_bytes * job.ranks_per_node,
        host_memory_bytes=layout.host_memory_bytes,
        nvme_bytes_per_node=static_memory.nvme_bytes * job.ranks_per_node,
        nvme_bytes=layout.nvme_bytes,
    )


def explain_training(
    job: TrainJob,
    timeline: Timeline,
    notes: BatchNotes,
    peaks: Sequence[PhasePeak],
    replayed: ReplayResult | None = None,
) -> PartialEstimate:
    """Return the partial estimate of a timeline; ``peaks`` hold what was measured."""
    static_memory, layout = job.static_memory, job.static_memory.setup.layout
    peak = max(peaks, key=attrgetter("allocated_bytes"))
    return PartialEstimate(
        num_gpus=job.num_gpus,
        linked_gpus=job.num_gpus,
        instants=tuple(
            [Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in peaks]
        ),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=timeline.steady_bytes,
        components=cache(partial(job.formulas.build_components, notes, peak)),
        phases=tuple([Instant(name, bytes_) for name, bytes_ in timeline.phases]),
        checkpoint=job.checkpoint,
        approximate=static_memory.model.spec.approximate,
        gathers=static_memory.gathers,
        kind=job.kind,
        context_kind=job.context_kind,
        family=job.family,
        near_family=job.near_family,
        allocator=static_memory.setup.workload.allocator,
        replayed=replayed,
        host_bytes_per_node=timeline.host_bytes * job.ranks_per_node,
        host_memory_bytes=layout.host_memory_bytes,
        nvme_bytes_per_node=static_memory.nvme_bytes * job.ranks_per_node,
        nvme_bytes=layout.nvme_bytes,
        warnings=(*_list_warnings(static_memory), *notes.warnings),
    )


def _list_warnings(static_memory: StaticMemory) -> tuple[str, ...]:
    setup, managed_bytes = static_memory.setup, static_memory.states.managed_states
    workload, layout, warnings = setup.workload, setup.layout, []
    gathers = setup.gathering is not None
    if layout.zero_stage and layout.shards == 1 and not gathers:
        warnings.append(f"zero_stage {layout.zero_stage} has no effect on one data-parallel rank")
    if workload.gradient_clipping:
        warnings.append(
            "gradient_clipping adds nothing to the peak: its norms are a few bytes per tensor"
        )
    if managed_bytes:
        warnings.append(
            f"{format_bytes(managed_bytes)} of {workload.optimizer} states are in managed memory: "
            "the GPU holds them while it has room, and nvidia-smi counts them for the whole GPU, "
            "not for the process"
        )
    if setup.optimizer.fp32_tables and any(
        weight.kind == TABLE for weight, _ in setup.trained.weights
    ):
        warnings.append(
            "embeddings have 32-bit states, as HF's Trainer registers them: a loop of one's own, "
            "which says keeps_logits, has 8-bit ones"
        )
    warnings += list_evaluation_warnings(workload)
    return (*warnings, *list_head_warnings(setup.model, workload))
