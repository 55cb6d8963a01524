"""Plans of the planner as answers of the contract."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from service.contract.schemas.fields import JsonObject
from service.contract.schemas.how_many import (
    BeyondAnswer,
    CandidateAnswer,
    FamilyAnswer,
    HowManyAnswer,
    RejectedAnswer,
    SearchedAnswer,
)
from service.contract.to_answer.fits import build_remedy_answer, require_exact
from service.contract.to_answer.requests import render_gpu, render_layout, render_workload
from service.estimator.values.device import Device
from service.planner.fit.candidates import Candidate, Rejection
from service.planner.fit.remedy import Remedy
from service.planner.plans.no_layout_reasons import NoLayoutReason
from service.planner.plans.offered import Plan
from service.usecases.questions.how_many import HowManyQuestion


def build_how_many_answer(
    plans: Sequence[tuple[Device, Plan]], question: HowManyQuestion, *, elapsed_s: float
) -> HowManyAnswer | FamilyAnswer:
    """Return plans as the contract's answer.

    One for one SKU, several for a family.
    """
    answers = [_build_answer(device, plan, question, elapsed_s) for device, plan in plans]
    return answers[0] if len(answers) == 1 else FamilyAnswer(answers=answers)


def render_how_many_text(plans: Sequence[tuple[Device, Plan]]) -> str:
    """Return the bare number, or for a family one line per SKU."""
    numbers = [
        (device.name, "none" if plan.num_gpus is None else str(plan.num_gpus))
        for device, plan in plans
    ]
    return (
        numbers[0][1]
        if len(numbers) == 1
        else "\n".join(f"{name} {number}" for name, number in numbers)
    )


def _build_answer(
    device: Device, plan: Plan, question: HowManyQuestion, elapsed_s: float
) -> HowManyAnswer:
    return HowManyAnswer(
        num_gpus=plan.num_gpus,
        gpu=render_gpu(device),
        candidates=[_build_candidate(device, candidate, question) for candidate in plan.candidates],
        rejected=build_rejected_answers(device, plan),
        searched=SearchedAnswer(
            layouts=plan.searched.layouts,
            estimated=plan.searched.estimated,
            pruned=dict(plan.searched.pruned),
            elapsed_ms=round(elapsed_s * 1000, 3),
        ),
        reason=plan.reason,
        beyond=build_beyond_answer(plan),
        closest=None if plan.closest is None else build_rejected_answer(device, plan.closest),
        smallest_change=None
        if plan.smallest_change is None
        else build_remedy_answer(_name_single_gpu(plan.smallest_change)),
        assumptions=list(question.assumptions),
    )


def build_beyond_answer(plan: Plan) -> BeyondAnswer | None:
    """Return what more GPUs than the request allows would do."""
    beyond = plan.beyond
    return (
        None
        if beyond is None
        else BeyondAnswer(
            allowed_gpus=beyond.allowed_gpus, num_gpus=beyond.num_gpus, max_gpus=beyond.max_gpus
        )
    )


def _name_single_gpu(remedy: Remedy) -> Remedy:
    """Return a remedy that names one kind of GPU.

    This request names one, where plans list several.
    """
    gpus = remedy.change.get("gpus")
    return replace(remedy, change={"gpu": gpus[0]}) if isinstance(gpus, list) else remedy


def _build_candidate(
    device: Device, candidate: Candidate, question: HowManyQuestion
) -> CandidateAnswer:
    estimate = candidate.estimate
    require_exact(estimate)
    return CandidateAnswer(
        num_gpus=candidate.num_gpus,
        gpu=render_gpu(device),
        layout=render_layout(candidate.layout),
        workload=render_workload(candidate.workload),
        verdict=candidate.judgement.verdict.value,
        allocated_bytes=estimate.allocated_bytes,
        reserved_bytes=estimate.reserved_bytes,
        device_bytes=estimate.device_bytes,
        device_interval=(estimate.device_interval.low, estimate.device_interval.high),
        headroom_bytes=candidate.judgement.headroom_bytes,
        warnings=list(estimate.warnings),
        requests=_render_requests(device, candidate, question) if question.formats else None,
    )


def _render_requests(device: Device, candidate: Candidate, question: HowManyQuestion) -> JsonObject:
    # A cold count has no time for the renderings, which hardly any question asks for.
    module = import_module("service.contract.to_answer.renderings")
    requests: JsonObject = module.render_requests(question, candidate, device)
    return requests


def build_rejected_answers(device: Device, plan: Plan) -> list[RejectedAnswer]:
    """Return why each smaller number of GPUs is not enough.

    Numbers that no layout fills are among them.
    """
    answers = [build_rejected_answer(device, miss) for miss in plan.rejected]
    answers += [_build_unfilled_answer(device, no_layout) for no_layout in plan.no_layout_reasons]
    return sorted(answers, key=lambda answer: answer.num_gpus)


def _build_unfilled_answer(device: Device, no_layout: NoLayoutReason) -> RejectedAnswer:
    return RejectedAnswer(
        num_gpus=no_layout.num_gpus,
        gpu=render_gpu(device),
        reason=no_layout.reason,
        instant="layout",
        component="degrees",
        deficit_bytes=0,
        missing_bytes=0,
    )


def build_rejected_answer(device: Device, rejected: Rejection) -> RejectedAnswer:
    """Return why a number of GPUs is too small."""
    require_exact(rejected.nearest.estimate)
    return RejectedAnswer(
        num_gpus=rejected.num_gpus,
        gpu=render_gpu(device),
        reason=rejected.reason,
        instant=rejected.instant,
        component=rejected.component,
        deficit_bytes=rejected.deficit_bytes,
        missing_bytes=rejected.missing_bytes,
    )
