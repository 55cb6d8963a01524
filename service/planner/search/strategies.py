"""The ways to train or to serve that a search tries: whose code runs and who shards, as the tables of legality list them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Sharding
from service.estimator.values.workload import Framework, Offload, OffloadTarget, Quantization, ServeWorkload, TrainWorkload
from service.planner.fit.remedy_steps import FORMATS
from service.planner.legality.rules import load_stack
from service.planner.search.search_space import OFFLOADING, QUANTIZING, Question

_NOTHING_MOVED = Offload()
_CPU, _NVME = OffloadTarget.CPU, OffloadTarget.NVME
_MOVED = (
    _NOTHING_MOVED,
    Offload(optimizer=_CPU),
    Offload(optimizer=_CPU, parameters=_CPU),
    Offload(optimizer=_NVME, parameters=_CPU),
    Offload(optimizer=_NVME, parameters=_NVME),
)
"""What may live off the GPU, from the fastest to the slowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to train, or to serve without a ``framework``; ``stages`` are how far its sharding goes."""

    name: str
    framework: Framework | None = None
    sharding: Sharding = Sharding.DDP
    stages: tuple[int, ...] = (0,)


def ways_to_train() -> Iterator[Way]:
    """Yield every way of every framework; where one shards in several, each goes by the name of who shards."""
    for framework in (Framework.TRANSFORMERS, Framework.TORCHTITAN, Framework.MEGATRON):
        listed = load_stack(f"train_{framework.value}").ways
        for way in listed:
            name = way.sharding.value if len(listed) > 1 else framework.value
            yield Way(name=name, framework=framework, sharding=way.sharding, stages=way.zero_stages)


def ways(question: Question) -> tuple[Way, ...]:
    """Return the ways that a question leaves; what it fixes itself, if none of ours does that.

    Raises InvalidInputError where what it fixes is none of the ways that it allows.
    """
    workload = question.workload
    if isinstance(workload, ServeWorkload):
        return (Way(name=workload.engine.value),)
    asked = tuple(way for way in ways_to_train() if _is_asked(way, question, workload))
    left = tuple(way for way in asked if _is_allowed(way, question))
    if asked and not left:
        raise _contradiction(question, workload)
    return left or (_as_asked(question, workload),)


def offloads(question: Question, *, has_nvme: bool) -> tuple[Offload, ...]:
    """Return what may live off the GPU: nothing else than asked unless it is allowed, and on NVMe where nodes have it."""
    workload = question.workload
    if isinstance(workload, ServeWorkload):
        return (_NOTHING_MOVED,)
    if OFFLOADING not in question.allow or not question.is_open("offload"):
        return (workload.offload,)
    return tuple(moved for moved in _MOVED if has_nvme or _NVME not in {moved.optimizer, moved.parameters})


def quantizations(model: Architecture, question: Question) -> tuple[Quantization | None, ...]:
    """Return the formats that weights may be served in: as asked, and in fewer bits where that is allowed."""
    workload = question.workload
    if not isinstance(workload, ServeWorkload):
        return (None,)
    open_ = question.is_open("quantization") and question.is_open("weight_dtype") and model.quantization is None
    return (workload.quantization, *(FORMATS[workload.engine] if QUANTIZING in question.allow and open_ else ()))


def needs_no_partner(way: Way, question: Question) -> bool:
    """Whether one rank would run this way: with nobody to share with, all that share are alike."""
    if way.framework is None or not question.is_open("sharding") or not question.is_open("zero_stage"):
        return True
    first = next(one for one in ways(question) if one.framework is way.framework)
    return way == first or OFFLOADING in question.allow


def expanded(names: Iterable[str]) -> frozenset[str]:
    """Return the names of ways that a request's words stand for: a framework's name is all of its ways."""
    asked = frozenset(names)
    return frozenset(way.name for way in ways_to_train() if asked & {way.name, way.framework and way.framework.value})


def _is_allowed(way: Way, question: Question) -> bool:
    return question.frameworks is None or way.name in expanded(question.frameworks)


def _is_asked(way: Way, question: Question, workload: TrainWorkload) -> bool:
    return all(held for _, held in _pins(way, question, workload))


def _pins(way: Way, question: Question, workload: TrainWorkload) -> Iterator[tuple[str, bool]]:
    """Yield each word of a way that the request fixes, and whether the way keeps to it."""
    layout = question.layout
    words = (
        (f"framework {workload.framework.value}", "framework", way.framework is workload.framework),
        (f"sharding {layout.sharding.value}", "sharding", way.sharding is layout.sharding),
        (f"zero_stage {layout.zero_stage}", "zero_stage", layout.zero_stage in way.stages),
    )
    yield from ((said, held) for said, name, held in words if not question.is_open(name))


def _contradiction(question: Question, workload: TrainWorkload) -> InvalidInputError:
    """Return which words of a request are of none of the ways that its ``frameworks`` allow."""
    allowed = [dict(_pins(way, question, workload)) for way in ways_to_train() if _is_allowed(way, question)]
    said = list(allowed[0]) if allowed else []
    never = [word for word in said if not any(held[word] for held in allowed)] or said
    names = ", ".join(sorted(question.frameworks or ()))
    message = f"frameworks allows {names} alone, and the request fixes {' with '.join(never)}: no way to train is both"
    return InvalidInputError(message, field="constraints.frameworks")


def _as_asked(question: Question, workload: TrainWorkload) -> Way:
    """Return the request's own way, whatever comes of it: what cannot run is refused in words."""
    layout = question.layout
    return Way(
        name=layout.sharding.value,
        framework=workload.framework,
        sharding=layout.sharding,
        stages=(layout.zero_stage,),
    )
