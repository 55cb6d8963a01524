"""Two versions on one database: ``python -m tests.chaos.upgrade WHEEL``.

The wheel of an older version is installed into a folder, without what it needs, which is that of
this one. Its API and its worker run beside this version's on this version's schema, as during an
upgrade, and meet a storm: every job must end right, and once. Then both APIs answer the same
questions, and the older version must refuse to migrate.

A wheel of a commit: ``git archive COMMIT | tar -x -C OLD`` and ``pip wheel --no-deps OLD``.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from service.db.session import make_engine, make_sessions
from service.runtime.variables import parse_psycopg_url
from tests.chaos import storm
from tests.chaos.invariants import count_executions, count_logged, find_violations
from tests.chaos.rig import Rig, run_rig

SEED = 20_261_129
LEASE_S = 3.0
_ALIKE = 20
"""Requests on new connections, which either API takes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both versions, and return 1 where something was lost or refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.upgrade", description=__doc__)
    parser.add_argument("wheel", type=Path, help="wheel of the older version")
    parser.add_argument("--jobs", type=int, default=60, help="jobs of the storm")
    parser.add_argument(
        "--between-faults-s",
        type=float,
        default=storm.BETWEEN_FAULTS_S,
        help="seconds between faults in the mean; on a busy machine more than what a process needs "
        "to start, else hardly any job is over between two of them (default %(default)g)",
    )
    options = parser.parse_args(arguments)
    pace = storm.Pace(between_faults_s=options.between_faults_s)
    settings = {**storm.SETTINGS, "HEADROOM_LEASE_S": str(LEASE_S), "HEADROOM_ACCESS": "open"}
    with tempfile.TemporaryDirectory(prefix="headroom-upgrade-") as folder:
        former, root = Path(folder, "former"), Path(folder, "data")
        root.mkdir()
        install(options.wheel, former)
        with run_rig(root, settings=settings, num_workers=2, former=former) as rig:
            broken = [*_ask_both(rig), *_storm(rig, options.jobs, pace), *_migrate(rig, former)]
    for sentence in broken:
        print(f"broken: {sentence}")  # noqa: T201 - a program
    print("both versions did right" if not broken else f"{len(broken)} broken")  # noqa: T201
    return 1 if broken else 0


def install(wheel: Path, folder: Path) -> None:
    """Install a wheel alone into a folder."""
    options = ("--quiet", "--no-deps", "--no-compile", "--no-index", "--target", str(folder))
    subprocess.run((sys.executable, "-m", "pip", "install", *options, str(wheel)), check=True)


def _ask_both(rig: Rig) -> list[str]:
    """Return what either API refuses, asked on connections of their own."""
    cluster = {"name": "lab", "pools": [{"name": "a", "gpu": "T4", "num_nodes": 1}]}
    cluster["pools"][0]["gpus_per_node"] = 4  # type: ignore[index]  # a literal above
    stored = httpx.post(f"{rig.url}/v1/clusters", json=cluster)
    broken = [] if stored.is_success else [f"POST /v1/clusters: {stored.text}"]
    fit = {"model": "gpt2", "gpu": "T4", "workload": {"task": "train", "sequence_length": 64}}
    bytes_of = Counter[int]()
    for _ in range(_ALIKE):
        answers = [
            httpx.get(f"{rig.url}/readyz"),
            httpx.get(f"{rig.url}/v1/clusters/lab"),
            httpx.get(f"{rig.url}/v1/measurements"),
            httpx.post(f"{rig.url}/v1/fit", json=fit, timeout=60),
        ]
        broken += [
            f"{answer.request.url}: {answer.status_code} {answer.text[:200]}"
            for answer in answers
            if not answer.is_success
        ]
        bytes_of[answers[-1].json().get("per_gpu", {}).get("allocated_bytes", -1)] += 1
    print(f"fits by their bytes: {dict(bytes_of)}")  # noqa: T201 - a program
    return broken


def _storm(rig: Rig, num_jobs: int, pace: storm.Pace) -> list[str]:
    engine = make_engine(
        parse_psycopg_url("DATABASE_URL", rig.database_url), application_name="headroom-upgrade"
    )
    sessions = make_sessions(engine)
    result = storm.run_storm(
        rig,
        sessions,
        seed=SEED,
        num_jobs=num_jobs,
        lease_s=LEASE_S,
        show=lambda *_: None,
        pace=pace,
    )
    broken = [*result.violations, *find_violations(sessions, result.jobs)]
    print(  # noqa: T201 - a program
        f"{num_jobs} jobs under {len(result.strikes)} faults, {count_executions(sessions)} "
        f"attempts, {dict(count_logged(rig.logs))}; ended by "
        f"{dict(_count_ends(rig))}"
    )
    engine.dispose()
    return broken


def _count_ends(rig: Rig) -> Counter[str]:
    """Count what each worker ended, by its log."""
    return Counter(
        {
            worker.name: worker.child.log_file.read_text(errors="replace").count('"attempt.ended"')
            for worker in rig.workers
        }
    )


def _migrate(rig: Rig, former: Path) -> list[str]:
    """Return what is wrong with how the older version refuses a later schema."""
    environment = {**os.environ, "PYTHONPATH": str(former), "DATABASE_URL": rig.database_url}
    ended = subprocess.run(
        (sys.executable, "-m", "headroom", "migrate"),
        env=environment,
        cwd=former,
        capture_output=True,
        text=True,
        check=False,
    )
    words = (ended.stdout + ended.stderr).strip()
    print(f"the older version's migrate ended with {ended.returncode}: {words[:200]}")  # noqa: T201
    if ended.returncode == 0 and "up to date" in words:
        return []
    return [] if "a later version has migrated it" in words else [f"migrate: {words}"]


if __name__ == "__main__":
    sys.exit(main())
