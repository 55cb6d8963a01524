"""Whether a framework or an engine can run a workload of a model in a layout, and what it could run instead."""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Workload
from service.planner.legality.conditions import allowed_by
from service.planner.legality.facts import Case, ModelFacts, facts_of
from service.planner.legality.rules import Rule, stack_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal:
    """The first rule that a configuration breaks; ``allowed`` lists values of ``field``, where the rule says any.

    ``modelled`` False: nobody could run it. True: it may run, but the estimator has no term for it.
    """

    reason: str
    field: str
    allowed: tuple[object, ...]
    source: str
    modelled: bool


def legal(model: Architecture, workload: Workload, layout: Layout) -> Illegal | None:
    """Return what forbids a configuration; None is that nothing does."""
    return Legality(model).check(workload, layout)


def shardings(workload: Workload) -> tuple[tuple[Sharding, int], ...]:
    """Return who may shard the states of a workload and how far: what a search has to try."""
    return tuple((way.sharding, stage) for way in stack_of(workload).ways for stage in way.zero_stages)


class Legality:
    """The rules of all frameworks for one model: those that cannot apply to it are dropped once."""

    def __init__(self, model: Architecture) -> None:
        """Know the model."""
        self.facts = facts_of(model)

    def check(self, workload: Workload, layout: Layout) -> Illegal | None:
        """Return the first rule that a configuration breaks."""
        return self.of(workload).check(layout)

    def of(self, workload: Workload) -> "Layouts":
        """Return the rules for layouts of one workload: who asks for many of them has the others judged once."""
        return Layouts(self.facts, workload)


class Layouts:
    """What is left of the rules once model and workload are known."""

    def __init__(self, facts: ModelFacts, workload: Workload) -> None:
        """Judge what no layout changes."""
        self.facts, self.workload = facts, workload
        case = Case(facts, workload, Layout())
        rules = [rule for rule in stack_of(workload).rules if _can_apply(rule, case)]
        decided = [rule for rule in rules if not rule.depends]
        self.broken = next((_broken(rule, case) for rule in decided if not rule.holds(case)), None)
        """The rule that the workload breaks in every layout."""
        self._rules = tuple((rule.applies if rule.situational else None, rule) for rule in rules if rule.depends)

    def check(self, layout: Layout) -> Illegal | None:
        """Return the first rule that a layout breaks."""
        if self.broken is not None:
            return self.broken
        case = Case(self.facts, self.workload, layout)
        for applies, rule in self._rules:
            if (applies is None or applies(case)) and not rule.holds(case):
                return _broken(rule, case)
        return None

    def degrees(self, layout: Layout, name: str, *, most: int) -> tuple[int, ...]:
        """Return the values of one degree up to ``most`` that are legal, everything else as it is."""
        return tuple(value for value in range(1, most + 1) if self._runs_with(layout, name, value))

    def _runs_with(self, layout: Layout, name: str, value: int) -> bool:
        try:
            changed = replace(layout, **{name: value})  # type: ignore[arg-type]  # a degree is an integer
        except InvalidInputError:
            return False
        return self.check(changed) is None


def _can_apply(rule: Rule, case: Case) -> bool:
    """Whether a rule can apply to a model and a workload in any layout."""
    return rule.applies is None or rule.situational or rule.applies(case)


def _broken(rule: Rule, case: Case) -> Illegal:
    reason = rule.reason.format(model=case.model, workload=case.workload, layout=case.layout)
    return Illegal(
        reason=reason,
        field=rule.field,
        allowed=allowed_by(rule.require, rule.field, case),
        source=rule.source,
        modelled=rule.modelled,
    )
