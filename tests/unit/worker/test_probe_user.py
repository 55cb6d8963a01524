"""Probes of a worker that is root run as somebody who is not."""

import fcntl
import os
import sys
import tempfile
from pathlib import Path

import pytest

from service.runtime.deadline import Allowance
from service.runtime.line_process import follow_process, start_process
from service.runtime.process_user import PROBE_USER, ProcessUser
from worker.__main__ import main as start_worker
from worker.probe_user import explain_unusable, list_device_groups, open_probe_user

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
TELL = """id -u; id -G; echo $HOME $TMPDIR; pwd; ls $HOME | grep -q mine || echo fresh; cat
touch $HOME/mine
ls /root >&2 && echo reads root || echo ends"""


@AS_ROOT
def test_a_probe_of_root_is_nobody_with_a_home_of_its_own() -> None:
    """It writes into its home alone, reads what it inherited, and nothing of root's."""
    said: list[str] = []

    def take(line: bytes) -> bool | None:
        said.append(line.decode())
        return True if said[-1].startswith(("ends", "reads")) else None

    with open_probe_user("/bin/true") as user:
        assert user is not None
        for _ in range(2):
            with start_process(["/bin/sh", "-c", TELL], b"inherited\n", user=user) as process:
                follow_process(
                    process,
                    take,
                    allowance=Allowance(deadline_s=60),
                    max_line_bytes=9999,
                    should_stop=lambda: False,
                )
        left = list(user.home.iterdir())

    number, homes = str(PROBE_USER), [Path(said[index]) for index in (3, 10)]
    for home, lines in zip(homes, (said[:7], said[7:]), strict=True):
        assert lines == [number, number, f"{home} {home}", str(home), "fresh", "inherited", "ends"]
        assert home.parent == user.home
    assert homes[0] != homes[1]
    assert left == []
    assert not user.home.exists()


@AS_ROOT
def test_homes_of_killed_workers_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next worker removes them, and none of one that lives."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned, used = (tmp_path / f"headroom-probe-{name}" for name in ("abandoned", "used"))
    for home in (abandoned, used):
        (home / "cache").mkdir(parents=True)
        os.utime(home, (0, 0))
    descriptor = os.open(used, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    with open_probe_user("/bin/true"):
        found = [home.exists() for home in (abandoned, used)]

    os.close(descriptor)
    assert found == [False, True]


def test_a_worker_that_is_refused_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its refusal is all that it says."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    abandoned = tmp_path / "headroom-probe-abandoned"
    abandoned.mkdir()
    os.utime(abandoned, (0, 0))

    status = start_worker(["--device", "cpu"])

    assert status == 2
    assert capsys.readouterr().err.startswith("headroom: DATABASE_URL is not set")
    assert abandoned.exists()


@AS_ROOT
def test_what_a_user_cannot_read_is_said(tmp_path: Path) -> None:
    """Then probes run as root, with a warning, and not at all worse."""
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    tmp_path.chmod(0o700)
    user = ProcessUser(uid=PROBE_USER, groups=(), home=Path("/"))

    assert "Permission denied" in str(explain_unusable(user, str(python)))


def test_groups_of_gpus_are_those_that_others_are_not_let_in_by(tmp_path: Path) -> None:
    """A node that everybody may use needs no group."""
    (tmp_path / "dev").mkdir()
    for name, mode in (("nvidia0", 0o660), ("nvidiactl", 0o666)):
        (tmp_path / "dev" / name).touch()
        (tmp_path / "dev" / name).chmod(mode)
    if os.geteuid() == 0:
        os.chown(tmp_path / "dev" / "nvidia0", 0, 44)
    group = (tmp_path / "dev" / "nvidia0").stat().st_gid

    assert list_device_groups(tmp_path) == (group,)


def test_a_worker_that_is_not_root_has_nothing_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its probes are its own user's, as before."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with open_probe_user() as user:
        assert user is None
