"""Contents of the peak of a traced run.

They are given by kind, and by the largest groups of tensors that are alike.
"""

from collections import Counter
from dataclasses import dataclass

from service.jobs.readings import AtPeak, HeldTensors
from worker.probes.run.session import select_steady_stretches
from worker.probes.trace.ledger import Ledger, compute_stretches
from worker.probes.trace.roles import Role
from worker.probes.trace.run import TracedRun

_LARGEST = 20
"""Groups that are listed; all others are in the sums by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Common properties of tensors that are alike.

    Layers differ by a number only, and it is left out.
    """

    kind: Role
    name: str
    shape: tuple[int, ...]
    dtype: str
    made_in: str


def summarize_peak(traced: TracedRun) -> AtPeak:
    """Summarize the storages alive at the peak of the steady step."""
    ledger = traced.ledger
    totals = ledger.live()
    moment, stretch = _find_peak(ledger, totals)
    alive = ledger.alive_at(moment)
    lasting = find_lasting(ledger)
    kinds: Counter[str] = Counter()
    counts: Counter[_Group] = Counter()
    sums: Counter[_Group] = Counter()
    for place in alive:
        birth = ledger.allocations[place]
        group = _build_group(traced, place, lasting)
        kinds[group.kind.value] += birth.num_bytes
        counts[group] += 1
        sums[group] += birth.num_bytes
    return AtPeak(
        stretch=stretch,
        bytes=totals[moment],
        by_kind={kind: num_bytes for kind, num_bytes in kinds.most_common() if num_bytes},
        largest=tuple(
            _build_held_tensors(group, counts[group], num_bytes)
            for group, num_bytes in sums.most_common(_LARGEST)
        ),
    )


def _find_peak(ledger: Ledger, totals: list[int]) -> tuple[int, str]:
    """Return the position and the stretch of the steady step's peak.

    The position is one in the order of events.
    """
    all_stretches = compute_stretches(ledger, totals)
    steady = {id(stretch) for stretch in select_steady_stretches(all_stretches)}
    best, name = 0, ""
    for stretch, (_, begin, end) in zip(all_stretches, ledger.spans(), strict=True):
        if id(stretch) not in steady or begin == end:
            continue
        moment = max(range(begin, end), key=totals.__getitem__)
        if not name or totals[moment] > totals[best]:
            best, name = moment, stretch.name
    return best, name


def find_lasting(ledger: Ledger) -> frozenset[int]:
    """Return the storages that outlive the stretch that made them."""
    released = {~event: place for place, event in enumerate(ledger.order) if event < 0}
    lasting: set[int] = set()
    for _, begin, end in ledger.spans():
        allocated = (event for event in ledger.order[begin:end] if event >= 0)
        lasting.update(event for event in allocated if released.get(event, end) >= end)
    return frozenset(lasting)


def _build_group(traced: TracedRun, place: int, lasting: frozenset[int]) -> _Group:
    birth = traced.ledger.allocations[place]
    kind, name = traced.roles.named.get(
        place, (None, birth.operator.removeprefix("aten.").partition(".")[0])
    )
    return _Group(
        kind=kind or traced.roles.get_role(traced.ledger, place, lasting),
        name=_strip_layer_numbers(name),
        shape=birth.shape,
        dtype=birth.dtype,
        made_in=_strip_layer_numbers(birth.stretch),
    )


def _strip_layer_numbers(name: str) -> str:
    """Replace the layer numbers in a name.

    ``model.layers.3.mlp`` becomes ``model.layers.*.mlp``, ``forward/layer:3`` becomes
    ``forward/layer``.
    """
    stretch = name.partition(":")[0]
    return ".".join("*" if part.isdecimal() else part for part in stretch.split("."))


def _build_held_tensors(group: _Group, count: int, num_bytes: int) -> HeldTensors:
    return HeldTensors(
        kind=group.kind.value,
        name=group.name,
        shape=group.shape,
        dtype=group.dtype,
        made_in=group.made_in,
        count=count,
        bytes=num_bytes,
    )
