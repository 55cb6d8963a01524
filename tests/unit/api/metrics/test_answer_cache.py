"""What /metrics shows of kept answers, of one process and of several."""

import os
import subprocess
import sys
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

from service.api.metrics.registry import Metrics
from service.usecases.operations.metrics_snapshot import NO_READING


def test_kept_answers_are_told() -> None:
    """How many fits they answered, and how many bytes they are."""
    metrics = Metrics()
    metrics.count_cached_fit()
    metrics.set_answer_cache_bytes(5000)
    lines = metrics.render(NO_READING).decode().splitlines()

    assert "headroom_cached_fits_total 1.0" in lines
    assert "headroom_answer_cache_bytes 5000.0" in lines


def test_a_process_that_has_ended_keeps_nothing(tmp_path: Path) -> None:
    """What it said of itself goes, and what others say stays."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()
    dead, alive = (tmp_path / f"gauge_livesum_{number}.db" for number in (ended.pid, os.getpid()))
    for file in (dead, alive):
        MmapedDict(str(file)).close()  # type: ignore[no-untyped-call]  # half annotated
    Metrics(shared_dir=tmp_path).render(NO_READING)

    assert not dead.exists()
    assert alive.exists()
