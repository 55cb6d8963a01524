"""Memory estimate of a workload on each GPU."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module

from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.registry import select_backend
from service.estimator.cache import MAX_CONFIGURATIONS, PlanCache
from service.estimator.memory.answer.corrections import CALIBRATED
from service.estimator.memory.image_inputs import get_sequence_tokens, list_input_tokens
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.memory.question import Question, TrainQuestion, resolve_question
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.model.recorded.items import get_reads, list_item_notes, list_item_warnings
from service.estimator.reinforcement.critic import estimate_critic
from service.estimator.reinforcement.engine import estimate_engine
from service.estimator.reinforcement.phases import add_phases
from service.estimator.rules.warnings import list_effect_warnings
from service.estimator.values.backend import Backend
from service.estimator.values.corrections import (
    SHIPPED_SPEEDS,
    TIMES,
    Corrections,
    ImplausibleCorrectionError,
)
from service.estimator.values.device import Device
from service.estimator.values.engine_versions import parse_version
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Trainer
from service.estimator.values.memo import get_or_make_of
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload

Answer = Callable[[Question, PassCache], Estimate]


def estimate(  # noqa: PLR0913 - the front door: what is asked, where, with what is known, and how much of the answer
    model: Architecture,
    workload: Workload,
    *,
    layout: Layout,
    device: Device,
    corrections: Corrections | None = None,
    plans: PlanCache | None = None,
    detail: Detail = Detail.FULL,
    level: float = LEVEL,
) -> Estimate:
    """Return the memory of the worst rank in the steady state.

    Its intervals are of a level that the residuals carry. The numbers are the same with and without
    their explanation; a replay of the allocator changes what is reserved. Raises InvalidInputError
    for what cannot run and NotModelledError for what has no term yet.
    """
    base, backend, model = model, select_backend(workload), as_loaded(model, workload)
    is_of_time_alone = corrections is not None and corrections.is_of_time_alone
    plans = plans if plans is not None else PlanCache()
    effects: tuple[str, ...] = ()
    if detail.is_explained:
        effects = get_or_make_of(
            plans.get_memo("effects", MAX_CONFIGURATIONS),
            (model, workload, layout),
            lambda: list_effect_warnings(model, workload, layout, backend),
        )
    question = resolve_question(
        model,
        workload,
        layout,
        device,
        backend,
        # What is known of a machine alone leaves the bytes, and how they are found, as they are.
        corrections=None if is_of_time_alone else corrections,
        detail=detail,
        level=level,
        effects=effects,
        release=_find_release(workload, backend) if detail.is_explained else None,
    )
    answer_question = _load_answer(backend.answers[question.task])
    try:
        answer = answer_question(question, plans)
    except ImplausibleCorrectionError as error:
        # A wrong measurement must not take the analytic answer away.
        analytic = replace(question, corrections=None, effects=(*effects, str(error)))
        answer = _keep_machine(answer_question(analytic, plans), question.corrections)
    if isinstance(question, TrainQuestion) and question.workload.trainer is Trainer.GRPO:
        answer = _add_phases(answer, question, base, plans)
    if detail.is_explained and get_reads(model) is not None:
        _, length = get_sequence_tokens(question.workload)
        answer = _note_items(answer, model, length)
    if workload.inputs is not None and detail.is_explained:
        answer = replace(answer, inputs=list_input_tokens(model, workload))
    if corrections is not None and is_of_time_alone:
        answer = _set_machine(answer, corrections)
    return answer


def _find_release(workload: Workload, backend: Backend) -> str | None:
    """Return the release of an engine that answers.

    The newest that was read stands for a later one, and for none.
    """
    newest = backend.newest_release
    if newest is None or not isinstance(workload, ServeWorkload):
        return None
    requested = workload.engine_version
    return str(newest if requested is None else min(parse_version(requested), newest))


def _note_items(answer: Estimate, model: Architecture, length: int) -> Estimate:
    """Return an answer that says what a sequence without text is."""
    return replace(
        answer,
        assumptions=(*answer.assumptions, *list_item_notes(model, length)),
        warnings=(*answer.warnings, *list_item_warnings(model)),
    )


def _add_phases(
    answer: Estimate, question: TrainQuestion, base: Architecture, plans: PlanCache
) -> Estimate:
    """Return a policy's update with the other phases of its training."""

    def answer_replica(workload: ServeWorkload, layout: Layout) -> Estimate:
        return estimate(
            base,
            workload,
            layout=layout,
            device=question.device,
            plans=plans,
            level=question.level,
        )

    def answer_training(model: Architecture, workload: TrainWorkload) -> Estimate:
        return estimate(
            model,
            workload,
            layout=question.layout,
            device=question.device,
            plans=plans,
            level=question.level,
        )

    engine = estimate_engine(
        question.workload,
        question.layout,
        answer_replica,
        gpu=question.device.name,
        kind=answer.interval_kind,
    )
    critic = estimate_critic(base, question.workload, question.layout, answer_training)
    return add_phases(answer, question, engine, critic, plans)


def _set_machine(answer: Estimate, corrections: Corrections) -> Estimate:
    """Return an answer at the speeds of its machine alone."""
    return replace(
        answer,
        speeds=corrections.speeds,
        bases=corrections.bases,
        cluster_quantities=corrections.cluster_quantities,
    )


def _keep_machine(answer: Estimate, corrections: Corrections | None) -> Estimate:
    """Return an answer of analytic bytes at the speeds of its machine.

    Other questions told of these: bytes that are not believed say nothing against them.
    """
    if corrections is None:
        return answer
    speeds = corrections.speeds
    if speeds == SHIPPED_SPEEDS:
        speeds = corrections.machine_speeds
    if speeds == SHIPPED_SPEEDS:
        return replace(answer, speeds=speeds, bases={})
    quantities = tuple(name for name in corrections.cluster_quantities if name in TIMES)
    bases = dict.fromkeys(TIMES, CALIBRATED)
    return replace(answer, speeds=speeds, bases=bases, cluster_quantities=quantities)


@cache
def _load_answer(module: str) -> Answer:
    """Return the answer function of a backend.

    The backend's module is loaded for its first question.
    """
    answer: Answer = import_module(module).answer
    return answer
