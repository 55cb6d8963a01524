"""The package as it is installed: one name of ours, and nobody's else is taken."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.release.native.staging import make_module_check, rename, rename_project, stage

ROOT = Path(__file__).resolve().parents[3]
SERVER_ONLY = ("alembic", "litestar", "mcp", "psycopg", "redis", "rq", "sqlalchemy", "structlog")
# What the package alone does not bring cannot be imported, whatever this environment has.
PROGRAM = """
import importlib.abc, importlib.util, json, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import headroom
from headroom import AsyncHeadroom, Headroom
from headroom.models import TrainRequest
everything = [getattr(headroom, name) for name in headroom.__all__]
from headroom.__main__ import main
question = ["gpt2", "--gpu", "L4", "--task", "train", "--sequence-length", "128"]
codes = [main(["fit", *question]), main(["plan", "gpt2", "--gpus", *question[2:]])]
codes += [main(["models", "show", "gpt2", "--offline"]), main(["serve"])]
rooms = {"service", "worker", "migrations"}
others = sorted({name.partition(".")[0] for name in sys.modules} & rooms)
taken = [name for name in rooms if importlib.util.find_spec(name)]
print(json.dumps([codes, others, taken, len(everything)]))
"""


@pytest.fixture(scope="module", name="is_module")
def check_modules() -> Callable[[str], bool]:
    """Return whether a name is a module of this repository."""
    return make_module_check(ROOT)


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("from service.base.errors import X", "from headroom.base.errors import X"),
        ("from service import estimator", "from headroom import estimator"),
        ("    from worker.probes import x", "    from headroom.worker.probes import x"),
        ('import_module("service.cli.remote")', 'import_module("headroom.cli.remote")'),
        ('f"service.cli.offline.{question}"', 'f"headroom.cli.offline.{question}"'),
        ('"service.cli.commands.serve:app"', '"headroom.cli.commands.serve:app"'),
        ('[x, "-m", "worker", y]', '[x, "-m", "headroom.worker", y]'),
        ('files("migrations")', 'files("headroom.migrations")'),
        ('{"service.name": "api"}', '{"service.name": "api"}'),
        ('_log.info("worker.died")', '_log.info("worker.died")'),
        ('sa.Column("worker", sa.Text())', 'sa.Column("worker", sa.Text())'),
        ("a service.base of words", "a service.base of words"),
    ],
)
def test_names_of_modules_are_renamed_and_no_others(
    is_module: Callable[[str], bool], text: str, renamed: str
) -> None:
    """Imports, strings that name a module, and programs that are started."""
    assert rename(text, is_module) == renamed


def test_the_staged_project_has_one_package() -> None:
    """Its metadata is the repository's, its programs start below the one name."""
    project = rename_project((ROOT / "pyproject.toml").read_text())

    assert 'include = ["headroom*"]' in project
    assert 'headroom = "headroom.__main__:main"' in project
    assert "gpu-headroom" in project
    assert "build-backend" not in project
    assert "service.__main__" not in project


def test_what_is_installed_runs_without_a_server(tmp_path: Path) -> None:
    """The front, the command line offline, and in words what a server needs beside it."""
    stage(ROOT, tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "LICENSE",
        "README.md",
        "headroom",
        "pyproject.toml",
    ]
    ran = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, ",".join(SERVER_ONLY)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ran.returncode == 0, ran.stderr
    last = ran.stdout.splitlines()[-1]
    assert last.startswith("[[0, 0, 0, 2], [], ")
    assert "pip install 'gpu-headroom[server]'" in ran.stderr
