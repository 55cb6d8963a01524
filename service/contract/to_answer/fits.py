"""Fit reports of the planner as answers of the contract."""

from service.base.errors import InvalidRequestError
from service.contract.schemas.fit import (
    CheckpointAnswer,
    FitAnswer,
    InstantAnswer,
    IntervalsAnswer,
    PerGpuAnswer,
    Replayed,
    StageAnswer,
    ThroughputAnswer,
    WorstRankAnswer,
)
from service.contract.schemas.methods import InputTokensAnswer
from service.contract.schemas.remedies import RemedyAnswer, RemedySearchAnswer
from service.contract.schemas.serving import ServingAnswer
from service.contract.to_answer.fit_parts.builder import PART_BUILDER, PartBuilder
from service.contract.to_answer.fit_parts.finite import require_finite, require_finite_or_none
from service.contract.to_answer.learnt.bases import build_bases, build_cluster_basis
from service.estimator.values.result import (
    CheckpointBytes,
    Estimate,
    InputTokens,
    Interval,
    Serving,
    Throughput,
)
from service.planner.fit.fit import FitReport
from service.planner.fit.parts import ALL_PARTS, FitPart
from service.planner.fit.remedy import Remedy, RemedySearch

MAX_EXACT_BYTES = 2**53
"""Beyond this a client that reads JSON numbers as doubles would see other bytes than we sent (RFC
8259, section 6).
"""


def build_fit_answer(
    report: FitReport,
    *,
    assumptions: tuple[str, ...] = (),
    parts: frozenset[FitPart] = ALL_PARTS,
    cluster: str = "",
    builder: PartBuilder = PART_BUILDER,
) -> FitAnswer:
    """Return a report as the contract's answer.

    Fields that ``parts`` leaves out are empty. ``cluster`` is the one that the question names.
    """
    estimate = report.estimate
    require_exact(estimate)
    return FitAnswer(
        verdict=report.verdict.value,
        basis=estimate.basis,
        bases=build_bases(estimate),
        cluster=build_cluster_basis(estimate, cluster),
        replayed=_name_replay(estimate),
        num_gpus=estimate.num_gpus,
        per_gpu=_build_per_gpu(estimate, parts, builder),
        capacity_bytes=report.device.capacity_bytes,
        usable_bytes=report.device.usable_bytes,
        headroom_bytes=report.headroom_bytes,
        deficit_bytes=report.deficit_bytes,
        host_bytes_per_node=estimate.host_bytes_per_node,
        nvme_bytes_per_node=estimate.nvme_bytes_per_node,
        checkpoint_bytes=_build_checkpoint(estimate.checkpoint)
        if FitPart.COMPONENTS in parts
        else None,
        serving=_build_serving(estimate.serving),
        rollout=_build_serving(estimate.rollout),
        throughput=_build_throughput(report.throughput, report.bound_reason),
        rules_of_thumb=builder.build_rules(report.rules_of_thumb),
        remedies=[build_remedy_answer(remedy) for remedy in report.remedies],
        remedy_search=_build_remedy_search(report.remedy_search),
        inputs=[_build_input_tokens(item) for item in estimate.inputs],
        assumptions=[*assumptions, *estimate.assumptions],
        warnings=list(report.warnings),
        calibration=estimate.calibration,
        calibration_level=estimate.calibration_level,
        calibration_measurements=estimate.num_measurements,
    )


def _build_input_tokens(item: InputTokens) -> InputTokensAnswer:
    return InputTokensAnswer(
        kind=item.kind,
        count=item.count,
        tokens=item.tokens,
        features=item.features,
        pieces=item.pieces,
        positions=item.positions,
    )


def _name_replay(estimate: Estimate) -> Replayed | None:
    if not estimate.replayed:
        return None
    return "generations" if estimate.interval_kind == "inference" else "steps"


def build_remedy_answer(remedy: Remedy) -> RemedyAnswer:
    """Return a remedy as the contract's answer."""
    cost = remedy.cost
    return RemedyAnswer(
        change=dict(remedy.change),
        saves_bytes=remedy.saves_bytes,
        verdict=remedy.verdict.value,
        effects=list(remedy.effects),
        step_time_s=require_finite_or_none(cost.step_time_s),
        tokens_per_second=require_finite_or_none(cost.tokens_per_second),
        time_ratio=require_finite_or_none(cost.time_ratio),
        slowdown=require_finite_or_none(cost.gpu_time_ratio),
        cost_ratio=require_finite_or_none(cost.cost_ratio),
        usd_per_million_tokens=require_finite_or_none(cost.usd_per_million_tokens),
        gpu=remedy.gpu,
        num_gpus=remedy.num_gpus,
    )


