"""What fills the peak of a traced run: by kind, and the largest groups of tensors that are alike."""

from collections import Counter
from dataclasses import dataclass

from service.jobs.contract import AtPeak, HeldTensors
from worker.probes.run.session import steady_stretches
from worker.probes.trace.ledger import Ledger, stretches
from worker.probes.trace.roles import Role
from worker.probes.trace.run import Traced

_LARGEST = 20
"""Groups that are told; the rest is in the sums by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """What tensors that are alike have in common: layers differ by a number only, and it is left out."""

    kind: Role
    name: str
    shape: tuple[int, ...]
    dtype: str
    made_in: str


def at_peak(traced: Traced) -> AtPeak:
    """Return what is alive at the highest moment of the steady step."""
    ledger = traced.ledger
    totals = ledger.live()
    moment, stretch = _highest_moment(ledger, totals)
    alive = ledger.alive_at(moment)
    lasting = lasting_of(ledger)
    kinds: Counter[str] = Counter()
    counts: Counter[_Group] = Counter()
    sums: Counter[_Group] = Counter()
    for place in alive:
        birth = ledger.births[place]
        group = _group(traced, place, lasting)
        kinds[group.kind.value] += birth.num_bytes
        counts[group] += 1
        sums[group] += birth.num_bytes
    return AtPeak(
        stretch=stretch,
        bytes=totals[moment],
        by_kind={kind: num_bytes for kind, num_bytes in kinds.most_common() if num_bytes},
        largest=tuple(_held(group, counts[group], num_bytes) for group, num_bytes in sums.most_common(_LARGEST)),
    )


def _highest_moment(ledger: Ledger, totals: list[int]) -> tuple[int, str]:
    """Return the place in the order of events, and the name of the stretch, of the steady step's highest bytes."""
    found = stretches(ledger, totals)
    steady = {id(stretch) for stretch in steady_stretches(found)}
    best, name = 0, ""
    for stretch, (_, begin, end) in zip(found, ledger.spans(), strict=True):
        if id(stretch) not in steady or begin == end:
            continue
        moment = max(range(begin, end), key=totals.__getitem__)
        if not name or totals[moment] > totals[best]:
            best, name = moment, stretch.name
    return best, name


def lasting_of(ledger: Ledger) -> frozenset[int]:
    """Return the storages that outlive the stretch that made them."""
    released = {~event: place for place, event in enumerate(ledger.order) if event < 0}
    lasting: set[int] = set()
    for _, begin, end in ledger.spans():
        made = (event for event in ledger.order[begin:end] if event >= 0)
        lasting.update(event for event in made if released.get(event, end) >= end)
    return frozenset(lasting)


def _group(traced: Traced, place: int, lasting: frozenset[int]) -> _Group:
    birth = traced.ledger.births[place]
    kind, name = traced.roles.named.get(place, (None, birth.operator.removeprefix("aten.").partition(".")[0]))
    return _Group(
        kind=kind or traced.roles.of(traced.ledger, place, lasting),
        name=_without_numbers(name),
        shape=birth.shape,
        dtype=birth.dtype,
        made_in=_without_numbers(birth.stretch),
    )


def _without_numbers(name: str) -> str:
    """Return ``model.layers.*.mlp`` for ``model.layers.3.mlp`` and ``forward/layer`` for ``forward/layer:3``."""
    stretch = name.partition(":")[0]
    return ".".join("*" if part.isdecimal() else part for part in stretch.split("."))


def _held(group: _Group, count: int, num_bytes: int) -> HeldTensors:
    return HeldTensors(
        kind=group.kind.value,
        name=group.name,
        shape=group.shape,
        dtype=group.dtype,
        made_in=group.made_in,
        count=count,
        bytes=num_bytes,
    )
