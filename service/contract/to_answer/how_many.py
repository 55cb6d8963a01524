"""From the planner's plans to the answers of the contract."""

from collections.abc import Sequence
from dataclasses import replace

from service.contract.schemas.how_many import CandidateAnswer, FamilyAnswer, HowManyAnswer, RejectedAnswer, SearchedAnswer
from service.contract.to_answer.fits import remedy_answer, require_exact
from service.contract.to_answer.requests import gpu_words, layout_words, workload_words
from service.estimator.values.device import Device
from service.planner.fit.candidates import Candidate, Rejected
from service.planner.fit.remedies import Remedy
from service.planner.plans.no_layout_reasons import Unfilled
from service.planner.plans.offered import Plan


def how_many_answer(
    found: Sequence[tuple[Device, Plan]], *, assumptions: tuple[str, ...], elapsed_s: float
) -> HowManyAnswer | FamilyAnswer:
    """Return plans in the words of the contract: one for one SKU, several for a family."""
    answers = [_answer(device, plan, assumptions, elapsed_s) for device, plan in found]
    return answers[0] if len(answers) == 1 else FamilyAnswer(answers=answers)


def how_many_text(found: Sequence[tuple[Device, Plan]]) -> str:
    """Return the bare number, or for a family one line per SKU."""
    numbers = [(device.name, "none" if plan.num_gpus is None else str(plan.num_gpus)) for device, plan in found]
    return numbers[0][1] if len(numbers) == 1 else "\n".join(f"{name} {number}" for name, number in numbers)


def _answer(device: Device, plan: Plan, assumptions: tuple[str, ...], elapsed_s: float) -> HowManyAnswer:
    return HowManyAnswer(
        num_gpus=plan.num_gpus,
        gpu=gpu_words(device),
        candidates=[_candidate(device, candidate) for candidate in plan.candidates],
        rejected=rejected_answers(device, plan),
        searched=SearchedAnswer(
            layouts=plan.searched.layouts,
            estimated=plan.searched.estimated,
            pruned=dict(plan.searched.pruned),
            elapsed_ms=round(elapsed_s * 1000, 3),
        ),
        reason=plan.reason,
        closest=None if plan.closest is None else rejected_answer(device, plan.closest),
        smallest_change=None if plan.smallest_change is None else remedy_answer(_in_words(plan.smallest_change)),
        assumptions=list(assumptions),
    )


def _in_words(remedy: Remedy) -> Remedy:
    """Return a remedy in the words of this request, which names one kind of GPU where plans list several."""
    gpus = remedy.change.get("gpus")
    return replace(remedy, change={"gpu": gpus[0]}) if isinstance(gpus, list) else remedy


def _candidate(device: Device, candidate: Candidate) -> CandidateAnswer:
    estimate = candidate.estimate
    require_exact(estimate)
    return CandidateAnswer(
        num_gpus=candidate.num_gpus,
        gpu=gpu_words(device),
        layout=layout_words(candidate.layout),
        workload=workload_words(candidate.workload),
        verdict=candidate.judgement.verdict.value,
        allocated_bytes=estimate.allocated_bytes,
        reserved_bytes=estimate.reserved_bytes,
        device_bytes=estimate.device_bytes,
        device_interval=(estimate.device_interval.low, estimate.device_interval.high),
        headroom_bytes=candidate.judgement.headroom_bytes,
        warnings=list(estimate.warnings),
    )


def rejected_answers(device: Device, plan: Plan) -> list[RejectedAnswer]:
    """Return why each smaller number of GPUs is not enough, those that no layout fills among them."""
    answers = [rejected_answer(device, miss) for miss in plan.rejected]
    answers += [_unfilled_answer(device, one) for one in plan.unfilled]
    return sorted(answers, key=lambda answer: answer.num_gpus)


def _unfilled_answer(device: Device, one: Unfilled) -> RejectedAnswer:
    return RejectedAnswer(
        num_gpus=one.num_gpus,
        gpu=gpu_words(device),
        reason=one.reason,
        instant="layout",
        component="degrees",
        deficit_bytes=0,
        missing_bytes=0,
    )


def rejected_answer(device: Device, rejected: Rejected) -> RejectedAnswer:
    """Return in the words of the contract why a number of GPUs is too small."""
    require_exact(rejected.nearest.estimate)
    return RejectedAnswer(
        num_gpus=rejected.num_gpus,
        gpu=gpu_words(device),
        reason=rejected.reason,
        instant=rejected.instant,
        component=rejected.component,
        deficit_bytes=rejected.deficit_bytes,
        missing_bytes=rejected.missing_bytes,
    )
