"""``python -m tests.load``: questions at a constant rate to several replicas while measurements run; exit 1 past a bound."""

import argparse
import gc
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from tests.load.fleet import DEVICES, Fleet, running
from tests.load.generator import Outcome, offer
from tests.load.measuring import ask_each, measurements_running
from tests.load.questions import asked_before, request_bodies

MAX_RATE = 5_000.0
MAX_SECONDS = 600.0
OK = 200
QUANTILES = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a run showed; CPU in processors, that is seconds of processor time per second."""

    outcome: Outcome
    ended: Mapping[str, int]
    cpu: Mapping[str, float]

    @property
    def errors(self) -> int:
        """Return how many requests were not answered with 200."""
        return sum(self.outcome.statuses.values()) - self.outcome.statuses[OK] + self.outcome.unanswered


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load, print what it showed, and say with the exit status whether the bounds held."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headroom-load-") as root:
        settings = dict(pair.split("=", 1) for pair in options.set)
        with running(Path(root), num_replicas=options.replicas, devices=options.devices, settings=settings) as fleet:
            figures = put_under_load(fleet, options)
    Console().print(table(figures, options))
    missed = missed_bounds(figures, p99_ms=options.p99_ms, needs_measurements=bool(options.devices))
    for reason in missed:
        sys.stderr.write(f"{reason}\n")
    return 1 if missed else 0


def put_under_load(fleet: Fleet, options: argparse.Namespace) -> Figures:
    """Warm the replicas up, then measure."""
    gc.disable()
    bodies = request_bodies(options.seed)
    with measurements_running(fleet.replicas, options.devices) as ended:
        for replica in fleet.replicas:
            ask_each(replica, asked_before())
        uvloop.run(_offer(fleet, bodies, options.rate, options.warm_up_s, options.connections))
        before, already, began = {**fleet.cpu_seconds(), "generator": _own()}, Counter(ended), time.perf_counter()
        outcome = uvloop.run(_offer(fleet, bodies, options.rate, options.seconds, options.connections))
        took = time.perf_counter() - began
        after = {**fleet.cpu_seconds(), "generator": _own()}
        cpu = {name: (after[name] - before[name]) / took for name in after}
        return Figures(outcome=outcome, ended=ended - already, cpu=cpu)


def missed_bounds(figures: Figures, *, p99_ms: float, needs_measurements: bool) -> list[str]:
    """Return what was not as it must be, in words with numbers."""
    missed = []
    p99 = quantile(figures.outcome.latencies_s, 0.99) * 1e3
    if p99 > p99_ms:
        missed.append(f"p99 is {p99:.1f} ms; it must be {p99_ms:g} ms or less")
    if figures.errors:
        missed.append(f"{figures.errors} requests were not answered with 200: {dict(figures.outcome.statuses)}")
    bad = {name: count for name, count in figures.ended.items() if not name.endswith("succeeded")}
    if bad:
        missed.append(f"measurements ended otherwise than succeeded: {bad}")
    if needs_measurements and not figures.ended:
        missed.append("no measurement ended meanwhile, so none is known to have run")
    return missed


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share does not exceed (nearest rank)."""
    return (
        ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1))] if ordered else float("inf")
    )


def table(figures: Figures, options: argparse.Namespace) -> Table:
    """Return what a run showed, as a table."""
    outcome = figures.outcome
    title = f"{options.rate:g} fits/s for {options.seconds:g} s, {options.replicas} replicas, {len(options.devices)} workers"
    shown = Table("what", "value", title=title)
    shown.add_row("answered with 200", f"{outcome.statuses[OK]:,}")
    shown.add_row("errors", str(figures.errors))
    for share in QUANTILES:
        shown.add_row(f"p{share * 100:g} from when it was due", f"{quantile(outcome.latencies_s, share) * 1e3:.1f} ms")
    shown.add_row("longest", f"{quantile(outcome.latencies_s, 1.0) * 1e3:.1f} ms")
    shown.add_row("sent late, every connection busy", f"{outcome.sent_late:,}")
    shown.add_row("the last was due and sent after", f"{outcome.elapsed_s:.2f} s")
    for name, count in sorted(figures.ended.items()):
        shown.add_row(f"measurements: {name}", str(count))
    for name, processors in figures.cpu.items():
        shown.add_row(f"processors used: {name}", f"{processors:.2f}")
    return shown


async def _offer(fleet: Fleet, bodies: Iterator[bytes], rate: float, seconds: float, connections: int) -> Outcome:
    return await offer(fleet.replicas, bodies, rate=rate, seconds=seconds, connections=connections)


def _own() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--rate", type=_at_most(MAX_RATE), default=500.0, help="requests a second (default 500)")
    parser.add_argument("--seconds", type=_at_most(MAX_SECONDS), default=60.0, help="how long (default 60)")
    parser.add_argument("--warm-up-s", type=_at_most(MAX_SECONDS), default=10.0, help="asked before that (default 10)")
    parser.add_argument("--p99-ms", type=_at_most(60_000.0), default=50.0, help="the bound (default 50)")
    parser.add_argument("--connections", type=int, default=64, help="kept alive, over all replicas (default 64)")
    parser.add_argument("--replicas", type=int, default=2, help="processes of the API (default 2)")
    parser.add_argument(
        "--devices", nargs="*", choices=DEVICES, default=list(DEVICES), help="a worker for each (default trace cpu; none)"
    )
    parser.add_argument("--set", metavar="NAME=VALUE", nargs="*", default=[], help="environment of every process")
    parser.add_argument("--seed", type=int, default=1, help="of the mix of questions (default 1)")
    return parser


def _at_most(limit: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not 0 < value <= limit:
            message = f"{text} is not above 0 and at most {limit:g}"
            raise argparse.ArgumentTypeError(message)
        return value

    return parse


if __name__ == "__main__":
    sys.exit(main())
