"""Shortages of submitted jobs, and ways out of them."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, fields
from functools import partial

from service.api.computing.budgets import Budget
from service.api.computing.means import make_means
from service.api.computing.searches import FewestGpus, find_fewest
from service.api.http.computing import run_search
from service.api.http.dependencies import Dependencies
from service.base.errors import ServiceError, UnavailableError
from service.contract.schemas.how_many import HowManyRequest
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.searches import read_how_many
from service.contract.to_question.submissions.questions import (
    MAX_GPUS,
    SubmissionQuestion,
    drop_replicas,
)
from service.contract.to_question.validation_errors import decode
from service.estimator.values.errors import EstimatorError
from service.estimator.values.units import ceil_div, format_bytes
from service.planner.fit.fit import FitReport
from service.planner.fit.replay_need import is_replayable
from service.planner.fit.verdict import Verdict
from service.runtime.logs import get_logger
from service.usecases.hooks.decision import HookQuestion, Shortage
from service.usecases.questions.fit import FitQuestion
from service.usecases.questions.how_many import HowManyQuestion

_REPLICAS = frozenset({"data_parallel"})
"""Words that another number of GPUs changes by itself."""
_MOMENT_S = 0.1
"""Longest wait for a search that may run beside the server: a process that starts takes longer."""
_STILL_LOOKING = "ask again for how many GPUs it needs"
_NOT_YET = "how many GPUs it needs is not known yet"
_ASKING_AGAIN = frozenset({"kueue", "kube_scheduler", "volcano"})
"""Schedulers that ask about a waiting job by themselves: its user has nothing to ask."""
_LINKED = "for how many GPUs it needs see"
"""Goes on with the link, which ends the line."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedJob:
    """A job with its verdict.

    ``calibrations`` is the version of what was learnt, on which the verdict rests.
    """

    question: SubmissionQuestion
    named: HookQuestion | None
    model: ResolvedModel
    fit_question: FitQuestion
    report: FitReport
    calibrations: int

    @property
    def key(self) -> Hashable:
        """Everything that the way out of its shortage rests on."""
        gpus = self.question.gpus
        nodes = 1 if gpus is None else gpus.num_nodes
        # A question without a name is asked once.
        name = object() if self.named is None else self.named.digest
        return name, nodes, self.model.version, self.calibrations


def find_shortage(
    deps: Dependencies, job: JudgedJob, *, wait_s: float | None, unfound: str
) -> Shortage | None:
    """Return the shortage of a job, ``None`` where it can run.

    ``wait_s`` is for the number of GPUs that it needs, None where nobody reads it. ``unfound``
    stands in its place where it takes longer.
    """
    gpus, needed = job.question.gpus, job.fit_question.layout.num_gpus
    is_too_large = job.report.verdict is Verdict.DOES_NOT_FIT
    if is_too_large and (job.question.open_fields or wait_s is None):
        # What it would need on more GPUs rests on what it does not say.
        return Shortage(reason=_explain(job), lacks_memory=True)
    if is_too_large and wait_s is not None:
        return _find_way_out(deps, job, wait_s) or Shortage(
            reason=_explain(job),
            nothing_fits=unfound,
            lacks_memory=True,
            is_final=False,
        )
    if gpus is None or not gpus.total or gpus.total >= needed:
        return None
    return Shortage(
        reason=f"headroom: the launch runs on {needed} GPUs, and the job asks for {gpus.total}",
        per_node=ceil_div(needed, gpus.num_nodes),
    )


def explain_unfound(scheduler: str, *, is_linked: bool) -> str:
    """Return what a line says in place of a number.

    It is not found yet; ``is_linked`` says that a link to the question ends the line.
    """
    if is_linked:
        return _LINKED
    return _NOT_YET if scheduler in _ASKING_AGAIN else _STILL_LOOKING


