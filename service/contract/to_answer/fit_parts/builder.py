"""Lists of a fit's answer, as the contract has them."""

from service.contract.schemas.fit import ComponentAnswer, InstantAnswer
from service.contract.schemas.remedies import RuleAnswer
from service.contract.to_answer.fit_parts.finite import require_finite_or_none
from service.estimator.values.result import Component, Instant
from service.planner.fit.rule_of_thumb import RuleOfThumb


class PartBuilder:
    """Builder of the lists that an answer explains itself by."""

    def build_components(self, components: tuple[Component, ...]) -> list[ComponentAnswer]:
        """Return components as the contract's answer."""
        return [
            ComponentAnswer(
                name=part.name,
                bytes=part.bytes,
                basis=part.basis,
                formula=part.formula,
                source=part.source,
            )
            for part in components
        ]

    def build_instants(self, instants: tuple[Instant, ...]) -> list[InstantAnswer]:
        """Return instants as the contract's answer."""
        return [
            InstantAnswer(
                name=instant.name,
                allocated_bytes=instant.allocated_bytes,
                parts={name: num_bytes for name, num_bytes in instant.parts.items() if num_bytes},
            )
            for instant in instants
        ]

    def build_rules(self, rules: tuple[RuleOfThumb, ...]) -> list[RuleAnswer]:
        """Return rules of thumb as the contract's answer."""
        return [
            RuleAnswer(
                name=rule.name,
                bytes=rule.bytes,
                our_bytes=rule.our_bytes,
                seconds=require_finite_or_none(rule.seconds),
                our_seconds=require_finite_or_none(rule.our_seconds),
                off_by=rule.off_by,
                why=rule.why,
                source=rule.source,
            )
            for rule in rules
        ]


PART_BUILDER = PartBuilder()