def _build_remedy_search(search: RemedySearch | None) -> RemedySearchAnswer | None:
    if search is None:
        return None
    return RemedySearchAnswer(
        num_estimates=search.num_estimates,
        max_estimates=search.max_estimates,
        num_changes=search.num_changes,
        is_complete=search.is_complete,
        conclusion=search.conclusion,
    )


def require_exact(estimate: Estimate) -> None:
    """Refuse bytes that no JSON client could read exactly.

    No GPU has so many either.
    """
    largest = max(estimate.device_interval.high, *[part.bytes for part in estimate.components], 0)
    if largest >= MAX_EXACT_BYTES:
        message = (
            f"this needs {largest:.3g} bytes per GPU, more than 2^53, which is as far as exact "
            "answers go; ask for less"
        )
        raise InvalidRequestError(message)


def _build_per_gpu(
    estimate: Estimate, parts: frozenset[FitPart], builder: PartBuilder
) -> PerGpuAnswer:
    shows_instants = FitPart.INSTANTS in parts
    return PerGpuAnswer(
        allocated_bytes=estimate.allocated_bytes,
        reserved_bytes=estimate.reserved_bytes,
        device_bytes=estimate.device_bytes,
        steady_bytes=estimate.steady_bytes,
        intervals=_build_intervals(estimate),
        peak_instant=estimate.peak_instant,
        worst_rank=WorstRankAnswer(pipeline_stage=estimate.worst_pipeline_stage),
        components=builder.build_components(
            estimate.components if FitPart.COMPONENTS in parts else ()
        ),
        instants=builder.build_instants(estimate.instants if shows_instants else ()),
        phases=[
            InstantAnswer(name=phase.name, allocated_bytes=phase.allocated_bytes)
            for phase in (estimate.phases if shows_instants else ())
        ],
        stages=[
            StageAnswer(
                pipeline_stage=stage.pipeline_stage,
                allocated_bytes=stage.allocated_bytes,
                steady_bytes=stage.steady_bytes,
                layers=list(stage.layers),
                micro_batches_in_flight=list(stage.micro_batches_in_flight),
            )
            for stage in estimate.stages
        ],
    )


def _build_intervals(estimate: Estimate) -> IntervalsAnswer:
    """Return the intervals of an estimate as the contract's answer."""
    return IntervalsAnswer(
        level=estimate.interval_level,
        allocated=_to_pair(estimate.allocated_interval),
        reserved=_to_pair(estimate.reserved_interval),
        device=_to_pair(estimate.device_interval),
    )


def _to_pair(interval: Interval) -> tuple[int, int]:
    return interval.low, interval.high


def _build_checkpoint(checkpoint: CheckpointBytes | None) -> CheckpointAnswer | None:
    if checkpoint is None:
        return None
    return CheckpointAnswer(
        weights=checkpoint.weights,
        optimizer=checkpoint.optimizer,
        total=checkpoint.total,
        save_total_limit=checkpoint.save_total_limit,
        disk=checkpoint.disk,
    )


def _build_serving(serving: Serving | None) -> ServingAnswer | None:
    if serving is None:
        return None
    return ServingAnswer(
        kv_bytes_per_token=serving.kv_bytes_per_token,
        kv_cache_bytes=serving.kv_cache_bytes,
        required_bytes=serving.required_bytes,
        budget_bytes=serving.budget_bytes,
        kv_pool_bytes=serving.kv_pool_bytes,
        kv_pool_tokens=serving.kv_pool_tokens,
        max_num_sequences=serving.max_num_sequences,
        max_concurrency=serving.max_concurrency,
        engine_version=serving.engine_version,
    )


def _build_throughput(throughput: Throughput | None, bound_reason: str) -> ThroughputAnswer | None:
    if throughput is None:
        return None
    return ThroughputAnswer(
        step_time_s=require_finite(throughput.step_time_s),
        tokens_per_second=require_finite(throughput.tokens_per_second),
        tokens_per_second_per_gpu=require_finite(throughput.tokens_per_second_per_gpu),
        mfu=require_finite(throughput.mfu),
        hours_for_tokens=require_finite_or_none(throughput.hours_for_tokens),
        prefill_time_s=require_finite_or_none(throughput.prefill_time_s),
        host_time_s=require_finite(throughput.host_time_s),
        gpu_time_s=require_finite(throughput.gpu_time_s),
        bound=throughput.bound,
        bound_reason=bound_reason,
        basis=throughput.basis,
    )
