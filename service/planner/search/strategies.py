"""Strategies to train or serve that a search tries.

A strategy is whose code runs and who shards, as the table of rules lists them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.estimator.backends.registry import get_backend
from service.estimator.model.architecture import Architecture
from service.estimator.rules.runners import FRAMEWORKS
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Sharding
from service.estimator.values.workload import (
    Framework,
    Offload,
    OffloadTarget,
    Quantization,
    ServeWorkload,
    TrainWorkload,
)
from service.planner.search.search_space import OFFLOADING, QUANTIZING, Question

_NO_OFFLOAD = Offload()
_CPU, _NVME = OffloadTarget.CPU, OffloadTarget.NVME
_OFFLOADS = (
    _NO_OFFLOAD,
    Offload(optimizer=_CPU),
    Offload(optimizer=_CPU, parameters=_CPU),
    Offload(optimizer=_NVME, parameters=_CPU),
    Offload(optimizer=_NVME, parameters=_NVME),
)
"""Choices of what lives off the GPU, from the fastest to the slowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One strategy to train, or to serve without a ``framework``.

    ``stages`` are how far its sharding goes.
    """

    name: str
    framework: Framework | None = None
    sharding: Sharding = Sharding.DDP
    stages: tuple[int, ...] = (0,)


def iter_training_strategies() -> Iterator[Strategy]:
    """Yield every training strategy of every framework.

    Where a framework shards in several, each has the name of its sharding.
    """
    for framework in (Framework.TRANSFORMERS, Framework.TORCHTITAN, Framework.MEGATRON):
        options = FRAMEWORKS[framework].sharding_options
        for option in options:
            name = option.sharding.value if len(options) > 1 else framework.value
            yield Strategy(
                name=name, framework=framework, sharding=option.sharding, stages=option.zero_stages
            )


def list_strategies(question: Question) -> tuple[Strategy, ...]:
    """Return the strategies that a question leaves open.

    Where no known strategy has what the question fixes, it is the one of the question itself.

    Raises InvalidInputError where what it fixes is none of the strategies that it allows.
    """
    workload = question.workload
    if isinstance(workload, ServeWorkload):
        return (Strategy(name=workload.engine.value),)
    requested = tuple(
        strategy
        for strategy in iter_training_strategies()
        if _is_requested(strategy, question, workload)
    )
    allowed = tuple(strategy for strategy in requested if _is_allowed(strategy, question))
    if requested and not allowed:
        raise _make_contradiction(question, workload)
    return allowed or (_make_requested_strategy(question, workload),)


def list_offloads(question: Question, *, has_nvme: bool) -> tuple[Offload, ...]:
    """Return the offload choices of a question.

    Nothing else than requested unless it is allowed, and on NVMe where nodes have it.
    """
    workload = question.workload
    if isinstance(workload, ServeWorkload):
        return (_NO_OFFLOAD,)
    if OFFLOADING not in question.allow or not question.is_open("offload"):
        return (workload.offload,)
    return tuple(
        moved for moved in _OFFLOADS if has_nvme or _NVME not in {moved.optimizer, moved.parameters}
    )


def list_quantizations(model: Architecture, question: Question) -> tuple[Quantization | None, ...]:
    """Return the weight formats to try in serving.

    As requested, and in fewer bits where that is allowed.
    """
    workload = question.workload
    if not isinstance(workload, ServeWorkload):
        return (None,)
    is_open = (
        question.is_open("quantization")
        and question.is_open("weight_dtype")
        and model.quantization is None
        and model.unpacked is None
    )
    return (
        workload.quantization,
        *(
            get_backend(workload.engine).weight_formats
            if QUANTIZING in question.allow and is_open
            else ()
        ),
    )


def has_alike_strategies(question: Question) -> bool:
    """Return whether a single rank runs a framework's strategies alike.

    With nobody to share with, all that share are alike, but for where they can put their states.
    """
    return (
        isinstance(question.workload, TrainWorkload)
        and question.is_open("sharding")
        and question.is_open("zero_stage")
        and OFFLOADING not in question.allow
    )


def expand_names(names: Iterable[str]) -> frozenset[str]:
    """Return the strategy names that a request's names stand for.

    A framework's name is all of its strategies.
    """
    requested = frozenset(names)
    return frozenset(
        strategy.name
        for strategy in iter_training_strategies()
        if requested & {strategy.name, strategy.framework and strategy.framework.value}
    )


def _is_allowed(strategy: Strategy, question: Question) -> bool:
    return question.frameworks is None or strategy.name in expand_names(question.frameworks)


def _is_requested(strategy: Strategy, question: Question, workload: TrainWorkload) -> bool:
    return all(is_kept for _, is_kept in _iter_fixed_fields(strategy, question, workload))


def _iter_fixed_fields(
    strategy: Strategy, question: Question, workload: TrainWorkload
) -> Iterator[tuple[str, bool]]:
    """Yield each fixed field, and whether the strategy keeps to it."""
    layout = question.layout
    fields = (
        (
            f"framework {workload.framework.value}",
            "framework",
            strategy.framework is workload.framework,
        ),
        (f"sharding {layout.sharding.value}", "sharding", strategy.sharding is layout.sharding),
        (f"zero_stage {layout.zero_stage}", "zero_stage", layout.zero_stage in strategy.stages),
    )
    yield from ((label, is_kept) for label, name, is_kept in fields if not question.is_open(name))


def _make_contradiction(question: Question, workload: TrainWorkload) -> InvalidInputError:
    """Return an error for fixed fields that the ``frameworks`` exclude.

    They are of none of the strategies that those allow.
    """
    allowed = [
        dict(_iter_fixed_fields(strategy, question, workload))
        for strategy in iter_training_strategies()
        if _is_allowed(strategy, question)
    ]
    fixed_words = list(allowed[0]) if allowed else []
    unmatched = [
        word for word in fixed_words if not any(matches[word] for matches in allowed)
    ] or fixed_words
    names = ", ".join(sorted(question.frameworks or ()))
    message = (
        f"frameworks allows {names} alone, and the request fixes {' with '.join(unmatched)}: no "
        "way to train is both"
    )
    return InvalidInputError(message, field="constraints.frameworks")


def _make_requested_strategy(question: Question, workload: TrainWorkload) -> Strategy:
    """Return the request's own strategy, whatever comes of it.

    What cannot run is refused in words.
    """
    layout = question.layout
    return Strategy(
        name=layout.sharding.value,
        framework=workload.framework,
        sharding=layout.sharding,
        stages=(layout.zero_stage,),
    )
