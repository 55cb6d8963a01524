"""Reports of nodes: DCGM's tables and what ranks left."""

import json
from typing import Any

import pytest

from service.formats.measured.detect import parse
from service.formats.measured.reading import Format, MeasuredFormatError, Parsed, Quantity

DCGMI = """\
Successfully retrieved statistics for job: 4711.
+------------------------------------------------------------------------------+
| GPU ID: 2                                                                    |
+====================================+=========================================+
|-----  Execution Stats  ------------+-----------------------------------------|
| Start Time                     *   | Wed Oct 25 11:51:37 2023                |
+-----  Performance Stats  ----------+-----------------------------------------+
| Max GPU Memory Used (bytes)    *   | 473956352                               |
| SM Clock (MHz)                     | Avg: 1410, Max: 1410, Min: 1410         |
+------------------------------------------------------------------------------+
| GPU ID: 3                                                                    |
| Max GPU Memory Used (bytes)        | 0                                       |
"""
"""As DCGM 3 prints it (github.com/NVIDIA/DCGM, issues), cut to what is read."""


def a_rank(rank: int, world_size: int, peak_bytes: int = 1000, **facts: object) -> str:
    """Return what a rank leaves."""
    stats = {"allocated_bytes.all.peak": peak_bytes, "reserved_bytes.all.peak": 2 * peak_bytes}
    document: dict[str, Any] = {
        "rank": rank,
        "world_size": world_size,
        "gpu": "NVIDIA A100-SXM4-80GB",
        "torch": "2.13.0",
        "transformers": "5.23.0",
        "peft": None,
        "memory_stats": stats,
    }
    return f"[rank]\n{json.dumps(document | facts)}\n"


def report(*parts: str) -> Parsed:
    """Read a report of these parts."""
    head = "headroom-node 1\njob 4711\nhost n1\nhost_peak_bytes 4096\n"
    return parse((head + "".join(parts)).encode())


def test_ranks_tell_what_they_had() -> None:
    """With the releases that they ran, and how many there were."""
    parsed = report(a_rank(0, 2, 1000), a_rank(1, 2, 3000))

    assert parsed.format is Format.NODE
    assert {
        (reading.place.rank, reading.quantity, reading.value) for reading in parsed.readings
    } == {
        ("0", Quantity.ALLOCATED, 1000),
        ("0", Quantity.RESERVED, 2000),
        ("1", Quantity.ALLOCATED, 3000),
        ("1", Quantity.RESERVED, 6000),
    }
    assert {reading.job_gpus for reading in parsed.readings} == {2}
    assert {(reading.place.job, reading.place.host) for reading in parsed.readings} == {
        ("4711", "n1")
    }
    assert parsed.environment == {"torch": "2.13.0", "transformers": "5.23.0"}
    assert parsed.notes == ("its processes had 4,096 bytes of host memory at the most there",)


def test_some_ranks_do_not_speak_for_all() -> None:
    """The neediest may be on another node."""
    parsed = report(a_rank(0, 4), a_rank(1, 4))

    assert parsed.readings == ()
    assert "2 of 4 ranks" in parsed.left_out[0].reason


def test_dcgm_tells_the_least_that_a_gpu_had() -> None:
    """It looked now and then; a GPU without a process tells nothing."""
    [reading] = report(f"[dcgmi]\n{DCGMI}").readings

    assert (reading.quantity, reading.value, reading.high) == (
        Quantity.DEVICE_TOTAL_USED,
        473956352,
        None,
    )
    assert reading.place.gpu == "2"
    assert reading.sampled


def a_gpu(**facts: object) -> str:
    """Return what a collector writes of a pod's GPU."""
    document = {
        "gpu": "3",
        "uuid": "GPU-1",
        "name": "NVIDIA A100-SXM4-80GB",
        "driver": "570.86.15",
        "peak_bytes": 4096,
        "looks": 12,
        "since": "2026-01-01T10:00:00+00:00",
        "until": "2026-01-01T10:02:00+00:00",
    }
    return f"[gpu]\n{json.dumps(document | facts)}\n"


def test_a_collector_tells_the_least_that_a_pod_had() -> None:
    """With how often it looked, and the driver."""
    parsed = report(a_gpu(), a_gpu(uuid="GPU-2", peak_bytes=8192))

    assert [(each.place.gpu_uuid, each.value, each.high) for each in parsed.readings] == [
        ("GPU-1", 4096, None),
        ("GPU-2", 8192, None),
    ]
    reading = parsed.readings[0]
    assert (reading.num_samples, reading.sampled, reading.place.host) == (12, True, "n1")
    assert (reading.since, reading.until) == (
        "2026-01-01T10:00:00+00:00",
        "2026-01-01T10:02:00+00:00",
    )
    assert parsed.environment == {"driver": "570.86.15"}


def test_a_job_that_ran_out_of_memory_is_known() -> None:
    """PyTorch counts it."""
    stats = {"allocated_bytes.all.peak": 1, "num_ooms": 1}

    assert report(a_rank(0, 1, memory_stats=stats)).out_of_memory


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("headroom-node 2\n", "headroom-node 1"),
        ("headroom-node 1\njob\n", "line 2: expected a line such as"),
        ("headroom-node 1\njob 1\n", "has no reading"),
        ("headroom-node 1\n[rank]\n[]\n", "no JSON object"),
        ("headroom-node 1\n" + a_gpu(peak_bytes="1"), "peak_bytes of a GPU is"),
        ("headroom-node 1\n" + a_gpu(looks=True), "looks of a GPU is True"),
        ("headroom-node 1\n" + a_rank(0, 0), "world_size is 0"),
        ("headroom-node 1\n" + a_rank(0, 1, memory_stats=None), "no memory_stats"),
    ],
)
def test_what_is_no_report_is_refused(text: str, message: str) -> None:
    """With what was expected."""
    with pytest.raises(MeasuredFormatError, match=message):
        parse(text.encode())
