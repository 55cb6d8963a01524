"""Load test: ``python -m tests.load``.

Questions come at a constant rate to several replicas while measurements run; the status is 1 past a
bound.
"""

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

from tests.load.fleet import DEVICES, Fleet, run_fleet
from tests.load.generator import LoadOutcome, offer
from tests.load.measuring import run_measurements, send_each
from tests.load.questions import build_repeated_bodies, iter_request_bodies

MAX_RATE = 5_000.0
MAX_SECONDS = 600.0
OK = 200
QUANTILES = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Results of a run.

    CPU is in processors, that is seconds of processor time per second.
    """

    outcome: LoadOutcome
    ended: Mapping[str, int]
    cpu: Mapping[str, float]

    @property
    def errors(self) -> int:
        """The number of requests that were not answered with 200."""
        return (
            sum(self.outcome.statuses.values())
            - self.outcome.statuses[OK]
            + self.outcome.unanswered
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load, print the results and check the bounds.

    The exit status is 0 when all held.
    """
    options = _build_parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headroom-load-") as root:
        settings = dict(pair.split("=", 1) for pair in options.set)
        with run_fleet(
            Path(root), num_replicas=options.replicas, devices=options.devices, settings=settings
        ) as fleet:
            figures = put_under_load(fleet, options)
    Console().print(build_table(figures, options))
    missed = find_missed_bounds(
        figures, p99_ms=options.p99_ms, needs_measurements=bool(options.devices)
    )
    for reason in missed:
        sys.stderr.write(f"{reason}\n")
    return 1 if missed else 0


def put_under_load(fleet: Fleet, options: argparse.Namespace) -> Figures:
    """Warm the replicas up, then measure."""
    gc.disable()
    bodies = iter_request_bodies(options.seed)
    with run_measurements(fleet.replicas, options.devices) as ended:
        for replica in fleet.replicas:
            send_each(replica, build_repeated_bodies())
        uvloop.run(_offer(fleet, bodies, options.rate, options.warm_up_s, options.connections))
        before, already, began = (
            {**fleet.cpu_seconds(), "generator": _read_own_cpu_s()},
            Counter(ended),
            time.perf_counter(),
        )
        outcome = uvloop.run(
            _offer(fleet, bodies, options.rate, options.seconds, options.connections)
        )
        took = time.perf_counter() - began
        after = {**fleet.cpu_seconds(), "generator": _read_own_cpu_s()}
        cpu = {name: (after[name] - before[name]) / took for name in after}
        return Figures(outcome=outcome, ended=ended - already, cpu=cpu)


def find_missed_bounds(figures: Figures, *, p99_ms: float, needs_measurements: bool) -> list[str]:
    """Return the bounds that were missed, in words with numbers."""
    missed = []
    p99 = compute_quantile(figures.outcome.latencies_s, 0.99) * 1e3
    if p99 > p99_ms:
        missed.append(f"p99 is {p99:.1f} ms; it must be {p99_ms:g} ms or less")
    if figures.errors:
        missed.append(
            f"{figures.errors} requests were not answered with 200: "
            f"{dict(figures.outcome.statuses)}"
        )
    bad = {name: count for name, count in figures.ended.items() if not name.endswith("succeeded")}
    if bad:
        missed.append(f"measurements ended otherwise than succeeded: {bad}")
    if needs_measurements and not figures.ended:
        missed.append("no measurement ended meanwhile, so none is known to have run")
    return missed


def compute_quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile by nearest rank.

    It is the smallest value that a share ``share`` of all does not exceed.
    """
    return (
        ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1))]
        if ordered
        else float("inf")
    )


def build_table(figures: Figures, options: argparse.Namespace) -> Table:
    """Build the table of the results."""
    outcome = figures.outcome
    title = (
        f"{options.rate:g} fits/s for {options.seconds:g} s, {options.replicas} replicas, "
        f"{len(options.devices)} workers"
    )
    table = Table("what", "value", title=title)
    table.add_row("answered with 200", f"{outcome.statuses[OK]:,}")
    table.add_row("errors", str(figures.errors))
    for share in QUANTILES:
        table.add_row(
            f"p{share * 100:g} from when it was due",
            f"{compute_quantile(outcome.latencies_s, share) * 1e3:.1f} ms",
        )
    table.add_row("longest", f"{compute_quantile(outcome.latencies_s, 1.0) * 1e3:.1f} ms")
    table.add_row("sent late, every connection busy", f"{outcome.sent_late:,}")
    table.add_row("the last was due and sent after", f"{outcome.elapsed_s:.2f} s")
    for name, count in sorted(figures.ended.items()):
        table.add_row(f"measurements: {name}", str(count))
    for name, processors in figures.cpu.items():
        table.add_row(f"processors used: {name}", f"{processors:.2f}")
    return table


async def _offer(
    fleet: Fleet, bodies: Iterator[bytes], rate: float, seconds: float, connections: int
) -> LoadOutcome:
    return await offer(fleet.replicas, bodies, rate=rate, seconds=seconds, connections=connections)


def _read_own_cpu_s() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument(
        "--rate",
        type=_make_bounded_parser(MAX_RATE),
        default=500.0,
        help="requests a second (default 500)",
    )
    parser.add_argument(
        "--seconds",
        type=_make_bounded_parser(MAX_SECONDS),
        default=60.0,
        help="how long (default 60)",
    )
    parser.add_argument(
        "--warm-up-s",
        type=_make_bounded_parser(MAX_SECONDS),
        default=10.0,
        help="asked before that (default 10)",
    )
    parser.add_argument(
        "--p99-ms", type=_make_bounded_parser(60_000.0), default=50.0, help="the bound (default 50)"
    )
    parser.add_argument(
        "--connections", type=int, default=64, help="kept alive, over all replicas (default 64)"
    )
    parser.add_argument("--replicas", type=int, default=2, help="processes of the API (default 2)")
    parser.add_argument(
        "--devices",
        nargs="*",
        choices=DEVICES,
        default=list(DEVICES),
        help="a worker for each (default trace cpu; none)",
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", nargs="*", default=[], help="environment of every process"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the mix of questions (default 1)")
    return parser


def _make_bounded_parser(limit: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not 0 < value <= limit:
            message = f"{text} is not above 0 and at most {limit:g}"
            raise argparse.ArgumentTypeError(message)
        return value

    return parse


if __name__ == "__main__":
    sys.exit(main())
