"""The tables of what frameworks and engines can combine, read once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from service.estimator.values.layout import Sharding
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.legality.conditions import Test, paths_of, read_condition

_TABLES = Path(__file__).with_name("tables")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What must hold of ``field``, where ``applies``; ``reason`` quotes the case in braces.

    ``modelled``: the framework could run it, but the estimator has no term for it. ``when`` and ``require`` are as the table
    says them.
    """

    field: str
    applies: Test | None
    holds: Test
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
class Ways:
    """Who may shard, and how far."""

    sharding: Sharding
    zero_stages: tuple[int, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One framework or engine: how it shards, and its rules in the order in which they are asked."""

    name: str
    ways: tuple[Ways, ...]
    rules: tuple[Rule, ...]


def stack_of(workload: Workload) -> Stack:
    """Return the table of who runs a workload."""
    if isinstance(workload, ServeWorkload):
        return load_stack(f"serve_{workload.engine.value}")
    return load_stack(f"train_{workload.framework.value}")


@cache
def load_stack(name: str) -> Stack:
    """Return the table of that name."""
    raw = _read(name)
    ways = tuple(
        Ways(sharding=Sharding(way["sharding"]), zero_stages=tuple(way["zero_stages"]), source=way["source"])
        for way in raw["ways"]
    )
    rules = [rule for part in raw["includes"] for rule in _read(part)["rules"]]
    return Stack(name=name, ways=ways, rules=tuple(_rule(rule) for rule in (*rules, *raw["rules"])))


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_TABLES / f"{name}.json").read_bytes())
    return found


def _rule(raw: Mapping[str, Any]) -> Rule:
    when = raw.get("when")
    situational = when is not None and _of_layout(when)
    return Rule(
        field=raw["field"],
        applies=None if when is None else read_condition(when),
        holds=read_condition(raw["require"]),
        when=when,
        require=raw["require"],
        situational=situational,
        depends=situational or _of_layout(raw["require"]),
        reason=raw["reason"],
        source=raw["source"],
        modelled=raw.get("modelled", False),
    )


def _of_layout(condition: Mapping[str, Any]) -> bool:
    return any(path.startswith("layout.") for path in paths_of(condition))
