"""Probes and recorders learn nothing that they do not need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.runtime.child_environ import select_environ
from service.runtime.line_process import start_process
from service.runtime.process_user import PROBE_USER, ProcessUser

SECRETS = {
    "DATABASE_URL": "postgresql://headroom:secret@db/headroom",
    "REDIS_URL": "redis://:secret@redis",
    "HEADROOM_API_KEY": "hr_secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "HF_TOKEN": "hf_secret",
    "WANDB_API_KEY": "secret",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer secret",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-api-key=secret",
}


def test_secrets_stay_with_the_worker() -> None:
    """What PyTorch, CUDA and Python read goes on, and nothing that opens a door."""
    needed = {
        "PATH": "/usr/bin",
        "CUDA_VISIBLE_DEVICES": "3",
        "LD_LIBRARY_PATH": "/opt/cuda/lib64",
        "NCCL_SOCKET_IFNAME": "eth0",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "PYTHONPATH": "/srv/headroom",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
    }

    assert select_environ(needed | SECRETS) == needed


def test_an_operator_names_what_else_goes_on() -> None:
    """The names that the setting lists are handed on, and only those."""
    environ = {"HEADROOM_PROBE_ENVIRONMENT": "VENDOR_HOME, OTHER", "VENDOR_HOME": "/v", "MORE": "m"}

    assert select_environ(environ) == {"VENDOR_HOME": "/v"}


def test_a_process_that_was_given_no_environment_gets_the_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The service's own recorder, too, runs without the service's secrets."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    program = "import os; print(sorted(os.environ))"

    with start_process([sys.executable, "-c", program], b"") as process:
        assert process.stdout is not None
        names = process.stdout.read().decode()

    assert "PATH" in os.environ
    assert "'PATH'" in names
    assert not [name for name in SECRETS if name in names]


def test_what_a_process_left_in_its_home_is_not_imported_by_the_next(tmp_path: Path) -> None:
    """A package of the worker's name in the home, which earlier probes can write, stays unread."""
    planted = tmp_path / "worker" / "probes"
    planted.mkdir(parents=True)
    for path in (tmp_path / "worker" / "__init__.py", planted / "__init__.py"):
        path.write_text("raise SystemExit('planted')")
    user = ProcessUser(uid=PROBE_USER, groups=(), home=tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", "import worker.probes"],
        cwd=tmp_path,
        env=user.move_home(select_environ(os.environ)),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
