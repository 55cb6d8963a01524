"""Random faults, each of which strikes one part.

A fault also says when the part is to be brought back.
"""

import random
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import psutil
import redis

from tests.chaos.clocks import draw_jump_s
from tests.chaos.network_faults import strike_network
from tests.chaos.parts import Part
from tests.chaos.rig import Rig

LONGEST_ABSENCE_S = 2.0
_REDIS_WITHIN_S = 1.0

Back = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEvent:
    """A fault that happened to a part.

    ``back`` brings the part back after ``back_in_s`` seconds.
    """

    what: str
    part: str
    back_in_s: float
    back: Back


Fault = Callable[[random.Random, Rig, float], FaultEvent | None]


def strike(dice: random.Random, rig: Rig, *, lease_s: float) -> FaultEvent | None:
    """Choose a fault and its victim at random.

    Returns None when there was nothing to strike.
    """
    faults = FAULTS if rig.network is None else FAULTS | _FAULTS_OF_HOSTS
    fault = dice.choices(list(faults), weights=list(faults.values()))[0]
    return fault(dice, rig, lease_s)


def _kill_worker(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    return _kill(dice.choice(rig.workers), "kill -9 worker", dice.uniform(0.0, LONGEST_ABSENCE_S))


def _kill_host(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    victim = dice.choice(rig.workers)
    absence_s = dice.uniform(0.0, LONGEST_ABSENCE_S)
    if _is_away(victim):
        return None
    victim.kill_all()
    return FaultEvent(
        what="kill -9 worker, job process and probe",
        part=victim.name,
        back_in_s=absence_s,
        back=victim.start,
    )


def _kill_job_process_or_probe(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    victim, wants_probe = dice.choice(rig.workers), dice.random() < 1 / 2
    descendants = victim.tree()[1:]
    if victim.frozen or not descendants:
        return None
    with suppress(psutil.NoSuchProcess):
        descendants[-1 if wants_probe else 0].kill()
    return FaultEvent(
        what=f"kill -9 {'probe' if wants_probe else 'job process'}",
        part=victim.name,
        back_in_s=0.0,
        back=_do_nothing,
    )


def _kill_api(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    return _kill(dice.choice(rig.apis), "kill -9 API", dice.uniform(0.0, LONGEST_ABSENCE_S))


def _kill_reconcile(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    return _kill(
        dice.choice(rig.reconcilers), "kill -9 reconciler", dice.uniform(0.0, LONGEST_ABSENCE_S)
    )


def _kill_redis(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    return _kill(rig.redis, "kill -9 Redis", dice.uniform(0.0, LONGEST_ABSENCE_S))


def _freeze_redis(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    return _freeze(rig.redis, "freeze Redis", dice.uniform(0.0, LONGEST_ABSENCE_S), whole_tree=True)


def _flush_redis(_dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    if _is_away(rig.redis) or not _command_redis(rig, "FLUSHALL"):
        return None
    return FaultEvent(what="flush Redis", part=rig.redis.name, back_in_s=0.0, back=_do_nothing)


def _fill_redis(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    """Have Redis refuse every write for want of memory."""
    if _is_away(rig.redis) or not _command_redis(rig, "CONFIG", "SET", "maxmemory", "1"):
        return None
    return FaultEvent(
        what="Redis at maxmemory",
        part=rig.redis.name,
        back_in_s=dice.uniform(0.0, LONGEST_ABSENCE_S),
        # One that was killed meanwhile has come back without that bound.
        back=lambda: _do_nothing(_command_redis(rig, "CONFIG", "SET", "maxmemory", "0")),
    )


def _freeze_postgres(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    absence_s = dice.uniform(0.0, LONGEST_ABSENCE_S)
    return _freeze(rig.postgres, "freeze Postgres", absence_s, whole_tree=True)


def _stop_postgres(dice: random.Random, rig: Rig, _lease_s: float) -> FaultEvent | None:
    stop_signal, description = dice.choice(
        (
            (signal.SIGINT, "fast stop"),
            (signal.SIGQUIT, "immediate stop"),
            (signal.SIGKILL, "kill -9"),
        ),
    )
    return _kill(
        rig.postgres,
        f"{description} of Postgres",
        dice.uniform(0.0, LONGEST_ABSENCE_S),
        number=stop_signal,
    )


def _freeze_worker(dice: random.Random, rig: Rig, lease_s: float) -> FaultEvent | None:
    victim, whole_tree = dice.choice(rig.workers), dice.random() < 1 / 2
    description = (
        "freeze worker, job process and probe" if whole_tree else "freeze job process and probe"
    )
    return _freeze(
        victim, description, lease_s + dice.uniform(0.0, LONGEST_ABSENCE_S), whole_tree=whole_tree
    )


def _disturb_network(dice: random.Random, rig: Rig, lease_s: float) -> FaultEvent | None:
    struck = None if rig.network is None else strike_network(dice, rig.network)
    if struck is None:
        return None
    what, host, back = struck
    # Beyond a lease: whoever is cut off has lost what it runs, and does not know.
    back_in_s = dice.uniform(0.0, lease_s + LONGEST_ABSENCE_S)
    return FaultEvent(what=what, part=host.name, back_in_s=back_in_s, back=back)


def _move_clock(dice: random.Random, rig: Rig, lease_s: float) -> FaultEvent | None:
    if not rig.clocks:
        return None
    name = dice.choice(sorted(rig.clocks))
    clock, jump_s = rig.clocks[name], draw_jump_s(dice)
    clock.set(jump_s)
    return FaultEvent(
        what="clock forth" if jump_s > 0 else "clock back",
        part=name,
        back_in_s=dice.uniform(0.0, lease_s + LONGEST_ABSENCE_S),
        back=partial(clock.set, 0.0),
    )


FAULTS: dict[Fault, int] = {
    _kill_worker: 2,
    _kill_host: 2,
    _kill_job_process_or_probe: 3,
    _kill_api: 2,
    _kill_reconcile: 1,
    _kill_redis: 2,
    _freeze_redis: 1,
    _flush_redis: 1,
    _fill_redis: 1,
    _freeze_postgres: 1,
    _stop_postgres: 2,
    _freeze_worker: 3,
}
"""Faults with their weights."""
_FAULTS_OF_HOSTS: dict[Fault, int] = {_disturb_network: 9, _move_clock: 3}
"""More than a third of all where there are several hosts."""


def _kill(
    part: Part, what: str, absence_s: float, *, number: signal.Signals = signal.SIGKILL
) -> FaultEvent | None:
    if _is_away(part):
        return None
    part.kill(number)
    return FaultEvent(what=what, part=part.name, back_in_s=absence_s, back=part.start)


def _freeze(part: Part, what: str, for_s: float, *, whole_tree: bool) -> FaultEvent | None:
    if _is_away(part):
        return None
    part.freeze(whole_tree=whole_tree)
    if not part.frozen:
        return None
    return FaultEvent(what=what, part=part.name, back_in_s=for_s, back=part.thaw)


def _is_away(part: Part) -> bool:
    return bool(part.frozen) or not part.is_up


def _command_redis(rig: Rig, *command: str) -> bool:
    """Return whether Redis did what a command says."""
    with (
        suppress(redis.RedisError),
        redis.Redis.from_url(rig.redis_url, socket_timeout=_REDIS_WITHIN_S) as connection,
    ):
        connection.execute_command(*command)
        return True
    return False


def _do_nothing(*_results: object) -> None:
    """Do nothing: a worker goes on without its job's process."""
