"""Tables of the combinations that frameworks and engines support.

They are read once.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from service.estimator.values.layout import Sharding
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.legality.conditions import Predicate, collect_paths, read_condition

_TABLES = Path(__file__).with_name("tables")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A requirement on ``field``, where ``applies`` holds.

    ``reason`` quotes the case in braces.

    ``modelled``: the framework could run it, but the estimator has no term for it. ``when`` and
    ``require`` are as in the table.
    """

    field: str
    applies: Predicate | None
    holds: Predicate
    when: Mapping[str, Any] | None
    require: Mapping[str, Any]
    situational: bool
    """Whether a layout decides if the rule applies."""
    depends: bool
    """Whether a layout decides if the rule is broken."""
    reason: str
    source: str
    modelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingOption:
    """A sharding implementation and its ZeRO stages."""

    sharding: Sharding
    zero_stages: tuple[int, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTable:
    """Sharding options and rules of one framework or engine.

    Rules are in the order in which they are checked.
    """

    name: str
    sharding_options: tuple[ShardingOption, ...]
    rules: tuple[Rule, ...]


def get_rule_table(workload: Workload) -> RuleTable:
    """Return the table of a workload's framework or engine."""
    if isinstance(workload, ServeWorkload):
        return load_rule_table(f"serve_{workload.engine.value}")
    return load_rule_table(f"train_{workload.framework.value}")


@cache
def load_rule_table(name: str) -> RuleTable:
    """Return the table of that name."""
    raw = _read_table(name)
    sharding_options = tuple(
        ShardingOption(
            sharding=Sharding(option["sharding"]),
            zero_stages=tuple(option["zero_stages"]),
            source=option["source"],
        )
        for option in raw["ways"]
    )
    rules = [rule for part in raw["includes"] for rule in _read_table(part)["rules"]]
    return RuleTable(
        name=name,
        sharding_options=sharding_options,
        rules=tuple(_parse_rule(rule) for rule in (*rules, *raw["rules"])),
    )


def _read_table(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((_TABLES / f"{name}.json").read_bytes())
    return table


def _parse_rule(raw: Mapping[str, Any]) -> Rule:
    when = raw.get("when")
    situational = when is not None and _depends_on_layout(when)
    return Rule(
        field=raw["field"],
        applies=None if when is None else read_condition(when),
        holds=read_condition(raw["require"]),
        when=when,
        require=raw["require"],
        situational=situational,
        depends=situational or _depends_on_layout(raw["require"]),
        reason=raw["reason"],
        source=raw["source"],
        modelled=raw.get("modelled", False),
    )


def _depends_on_layout(condition: Mapping[str, Any]) -> bool:
    return any(path.startswith("layout.") for path in collect_paths(condition))
