"""What is kept of pods, look by look."""

from datetime import UTC, datetime, timedelta

import msgspec

from service.cli.nodes.peaks import Record, look
from service.formats.measured.prometheus import parse_exposition
from service.formats.measured.reading import MIB
from tests.unit.cli.nodes.exporter import write_line, write_page

START = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = timedelta(seconds=90)
IDLE = write_page(write_line(4))


def watch(*pages: str) -> Record:
    """Look at one page after the other, half a minute apart."""
    record = Record()
    for number, page in enumerate(pages):
        at = START + number * timedelta(seconds=30)
        record = look(record, parse_exposition(page), at, PATIENCE)
    return record


def test_a_pod_that_ended_keeps_its_highest_peaks() -> None:
    """Of each of its GPUs, since it had settled."""
    stale = write_page(write_line(9999, "ml/tune"))
    record = watch(
        stale,
        stale,
        write_page(write_line(10, "ml/tune"), write_line(700, "ml/tune", gpu=1)),
        write_page(write_line(900, "ml/tune"), write_line(20, "ml/tune", gpu=1)),
        write_page(write_line(30, "ml/tune"), write_line(600, "ml/tune", gpu=1)),
        *[IDLE] * 3,
    )

    [pod] = record.ended
    assert record.running == ()
    assert [gpu.peak_bytes for gpu in pod.gpus] == [900 * MIB, 700 * MIB]
    assert (pod.num_looks, pod.host, pod.driver) == (3, "gpu-node-1", "580.126.20")
    assert (pod.since, pod.until) == (START, START + timedelta(seconds=120))


def test_a_pod_that_the_exporter_loses_sight_of_goes_on() -> None:
    """Its labels are missing from a page or two now and then (dcgm-exporter, issue 342)."""
    busy = write_page(write_line(500, "ml/tune"))

    record = watch(busy, IDLE, IDLE, busy, IDLE, busy)

    [pod] = record.running
    assert record.ended == ()
    assert pod.num_looks == 2


def test_what_is_not_a_pods_alone_is_told_of_none() -> None:
    """A GPU that two pods share, once is enough, and a part of one."""
    shared = write_page(write_line(500, "ml/a"), write_line(500, "ml/b"))
    alone = write_page(write_line(500, "ml/a"))
    part = write_page(write_line(500, "ml/c", gpu=1, more='GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",'))

    record = watch(alone, shared, *[alone] * 3, part, *[IDLE] * 4)

    assert record == Record()


def test_a_record_outlives_a_restart() -> None:
    """As it is written to a file and read again."""
    record = watch(
        *[write_page(write_line(1, "ml/a"))] * 3, *[IDLE] * 3, write_page(write_line(1, "ml/b"))
    )

    read = msgspec.json.decode(msgspec.json.encode(record), type=Record)

    assert read == record
    assert (len(read.running), len(read.ended)) == (1, 1)
