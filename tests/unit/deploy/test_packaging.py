"""What is in the wheel and what containers run, as far as it can be told without building or an
index.
"""

import fnmatch
import subprocess
import tomllib
from pathlib import Path

import pytest

from deploy.release.packaging.containers import list_containers, read_image
from deploy.release.packaging.install import MAX_BYTES, Installation
from service.cli.command_table import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
IN_WHEEL = ("service", "worker", "migrations")
NOT_READ = {".py", ".pyi", ".c", ".h"}
"""Code, of which the wheel has C's compiled."""


def test_every_file_that_the_program_reads_is_in_the_wheel() -> None:
    """What git keeps beside Python in our rooms is of a kind that the wheel takes along."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    listed = subprocess.run(
        ["git", "ls-files", *IN_WHEEL],  # noqa: S607 - git
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [Path(line) for line in listed.stdout.splitlines()]
    left_out = [
        path
        for path in files
        if path.suffix not in NOT_READ
        and not any(fnmatch.fnmatch(path.name, one) for one in patterns)
    ]

    assert files
    assert left_out == []


@pytest.mark.parametrize("name", ["migrate", "api", "reconcile", "worker", "tracer", "worker-gpu"])
def test_a_container_runs_a_command_of_ours(name: str) -> None:
    """The entry point and what follows it, as the engine would put them together."""
    container = list_containers({"POSTGRES_PASSWORD": "secret"})[name]

    assert container.argv[0] == "headroom"
    assert container.argv[1] in COMMANDS
    assert (
        container.environment["DATABASE_URL"]
        == "postgresql://headroom:secret@postgres:5432/headroom"
    )
    assert container.environment["HEADROOM_LOG_FORMAT"] == "json"


def test_only_the_api_is_asked_whether_it_is_well() -> None:
    """By a program that its image has."""
    checks = {
        name: made.healthcheck
        for name, made in list_containers({"POSTGRES_PASSWORD": "secret"}).items()
        if made.healthcheck
    }

    assert list(checks) == ["api"]
    assert checks["api"][0] == "python"


def test_the_last_stage_of_an_image_is_read() -> None:
    """Who runs what, behind whatever was built before."""
    api = read_image(ROOT / "deploy" / "images" / "api.Dockerfile")

    assert (api.user, api.entrypoint, api.extras) == (
        "10001:10001",
        ("headroom",),
        "[server,mcp,oidc,telemetry]",
    )
    assert api.command == ("serve", "--host", "0.0.0.0")  # noqa: S104 - a container's own address
    assert api.environment["PYTHONUNBUFFERED"] == "1"


def test_too_much_is_told_in_numbers() -> None:
    """A package too many, a byte too many, and what an API has no use for."""
    lean = Installation(programs=ROOT, packages=("litestar",), num_bytes=MAX_BYTES)
    heavy = Installation(
        programs=ROOT,
        packages=("torch", *(f"p{number}" for number in range(70))),
        num_bytes=MAX_BYTES + 10**6,
    )

    assert lean.list_excesses() == []
    first, second, third = heavy.list_excesses()
    assert (first, third) == ("torch is installed", "201 MB are installed, 200 may be")
    assert second.startswith("71 packages are installed, 65 may be")
