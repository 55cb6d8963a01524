"""Schemathesis over the whole OpenAPI document of a server that runs, in a process of its own."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_CONFIG = Path(__file__).with_name("schemathesis.toml")
PHASES = ("examples", "coverage", "fuzzing", "stateful")
_DEADLINE_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended: whether nothing was found, and all that it said."""

    is_clean: bool
    report: str


def explore(
    address: str, *, key: str | None, seed: int, examples: int, phases: tuple[str, ...] = PHASES
) -> Outcome:
    """Ask every operation with generated data, right and wrong, and check each answer against the
    document.
    """
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        str(_CONFIG),
        "run",
        f"{address}/docs/openapi.json",
    ]
    command += [
        "--checks",
        "all",
        "--phases",
        ",".join(phases),
        "--continue-on-failure",
        "--no-color",
    ]
    command += [
        "--seed",
        str(seed),
        "--max-examples",
        str(examples),
        "--generation-database",
        "none",
    ]
    # Nothing is timed: a machine that is busy with something else is no fault of the API.
    command += [
        "--request-timeout",
        "600",
        "--max-response-time",
        "600",
        "--suppress-health-check",
        "all",
    ]
    if key is not None:
        command += ["--header", f"Authorization: Bearer {key}"]
    # It keeps notes in the directory where it runs.
    with tempfile.TemporaryDirectory() as notes:
        run = subprocess.run(
            command, cwd=notes, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
    return Outcome(is_clean=run.returncode == 0, report=run.stdout + run.stderr)
