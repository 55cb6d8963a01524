"""How many GPUs: the fewest on which something that the request allows is enough, and why fewer are not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.estimator.errors import InvalidInputError
from service.estimator.workload import ServeWorkload
from service.planner.remedies import Remedy, find_remedies
from service.planner.search import Candidate, Rejected, Search, counters
from service.planner.space import Question, configs, sizes
from service.planner.subject import Subject
from service.planner.verdict import Verdict

MAX_CANDIDATES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Configurations that were estimated, and how many needed no estimate, by reason."""

    layouts: int
    pruned: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The fewest GPUs and the fastest configurations on them; without a number the reason, the closest miss and what helps."""

    num_gpus: int | None
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    searched: Searched
    reason: str | None = None
    closest: Rejected | None = None
    smallest_change: Remedy | None = None


def how_many(subject: Subject, question: Question) -> Plan:
    """Return the fewest GPUs; raises EstimatorError when no configuration can run or has a term."""
    search = Search(subject, question)
    allowed = sizes(question)
    counts = [count for count in allowed if next(configs(question, count), None) is not None]
    if not counts:
        raise _nothing_to_try(question)
    found = next((count for count in counts if search.suffices(count)), None)
    smaller = [count for count in counts if found is None or count < found]
    rejected = tuple(miss for count in smaller if (miss := search.rejection(count)) is not None)
    if found is None and not rejected and search.refusal is not None:
        raise search.refusal
    candidates = () if found is None else _shown(search, found)
    searched = Searched(layouts=search.num_estimated, pruned=counters(search, indivisible=len(allowed) - len(counts)))
    if found is not None:
        return Plan(num_gpus=found, candidates=candidates, rejected=rejected, searched=searched)
    closest = min(rejected, key=lambda miss: miss.missing_bytes)
    return Plan(
        num_gpus=None,
        candidates=(),
        rejected=rejected,
        searched=searched,
        reason=_why_none(question, counts, closest),
        closest=closest,
        smallest_change=_smallest_change(subject, closest.nearest, most=question.limits.max_gpus),
    )


def _shown(search: Search, num_gpus: int) -> tuple[Candidate, ...]:
    """Return the best configurations as they are shown: those that still suffice once everything is known, if any do."""
    answered = tuple(map(search.answered, search.ranked(num_gpus)[:MAX_CANDIDATES]))
    return tuple(candidate for candidate in answered if not candidate.missing_bytes) or answered


def _smallest_change(subject: Subject, nearest: Candidate, *, most: int) -> Remedy | None:
    """Return the first remedy that makes the closest miss fit on no more GPUs than are allowed."""
    remedies = find_remedies(subject, nearest.workload, nearest.layout, nearest.estimate)
    return next((remedy for remedy in remedies if remedy.verdict is Verdict.FITS and remedy.num_gpus <= most), None)


def _why_none(question: Question, counts: Sequence[int], closest: Rejected) -> str:
    if isinstance(question.workload, ServeWorkload):
        gpus = f"{closest.num_gpus} GPU" + ("s" if closest.num_gpus > 1 else "")
        return f"one replica does not fit on {gpus}: {closest.reason}; more replicas do not shrink it"
    if not question.is_open("data_parallel"):
        verb = "GPU is" if counts[0] == 1 else "GPUs are"
        return f"{counts[0]} {verb} too few, and the request fixes their number: {closest.reason}"
    most = question.limits.max_gpus
    return f"max_gpus is {most}, and no number up to it is enough; the closest is {closest.num_gpus}: {closest.reason}"


def _nothing_to_try(question: Question) -> InvalidInputError:
    limits, layout = question.limits, question.layout
    if limits.global_batch_size is not None:
        message = f"no micro batch on up to {limits.max_gpus} GPUs makes a global batch of {limits.global_batch_size}"
        return InvalidInputError(message, field="constraints.global_batch_size")
    message = f"the layout takes at least {layout.num_gpus} GPUs, but max_gpus is {limits.max_gpus}"
    return InvalidInputError(message, field="constraints.max_gpus")
