"""Obstacles of probes: every field that stands in the way.

A probe runs a single process that believes to be one rank of many: what is known of the others is
their number. The service refuses by these rules, and a probe asks again.
"""

from collections.abc import Iterable, Iterator

from service.estimator.model.architecture import Architecture
from service.estimator.rules.grammar.facts import Case, collect_facts
from service.estimator.rules.grammar.rule import Rule, fill_in
from service.estimator.rules.tables.probes.loops import SERVED_MODELS, SERVING, TRAINING
from service.estimator.rules.tables.probes.ranks import RANKS, SERVING_RANKS, TRAINING_RANKS
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import TrainWorkload, Workload

Obstacles = Iterator[tuple[str, str]]
"""Fields of a request, each with what would be right."""


def is_distributed(layout: Layout) -> bool:
    """Return whether a rank runs other code than a lone GPU.

    FSDP2 gathers on a single rank as well.
    """
    return layout.num_gpus > 1 or layout.sharding is Sharding.FSDP2


def find_rank_obstacles(layout: Layout, workload: Workload) -> Obstacles:
    """Yield fields that prevent running one rank of a layout."""
    if is_distributed(layout):
        own = TRAINING_RANKS if isinstance(workload, TrainWorkload) else SERVING_RANKS
        yield from _find_broken((*RANKS, *own), workload, layout)


def find_workload_obstacles(workload: Workload, layout: Layout) -> Obstacles:
    """Yield fields that no probe can run a workload with."""
    rules = TRAINING if isinstance(workload, TrainWorkload) else SERVING
    return _find_broken(rules, workload, layout)


def find_model_obstacles(model: Architecture, workload: Workload, layout: Layout) -> Obstacles:
    """Yield fields that keep a probe from serving a model."""
    rules = () if isinstance(workload, TrainWorkload) else SERVED_MODELS
    return _find_broken(rules, workload, layout, model)


def _find_broken(
    rules: Iterable[Rule], workload: Workload, layout: Layout, model: Architecture | None = None
) -> Obstacles:
    # Without a model none of the rules reads one.
    facts = None if model is None else collect_facts(model)
    case = Case(facts, workload, layout)  # type: ignore[arg-type]
    for rule in rules:
        if not rule.allows(case):
            assert rule.obstacle is not None  # noqa: S101 - a probe asks no others
            yield rule.field, fill_in(rule.obstacle, case)
