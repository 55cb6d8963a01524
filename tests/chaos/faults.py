"""What can go wrong, drawn by dice: each fault strikes one part, and says when the part is to be brought back."""

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.rig import Part, Rig

LONGEST_ABSENCE_S = 2.0

Back = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A fault that happened: what, to whom, and what brings the part back in how many seconds."""

    what: str
    part: str
    back_in_s: float
    back: Back


Fault = Callable[[random.Random, Rig, float], Struck | None]


def strike(dice: random.Random, rig: Rig, *, lease_s: float) -> Struck | None:
    """Let the dice choose a fault and its victim; ``None`` when there was nothing to strike."""
    fault = dice.choices(list(FAULTS), weights=list(FAULTS.values()))[0]
    return fault(dice, rig, lease_s)


def _worker(dice: random.Random, rig: Rig, _lease_s: float) -> Struck | None:
    return _kill(dice.choice(rig.workers), "kill -9 worker", dice.uniform(0.0, LONGEST_ABSENCE_S))


def _host(dice: random.Random, rig: Rig, _lease_s: float) -> Struck | None:
    victim = dice.choice(rig.workers)
    absence_s = dice.uniform(0.0, LONGEST_ABSENCE_S)
    if _is_away(victim):
        return None
    victim.kill_all()
    return Struck(what="kill -9 worker, horse and probe", part=victim.name, back_in_s=absence_s, back=victim.start)


def _horse_or_probe(dice: random.Random, rig: Rig, _lease_s: float) -> Struck | None:
    victim, wants_probe = dice.choice(rig.workers), dice.random() < 1 / 2
    below = victim.tree()[1:]
    if victim.frozen or not below:
        return None
    below[-1 if wants_probe else 0].kill()
    return Struck(what=f"kill -9 {'probe' if wants_probe else 'horse'}", part=victim.name, back_in_s=0.0, back=_nothing)


def _api(dice: random.Random, rig: Rig, _lease_s: float) -> Struck | None:
    return _kill(dice.choice(rig.apis), "kill -9 API", dice.uniform(0.0, LONGEST_ABSENCE_S))


def _reconcile(dice: random.Random, rig: Rig, _lease_s: float) -> Struck | None:
    return _kill(rig.reconcile, "kill -9 reconciler", dice.uniform(0.0, LONGEST_ABSENCE_S))


def _redis(dice: random.Random, rig: Rig, _lease_s: float) -> Struck | None:
    return _kill(rig.redis, "kill -9 Redis", dice.uniform(0.0, LONGEST_ABSENCE_S))


def _redis_hangs(dice: random.Random, rig: Rig, _lease_s: float) -> Struck | None:
    return _freeze(rig.redis, "freeze Redis", dice.uniform(0.0, LONGEST_ABSENCE_S), whole=True)


def _postgres(dice: random.Random, rig: Rig, _lease_s: float) -> Struck | None:
    how, words = dice.choice(((signal.SIGINT, "fast stop"), (signal.SIGQUIT, "immediate stop"), (signal.SIGKILL, "kill -9")))
    return _kill(rig.postgres, f"{words} of Postgres", dice.uniform(0.0, LONGEST_ABSENCE_S), number=how)


def _zombie(dice: random.Random, rig: Rig, lease_s: float) -> Struck | None:
    victim, whole = dice.choice(rig.workers), dice.random() < 1 / 2
    words = "freeze worker, horse and probe" if whole else "freeze horse and probe"
    return _freeze(victim, words, lease_s + dice.uniform(0.0, LONGEST_ABSENCE_S), whole=whole)


FAULTS: dict[Fault, int] = {
    _worker: 2,
    _host: 2,
    _horse_or_probe: 3,
    _api: 2,
    _reconcile: 1,
    _redis: 2,
    _redis_hangs: 1,
    _postgres: 2,
    _zombie: 3,
}
"""Each fault with how often it is drawn."""


def _kill(part: Part, what: str, absence_s: float, *, number: signal.Signals = signal.SIGKILL) -> Struck | None:
    if _is_away(part):
        return None
    part.kill(number)
    return Struck(what=what, part=part.name, back_in_s=absence_s, back=part.start)


def _freeze(part: Part, what: str, for_s: float, *, whole: bool) -> Struck | None:
    if _is_away(part):
        return None
    part.freeze(whole=whole)
    if not part.frozen:
        return None
    return Struck(what=what, part=part.name, back_in_s=for_s, back=part.thaw)


def _is_away(part: Part) -> bool:
    return bool(part.frozen) or not part.is_up


def _nothing() -> None:
    """Bring nothing back: a worker lives on without its horse."""
