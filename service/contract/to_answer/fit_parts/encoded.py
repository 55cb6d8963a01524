"""Lists of fits' answers that are encoded once."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from msgspec import Raw

from service.contract.encoding import encode
from service.contract.schemas.fit import ComponentAnswer, InstantAnswer
from service.contract.schemas.remedies import RuleAnswer
from service.contract.to_answer.fit_parts.builder import PartBuilder
from service.estimator.values.memo import Memo, OfObjects, get_or_make_of
from service.estimator.values.result import Component, Instant
from service.planner.fit.rule_of_thumb import RuleOfThumb

T = TypeVar("T")
A = TypeVar("A")


class EncodedParts(PartBuilder):
    """Builder of lists that are encoded already.

    They are for answers that are encoded at once. What is encoded of a tuple is kept with the very
    tuple: the estimator hands it to all who ask about one configuration. So an answer copies two
    thirds of its bytes.
    """

    def __init__(self, memo: Memo[OfObjects[Any]]) -> None:
        """Keep what was encoded in ``memo``."""
        self._memo = memo

    def build_components(self, components: tuple[Component, ...]) -> list[ComponentAnswer]:
        """Return components as the contract's answer."""
        return self._encode(components, super().build_components)

    def build_instants(self, instants: tuple[Instant, ...]) -> list[InstantAnswer]:
        """Return instants as the contract's answer."""
        return self._encode(instants, super().build_instants)

    def build_rules(self, rules: tuple[RuleOfThumb, ...]) -> list[RuleAnswer]:
        """Return rules of thumb as the contract's answer."""
        return self._encode(rules, super().build_rules)

    def _encode(self, parts: tuple[T, ...], build: Callable[[tuple[T, ...]], list[A]]) -> list[A]:
        """Return the list of some parts, encoded.

        The encoder copies what is ``Raw`` wherever it stands in the place of another value.
        """
        if not parts:
            return []
        encoded = get_or_make_of(self._memo, (parts,), lambda: Raw(encode(build(parts))))
        return cast("list[A]", encoded)
