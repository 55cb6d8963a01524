"""Chaos test: ``make chaos``.

It kills everything at random and checks that nothing is lost, twice or wrong; then it times each
recovery.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from service.db.session import make_engine, make_sessions
from service.runtime.variables import parse_psycopg_url
from tests.chaos import latencies, storm
from tests.chaos.bench import Bench
from tests.chaos.client import make_client
from tests.chaos.faults import FaultEvent
from tests.chaos.hosts import run_hosts
from tests.chaos.invariants import count_executions, count_logged, find_violations
from tests.chaos.latencies import MAXIMUM, Timing
from tests.chaos.rig import run_rig

SEED = 20_261_121
NUM_JOBS = 200
LEASE_S = 3.0
BROKEN = 1
PIPED_WIDTH = 128


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the storm and time the recoveries.

    The status is 0 when every invariant and every bound held.
    """
    options = _build_parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    broken: list[str] = []
    if options.only != "latencies":
        broken += _run_storm(console, options)
    if options.only != "storm":
        broken += _time_recoveries(console, repeat=options.repeat, num_workers=options.workers)
    for sentence in broken:
        console.print(f"[bold red]broken[/] {sentence}", soft_wrap=True)
    console.print("every invariant and every bound held" if not broken else f"{len(broken)} broken")
    return BROKEN if broken else 0


def _run_storm(console: Console, options: argparse.Namespace) -> list[str]:
    settings = {**storm.SETTINGS, "HEADROOM_LEASE_S": str(LEASE_S)}
    seed, num_jobs = options.seed, options.jobs
    pace = storm.Pace(
        between_faults_s=options.between_faults_s,
        longest_work_s=options.longest_work_s,
        longest_pause_s=options.longest_pause_s,
        longest_s=60 * options.minutes,
    )
    run = partial(run_hosts, num_hosts=options.hosts) if options.hosts else partial(run_rig)
    with (
        tempfile.TemporaryDirectory(prefix="headroom-chaos-") as root,
        run(Path(root), settings=settings, num_workers=options.workers) as rig,
        _make_progress_bar(console) as bar,
    ):
        engine = make_engine(
            parse_psycopg_url("DATABASE_URL", rig.database_url), application_name="headroom-chaos"
        )
        sessions = make_sessions(engine)
        task = bar.add_task(f"storm, seed {seed}", total=num_jobs, last="")

        def show(done: int, total: int, strikes: Sequence[FaultEvent]) -> None:
            last = (
                f"{len(strikes)} faults, the last: {strikes[-1].what} ({strikes[-1].part})"
                if strikes
                else ""
            )
            bar.update(task, completed=done, total=total, last=last)

        result = storm.run_storm(
            rig, sessions, seed=seed, num_jobs=num_jobs, lease_s=LEASE_S, show=show, pace=pace
        )
        broken = [*result.violations, *find_violations(sessions, result.jobs)]
        bar.stop()
        console.print(
            _build_summary(
                result,
                seed=seed,
                executions=count_executions(sessions),
                logged=count_logged(rig.logs),
            ),
        )
        engine.dispose()
    return broken


def _time_recoveries(console: Console, *, repeat: int, num_workers: int) -> list[str]:
    with (
        tempfile.TemporaryDirectory(prefix="headroom-chaos-") as root,
        run_rig(
            Path(root), settings=latencies.SETTINGS, num_workers=num_workers, num_apis=1
        ) as rig,
        make_client(rig.url) as http,
        _make_progress_bar(console) as bar,
    ):
        engine = make_engine(
            parse_psycopg_url("DATABASE_URL", rig.database_url), application_name="headroom-chaos"
        )
        bench = Bench(
            rig=rig, http=http, sessions=make_sessions(engine), dir=Path(root), repeat=repeat
        )
        task = bar.add_task("stop-watch", total=len(latencies.SCENARIOS), last="")
        timings: list[Timing] = []
        for scenario in latencies.SCENARIOS:
            bar.update(task, last=str(scenario.__doc__))
            timings += scenario(bench)
            bar.advance(task)
        bar.stop()
        console.print(_build_times_table(timings))
        engine.dispose()
    return [timing.sentence() for timing in timings if not timing.holds()]


def _build_times_table(timings: Sequence[Timing]) -> Table:
    table = Table(title=f"Seconds; lease {latencies.LEASE_S:g} s, everything else as it is shipped")
    table.add_column("what", no_wrap=True)
    for heading in ("times", "p50", "p95", "p99", "max", "bound"):
        table.add_column(heading, justify="right", no_wrap=True)
    for timing in timings:
        numbers = (f"{timing.at(percentile):.3f}" for percentile in (50, 95, 99, 100))
        bound = (
            ""
            if timing.bound_s is None
            else f"{'max' if timing.percentile == MAXIMUM else f'p{timing.percentile}'} ≤ {timing.bound_s:g}"  # noqa: E501
        )
        table.add_row(
            timing.what,
            str(len(timing.seconds)),
            *numbers,
            bound if timing.holds() else f"[bold red]{bound}[/]",
        )
    return table


def _build_summary(
    result: storm.Storm, *, seed: int, executions: int, logged: Counter[str]
) -> Table:
    table = Table(
        "what",
        "how often",
        title=f"Storm, seed {seed}: {len(result.jobs)} jobs, {len(result.strikes)} faults",
    )
    for what, number in sorted(Counter(fault.what for fault in result.strikes).items()):
        table.add_row(what, str(number))
    table.add_section()
    table.add_row("attempts that began", str(executions))
    table.add_row("requests repeated by clients", str(sum(job.tries - 1 for job in result.jobs)))
    table.add_row("jobs submitted again with their key", str(len(result.roles.repeated)))
    table.add_row("jobs watched through it all", str(sum(bool(job.seen) for job in result.jobs)))
    table.add_row("jobs cancelled", str(sum(job.cancelled is not None for job in result.jobs)))
    for event, number in sorted(logged.items()):
        table.add_row(f"logged {event}", str(number))
    return table


def _make_progress_bar(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, TextColumn("{task.fields[last]}"), console=console, transient=True)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--seed",
        type=int,
        default=SEED,
        help="of the dice that choose faults (default %(default)s)",
    )
    parser.add_argument(
        "--jobs", type=int, default=NUM_JOBS, help="jobs of the storm (default %(default)s)"
    )
    parser.add_argument(
        "--workers", type=int, default=3, help="workers, of each host (default %(default)s)"
    )
    parser.add_argument(
        "--hosts",
        type=int,
        default=0,
        help="run the storm on so many hosts, network namespaces, with faults of the network: "
        "needs root (default: that of this process)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=storm.LONGEST_S / 60,
        help="after which the storm ends, whatever is left (default %(default)g)",
    )
    for name, seconds, text in (
        ("between-faults-s", storm.BETWEEN_FAULTS_S, "seconds between faults in the mean"),
        ("longest-work-s", storm.LONGEST_WORK_S, "most seconds that a job works"),
        ("longest-pause-s", storm.LONGEST_PAUSE_S, "most seconds that a client pauses"),
    ):
        parser.add_argument(
            f"--{name}", type=float, default=seconds, help=f"{text} (default %(default)g)"
        )
    parser.add_argument(
        "--repeat",
        type=int,
        default=5,
        help="how often each recovery is timed (default %(default)s)",
    )
    parser.add_argument("--only", choices=("storm", "latencies"), help="run one part alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
