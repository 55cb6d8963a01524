"""A server of reservations and clients of schedulers that forget nothing when a process dies."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
SAMPLES = Path(__file__).parent / "samples"
"""What the real clients printed."""
_SBATCH = """#!/bin/sh
cat > "$STATE/script"
[ -e "$STATE/failure" ] && { cat "$STATE/failure" >&2; exit 1; }
echo "$WHO $* " >> "$STATE/submitted"
n=$(wc -l < "$STATE/submitted")
[ -e "$STATE/state" ] || echo PENDING > "$STATE/state"
[ -e "$STATE/deaf" ] && { echo "Socket timed out" >&2; exit 1; }
echo "$n"
"""
_FIND = """
for word in "$@"; do
    case "$word" in --name=*) name=${word#*=} ;; --user=*) user=${word#*=} ;; esac
done
touch "$STATE/submitted"
numbers=$(grep -n "^$user .*--job-name=$name " "$STATE/submitted" | cut -d: -f1)
"""
_SQUEUE = f"""#!/bin/sh
[ -e "$STATE/forgotten" ] && exit 0
{_FIND}
for number in $numbers; do echo "$number|$(cat "$STATE/state")"; done
"""
_SACCT = f"""#!/bin/sh
[ -e "$STATE/accounting" ] || {{ echo "Slurm accounting storage is disabled" >&2; exit 1; }}
{_FIND}
state=$(cat "$STATE/accounting" "$STATE/state")
for number in $numbers; do echo "$number|$(echo $state | cut -d' ' -f1) by 1000"; done
"""
_SCONTROL = """#!/bin/sh
echo "MinJobAge               = $(cat "$STATE/age" 2>/dev/null || echo 300) sec"
"""
_KUBECTL = """#!/bin/sh
case "$1" in
apply) [ -e "$STATE/submitted" ] || echo 1 > "$STATE/submitted"; cat > "$STATE/objects" ;;
get) cat > /dev/null; [ -e "$STATE/objects" ] || exit 0
     done='"status": {"conditions": [{"type": "Complete", "status": "True"}]}'
     if [ "$(cat "$STATE/state" 2>/dev/null)" = COMPLETED ]
     then sed "s/\\"kind\\": \\"Job\\"/$done, &/" "$STATE/objects"
     else cat "$STATE/objects"; fi ;;
esac
"""
_RAY = """#!/bin/sh
[ "$1" = job ] || exit 2
case "$2" in
submit) echo "$3" >> "$STATE/submitted" ;;
status) id=$3
     [ -e "$STATE/submitted" ] ||
         { sed "s/headroom-s1/$id/" "$SAMPLES/ray_2_60_unknown.txt" >&2; exit 1; }
     if [ "$(cat "$STATE/state" 2>/dev/null)" = COMPLETED ]
     then cat "$SAMPLES/ray_2_60_failed.txt"
     else cat "$SAMPLES/ray_2_60_running.txt"; fi ;;
esac
"""
_SKY = """#!/bin/sh
case "$1 $2" in
"jobs launch") echo "$3" >> "$STATE/submitted" ;;
"api status") cat "$STATE/requests" 2>/dev/null || cat "$SAMPLES/skypilot_0_14_requests.json" ;;
"jobs queue")
     [ -e "$STATE/stopped" ] && { cat "$SAMPLES/skypilot_0_14_stopped.txt" >&2; exit 1; }
     [ -e "$STATE/submitted" ] || { echo "[]"; exit 0; }
     state=$([ "$(cat "$STATE/state" 2>/dev/null)" = COMPLETED ] && echo SUCCEEDED || echo RUNNING)
     name=$(sed -n '1s/--name=//p' "$STATE/submitted")
     printf '[\\n {"job_id": 1, "job_name": "%s", "status": "%s"}\\n]\\n' "$name" "$state" ;;
esac
"""
_DSTACK = """#!/bin/sh
case "$1" in
apply) cat > "$STATE/run"; echo 1 >> "$STATE/submitted" ;;
run) [ -e "$STATE/submitted" ] || { echo "Run $3 not found"; exit 1; }
     if [ "$(cat "$STATE/state" 2>/dev/null)" = COMPLETED ]
     then sed 's/"status": "submitted"/"status": "done"/' "$SAMPLES/dstack_0_22_run.json"
     else cat "$SAMPLES/dstack_0_22_run.json"; fi ;;
esac
"""
PROGRAMS = {
    "ray": _RAY,
    "sky": _SKY,
    "dstack": _DSTACK,
    "sbatch": _SBATCH,
    "squeue": _SQUEUE,
    "sacct": _SACCT,
    "scontrol": _SCONTROL,
    "kubectl": _KUBECTL,
}


class KilledError(BaseException):
    """The process died here."""


@dataclass(kw_only=True)
class Reaper:
    """Death before or after the n-th thing that another process can see."""

    at: int = 0
    is_after: bool = False
    seen: int = 0

    def pass_through(self, effect: Callable[[], T]) -> T:
        """Let something happen, and die around it when its turn has come."""
        self.seen += 1
        if self.seen == self.at and not self.is_after:
            raise KilledError
        result = effect()
        if self.seen == self.at:
            raise KilledError
        return result


@dataclass(kw_only=True)
class Server:
    """Reservations with keys, leases and ends."""

    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    is_full: bool = False

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer as the API does."""
        if request.method == "POST":
            return self._reserve(request)
        reservation = request.url.path.rpartition("/")[2]
        if reservation not in self.live:
            return _refuse(404, "reservation-not-found")
        if request.method == "DELETE":
            del self.live[reservation]
            return httpx.Response(204)
        self.live[reservation] |= json.loads(request.content)
        return httpx.Response(200, json=self.live[reservation])

    def expire(self) -> None:
        """End every lease."""
        self.live.clear()

    def _reserve(self, request: httpx.Request) -> httpx.Response:
        key = request.headers["idempotency-key"]
        if self.is_full:
            return _refuse(409, "gpus-not-free")
        if key in self.keys:
            body, reservation = self.keys[key]
            assert body == request.content
            if reservation not in self.live:
                return _refuse(409, "reservation-ended")
            return httpx.Response(201, json=self.live[reservation])
        reservation = f"r{len(self.keys) + 1}"
        self.keys[key] = (request.content, reservation)
        self.live[reservation] = {"id": reservation}
        return httpx.Response(201, json=self.live[reservation])


def install(folder: Path) -> None:
    """Write the clients."""
    for name, text in PROGRAMS.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)


def _refuse(status: int, kind: str) -> httpx.Response:
    return httpx.Response(status, json={"type": kind, "detail": kind})
