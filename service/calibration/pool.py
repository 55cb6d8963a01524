"""Corrections shared by keys of a family and by all families.

Means over the keys of a family, and over families, are each shrunk towards the level above.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from service.calibration.derive import Calibration, Prior
from service.calibration.evidence import Quantity
from service.calibration.shrinkage import Mean, average_groups, estimate_between_variance, shrink
from service.estimator.memory.intervals.ends import find_conformal_width


class Level(StrEnum):
    """Evidence level of an answer.

    Its own point, its key, its family, all families, or the analytic answer alone.
    """

    POINT = "point"
    KEY = "key"
    FAMILY = "family"
    GLOBAL = "global"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Keys that may share what they learn.

    They are of one kind of run in one environment; a ``family`` of None is all of them.
    """

    quantity: Quantity
    kind: str
    environment: str
    family: str | None = None

    @property
    def name(self) -> str:
        """Name of the group in answers."""
        family = "every family" if self.family is None else self.family
        return f"{family}, {self.kind}, {self.environment}"

    @property
    def all_families(self) -> "Group":
        """The group of all families with the same kind of run."""
        return Group(quantity=self.quantity, kind=self.kind, environment=self.environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A key's calibration with its family and measured GPU.

    ``gpu`` is None where no GPU was measured.
    """

    key: str
    group: Group
    calibration: Calibration
    gpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Common corrections of a group and their errors.

    Half widths are conformal, None while too few measurements were left out: ``half_width`` for a
    key that was never measured, which holds whatever is asked of it, and ``key_half_width`` for a
    key that was. ``errors`` and ``key_errors`` are the residuals that they were chosen from, for
    other levels.
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
    def prior(self) -> Prior:
        """Prior towards which a key of this group shrinks."""
        return Prior(shares=self.shares, between=self.between)


Pools = Mapping[Group, Pool]


def build_pools(members: Sequence[Member]) -> dict[Group, Pool]:
    """Build the pools of every family and of all families.

    The order of the members does not matter.
    """
    by_family: dict[Group, list[Member]] = {}
    for member in sorted(members, key=lambda entry: entry.key):
        by_family.setdefault(member.group, []).append(member)
    by_kind: dict[Group, dict[Group, list[Member]]] = {}
    for group, family in by_family.items():
        by_kind.setdefault(group.all_families, {})[group] = family
    pools: dict[Group, Pool] = {}
    for global_group, families in by_kind.items():
        pools[global_group] = _build_global_pool(global_group, families)
        for group, family in families.items():
            pools[group] = _build_family_pool(
                group, family, pools[global_group], list(families.values())
            )
    return pools


def find_pool(pools: Pools, group: Group) -> Pool | None:
    """Find the pool for a key without measurements of its own.

    Its family, else all families, else ``None``.
    """
    family = pools.get(group)
    return family if family is not None else pools.get(group.all_families)


def _build_global_pool(group: Group, families: Mapping[Group, Sequence[Member]]) -> Pool:
    every = [member for family in families.values() for member in family]
    shares = {}
    for name in _list_parts(every):
        means = [
            mean
            for family in families.values()
            if (mean := _compute_family_mean(family, name)) is not None
        ]
        common = average_groups(means)
        if common is not None:
            shares[name] = shrink(common)
    return _make_pool(group, Level.GLOBAL, every, shares)


def _build_family_pool(
    group: Group, family: Sequence[Member], global_pool: Pool, siblings: Sequence[Sequence[Member]]
) -> Pool:
    shares = dict(global_pool.shares)
    for name in _list_parts(family):
        common = average_groups(_collect_means(family, name))
        if common is None:
            continue
        prior = global_pool.shares.get(name, 0.0)
        sibling_means = [
            mean
            for sibling in siblings
            if (mean := average_groups(_collect_means(sibling, name))) is not None
        ]
        shares[name] = shrink(
            common, prior=prior, between=estimate_between_variance(sibling_means, prior=prior)
        )
    return _make_pool(group, Level.FAMILY, family, shares)


def _make_pool(
    group: Group, level: Level, members: Sequence[Member], shares: Mapping[str, float]
) -> Pool:
    nonzero_shares = {name: share for name, share in shares.items() if share}
    left_out = [member.calibration.left_out for member in members if member.calibration.left_out]
    errors = sorted(max(abs(residual.alike) for residual in residuals) for residuals in left_out)
    key_errors = sorted(
        abs(residual.after)
        for residuals in left_out
        for residual in residuals
        if not residual.alone
    )
    return Pool(
        group=group,
        level=level,
        shares=nonzero_shares,
        between={
            name: estimate_between_variance(
                _collect_means(members, name), prior=shares.get(name, 0.0)
            )
            for name in _list_parts(members)
        },
        num_keys=len(members),
        num_measurements=sum(len(member.calibration.evidence) for member in members),
        half_width=find_conformal_width(errors),
        key_half_width=find_conformal_width(key_errors),
        errors=tuple(errors),
        key_errors=tuple(key_errors),
    )


def _compute_family_mean(family: Sequence[Member], name: str) -> Mean | None:
    """Return the mean over a family's keys.

    Of one key alone it is that key's mean.
    """
    means = _collect_means(family, name)
    return average_groups(means) or (means[0] if means else None)


def _collect_means(members: Sequence[Member], name: str) -> list[Mean]:
    return [
        member.calibration.means[name] for member in members if name in member.calibration.means
    ]


def _list_parts(members: Sequence[Member]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for member in members for name in member.calibration.means))
