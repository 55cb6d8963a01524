"""The command of the controller: what it refuses, and how it ends."""

import os
import signal
import threading
from pathlib import Path

import pytest
import yaml

from service.__main__ import main
from tests.waiting import eventually


def write_config(folder: Path) -> str:
    """Write a kubeconfig of a cluster that is not there."""
    config = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--kubeconfig", "nowhere"), "cannot read the kubeconfig nowhere"),
        (("--kubeconfig", "config", "--server", "headroom:8000"), "http://"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    why: str,
) -> None:
    """In one line."""
    write_config(tmp_path)
    monkeypatch.chdir(tmp_path)

    code = main(["kueue", *arguments])

    assert code == 2
    assert why in capsys.readouterr().err


def test_it_waits_for_a_cluster_that_is_away_and_ends_on_a_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that restarts ends no controller; SIGTERM does, in order."""
    monkeypatch.setenv("HEADROOM_LOG_FORMAT", "json")
    lines: list[str] = []

    def stop_when_it_waits() -> None:
        def waits() -> bool:
            lines.append(capsys.readouterr().err)
            return "kueue.lease_failed" in "".join(lines)

        eventually(waits)
        os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=stop_when_it_waits)
    watcher.start()
    code = main(["kueue", "--kubeconfig", write_config(tmp_path)])
    watcher.join()

    assert code == 0
    assert '"gate": "change"' in "".join(lines)