def _find_way_out(deps: Dependencies, job: JudgedJob, wait_s: float) -> Shortage | None:
    """Return the way out of a shortage, None without one in time.

    That includes a search that fails: the verdict stands without it.
    """
    is_awaited = wait_s > _MOMENT_S
    look = partial(_look_for_more if is_awaited else _look_beside, deps, job)
    try:
        return deps.way_outs.find(job.key, look, wait_s=wait_s, is_awaited=is_awaited)
    except Exception as error:  # noqa: BLE001 - a fault there must not pass a job that does not fit
        _log.error("hook.search_failed", exc_info=error)
        return None


def _explain(job: JudgedJob) -> str:
    fields = job.question.open_fields
    whatever = f" whatever {' and '.join(fields)} is" if fields else ""
    return f"headroom: does not fit{whatever}: {describe_need(job)}"


def _look_beside(deps: Dependencies, job: JudgedJob, give_way: Callable[[], None]) -> Shortage:
    """Return the fewest GPUs, by a process that leaves this interpreter alone."""
    check = give_way if deps.searches.is_here else deps.way_outs.check_running
    return _look(job, partial(run_search, deps, find_fewest), deps, check)


def _look_for_more(deps: Dependencies, job: JudgedJob, give_way: Callable[[], None]) -> Shortage:
    """Return the fewest GPUs for somebody who waits."""

    def search(question: HowManyQuestion, budget: Budget) -> FewestGpus:
        return find_fewest(question, make_means(budget, deps.plans, deps.corrections))

    return _look(job, search, deps, give_way)


def _look(
    job: JudgedJob,
    run: Callable[[HowManyQuestion, Budget], FewestGpus],
    deps: Dependencies,
    check: Callable[[], None],
) -> Shortage:
    """Return the fewest GPUs that hold what these do not."""
    reason, question = _explain(job), job.question
    budget = Budget(seconds=deps.settings.question_budget_s, check_caller=check)
    try:
        search = decode(drop_replicas(question.request, job.fit_question.workload), HowManyRequest)
        fewest = run(read_how_many(search, job.model), budget)
    except UnavailableError:
        # What is found is kept, and this is not: another try may find it.
        raise
    except (ServiceError, EstimatorError):
        return Shortage(reason=reason, lacks_memory=True)
    if fewest.num_gpus is None:
        return Shortage(
            reason=reason,
            nothing_fits=f"up to {MAX_GPUS} of them do not hold it as it is",
            lacks_memory=True,
        )
    nodes = 1 if question.gpus is None else question.gpus.num_nodes
    return Shortage(
        reason=reason,
        per_node=ceil_div(fewest.num_gpus, nodes),
        settings=tuple(_iter_settings(job.fit_question, fewest)),
        lacks_memory=True,
    )


def _iter_settings(question: FitQuestion, fewest: FewestGpus) -> Iterator[str]:
    """Yield settings on the fewest GPUs that differ, but for replicas."""
    pairs = (question.layout, fewest.layout), (question.workload, fewest.workload)
    for present, theirs in pairs:
        for field in () if theirs is None else fields(theirs):
            value = getattr(theirs, field.name)
            if field.name not in _REPLICAS and value != getattr(present, field.name, None):
                yield f"{field.name} {value}"


def describe_need(job: JudgedJob) -> str:
    """Return what a job needs of a GPU, and what it has."""
    report = job.report
    needed = format_bytes(count_needed_bytes(report))
    usable = format_bytes(report.device.usable_bytes)
    return f"{_qualify(job)}{needed} of {usable} on each {job.question.gpu}"


def _qualify(job: JudgedJob) -> str:
    """Return how the bytes of a line are meant."""
    if is_replayable(job.fit_question.workload) and not job.report.estimate.replayed:
        return "at least about " if job.question.open_fields else "about "
    if job.question.open_fields:
        return "at least "
    return "at most " if job.report.verdict is Verdict.FITS else ""


def count_needed_bytes(report: FitReport) -> int:
    """Return the bytes that a line names.

    Where it fits, they are the most.
    """
    estimate = report.estimate
    return (
        estimate.device_interval.high if report.verdict is Verdict.FITS else estimate.device_bytes
    )
