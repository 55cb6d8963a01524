"""What keys have in common: means over the keys of a family, and over families, each shrunk towards the one above it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from service.calibration.derive import Calibration, Parent
from service.calibration.evidence import Quantity
from service.calibration.shrinkage import Mean, between_variance, mean_of_groups, shrunk
from service.estimator.memory.intervals.ends import smallest_holding


class Level(StrEnum):
    """What an answer rests on: its own point, its key, its family, all families, or the analytic answer alone."""

    POINT = "point"
    KEY = "key"
    FAMILY = "family"
    GLOBAL = "global"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Keys that may share what they learn: a kind of run in one environment; a ``family`` of None is all of them."""

    quantity: Quantity
    kind: str
    environment: str
    family: str | None = None

    @property
    def name(self) -> str:
        """How an answer names it."""
        whose = "every family" if self.family is None else self.family
        return f"{whose}, {self.kind}, {self.environment}"

    @property
    def above(self) -> "Group":
        """The same kind of run of every family."""
        return Group(quantity=self.quantity, kind=self.kind, environment=self.environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One key's calibration, the family that it belongs to, and the GPU that was measured, if one was."""

    key: str
    group: Group
    calibration: Calibration
    gpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What a group has in common, and how far off it is.

    Half widths are conformal, None while too few measurements were held out: ``half_width`` for a key that was never measured,
    which holds whatever is asked of it, and ``key_half_width`` for a key that was. ``errors`` and ``key_errors`` are what they
    were chosen from, for other levels.
    """

    group: Group
    level: Level
    shares: Mapping[str, float]
    between: Mapping[str, float] = field(default_factory=dict)
    num_keys: int
    num_measurements: int
    half_width: float | None = None
    key_half_width: float | None = None
    errors: tuple[float, ...] = ()
    key_errors: tuple[float, ...] = ()

    @property
    def parent(self) -> Parent:
        """What a key of this group shrinks towards."""
        return Parent(shares=self.shares, between=self.between)


Pools = Mapping[Group, Pool]


def pools_of(members: Sequence[Member]) -> dict[Group, Pool]:
    """Return the pools of every family and of all families; the order of the members does not matter."""
    by_family: dict[Group, list[Member]] = {}
    for member in sorted(members, key=lambda one: one.key):
        by_family.setdefault(member.group, []).append(member)
    by_kind: dict[Group, dict[Group, list[Member]]] = {}
    for group, family in by_family.items():
        by_kind.setdefault(group.above, {})[group] = family
    found: dict[Group, Pool] = {}
    for above, families in by_kind.items():
        found[above] = _pool_of_all(above, families)
        for group, family in families.items():
            found[group] = _pool_of_family(group, family, found[above], list(families.values()))
    return found


def parent_of(pools: Pools, group: Group) -> Pool | None:
    """Return what a key of a group without measurements of its own rests on: its family, else all families, else nothing."""
    family = pools.get(group)
    return family if family is not None else pools.get(group.above)


def _pool_of_all(group: Group, families: Mapping[Group, Sequence[Member]]) -> Pool:
    every = [member for family in families.values() for member in family]
    shares = {}
    for name in _parts(every):
        means = [mean for family in families.values() if (mean := _family_mean(family, name)) is not None]
        common = mean_of_groups(means)
        if common is not None:
            shares[name] = shrunk(common)
    return _pool(group, Level.GLOBAL, every, shares)


def _pool_of_family(group: Group, family: Sequence[Member], above: Pool, siblings: Sequence[Sequence[Member]]) -> Pool:
    shares = dict(above.shares)
    for name in _parts(family):
        common = mean_of_groups(_means(family, name))
        if common is None:
            continue
        parent = above.shares.get(name, 0.0)
        others = [mean for each in siblings if (mean := mean_of_groups(_means(each, name))) is not None]
        shares[name] = shrunk(common, parent=parent, between=between_variance(others, parent=parent))
    return _pool(group, Level.FAMILY, family, shares)


def _pool(group: Group, level: Level, members: Sequence[Member], shares: Mapping[str, float]) -> Pool:
    kept = {name: share for name, share in shares.items() if share}
    left_out = [member.calibration.left_out for member in members if member.calibration.left_out]
    errors = sorted(max(abs(one.alike) for one in held) for held in left_out)
    key_errors = sorted(abs(one.after) for held in left_out for one in held if not one.alone)
    return Pool(
        group=group,
        level=level,
        shares=kept,
        between={name: between_variance(_means(members, name), parent=shares.get(name, 0.0)) for name in _parts(members)},
        num_keys=len(members),
        num_measurements=sum(len(member.calibration.evidence) for member in members),
        half_width=smallest_holding(errors),
        key_half_width=smallest_holding(key_errors),
        errors=tuple(errors),
        key_errors=tuple(key_errors),
    )


def _family_mean(family: Sequence[Member], name: str) -> Mean | None:
    """Return the mean of a family's keys; of one key alone what that key says."""
    means = _means(family, name)
    return mean_of_groups(means) or (means[0] if means else None)


def _means(members: Sequence[Member], name: str) -> list[Mean]:
    return [member.calibration.means[name] for member in members if name in member.calibration.means]


def _parts(members: Sequence[Member]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for member in members for name in member.calibration.means))
