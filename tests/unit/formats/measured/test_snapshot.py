"""PyTorch's own books: snapshots walked back to their peaks, and statistics."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.formats.measured.detect import parse
from service.formats.measured.reading import Format, MeasuredFormatError, Quantity
from service.formats.measured.snapshot import ROUNDING_BYTES
from tests.unit.formats.measured.reading_samples import read, values

MIB = 1 << 20


def snapshot(live: list[int], trace: list[tuple[str, int]], *, reserved: int) -> dict[str, Any]:
    """Return a snapshot of one device: what lives at its end, and what was done before."""
    blocks = [{"size": size, "requested_size": size, "state": "active_allocated"} for size in live]
    return {
        "segments": [
            {
                "device": 0,
                "total_size": reserved,
                "blocks": [*blocks, {"size": 1, "state": "inactive"}],
            },
        ],
        "device_traces": [[{"action": action, "size": size, "addr": 7} for action, size in trace]],
        "allocator_settings": {"expandable_segments": False},
    }


SMALL = snapshot(
    [1024],
    [
        ("segment_alloc", 20 * MIB),
        ("alloc", 1000),
        ("alloc", 4 * MIB),
        ("segment_alloc", 20 * MIB),
        ("free_requested", 4 * MIB),
        ("free_completed", 4 * MIB),
        ("segment_free", 20 * MIB),
    ],
    reserved=20 * MIB,
)


@pytest.mark.parametrize(
    "body", [*(pickle.dumps(SMALL, protocol=n) for n in (2, 3, 4, 5)), json.dumps(SMALL).encode()]
)
def test_a_snapshot_has_its_peaks(body: bytes) -> None:
    """Going back from the end, what was freed was there before; requests count as the blocks that
    they get.
    """
    found = parse(body)

    assert found.format is Format.SNAPSHOT
    assert values(found) == {Quantity.ALLOCATED: 1024 + 4 * MIB, Quantity.RESERVED: 40 * MIB}
    assert found.environment == {"allocator": "default"}
    assert found.notes == ()


def test_a_window_says_what_it_misses() -> None:
    """A ring buffer that begins in the middle cannot show a peak before it."""
    found = parse(json.dumps(snapshot([512, 512], [("alloc", 512)], reserved=2 * MIB)).encode())

    assert values(found)[Quantity.ALLOCATED] == 1024
    assert "begins with 512 bytes allocated" in found.notes[0]


def test_out_of_memory_is_seen() -> None:
    """The trace has the request that failed."""
    assert parse(
        json.dumps(snapshot([512], [("alloc", 512), ("oom", 8)], reserved=2 * MIB)).encode()
    ).out_of_memory


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5000)), min_size=1, max_size=60))
def test_the_peak_is_that_of_the_forward_walk(script: list[tuple[bool, int]]) -> None:
    """Whatever was allocated and freed, walking back finds the same peak as having been there."""
    live: list[int] = []
    trace: list[tuple[str, int]] = []
    held = peak = 0
    for frees, size in script:
        if frees and live:
            gone = live.pop()
            trace.append(("free_requested", gone))
            held -= -(-gone // ROUNDING_BYTES) * ROUNDING_BYTES
        else:
            live.append(size)
            trace.append(("alloc", size))
            held += -(-size // ROUNDING_BYTES) * ROUNDING_BYTES
        peak = max(peak, held)
    blocks = [-(-size // ROUNDING_BYTES) * ROUNDING_BYTES for size in live]
    found = parse(json.dumps(snapshot(blocks, trace, reserved=1 << 30)).encode())

    assert values(found)[Quantity.ALLOCATED] == peak


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"segments": 1, "device_traces": []}, 'has no list "segments"'),
        (
            {"segments": [{"total_size": -1, "blocks": []}], "device_traces": []},
            "total_size of segment 0 is -1; expected bytes",
        ),
        (
            {"segments": [{"total_size": 1, "blocks": [7]}], "device_traces": []},
            "a block of segment 0 is a int",
        ),
        (
            {"segments": [], "device_traces": [[{"action": "alloc"}]]},
            "size of entry 0 of device 0 is None",
        ),
        ({"segments": [], "device_traces": [7]}, "device_traces[0] is a int"),
    ],
)
def test_a_wrong_part_is_named(document: object, says: str) -> None:
    """The error says which part of the document it is about."""
    with pytest.raises(MeasuredFormatError) as caught:
        parse(json.dumps(document).encode())

    assert says in caught.value.message


def test_the_same_blocks_cannot_stand_for_many() -> None:
    """A pickle may name one list a thousand times; nobody walks that."""
    segment = {"device": 0, "total_size": 1, "blocks": [{"size": 1, "state": "inactive"}] * 2000}
    body = pickle.dumps({"segments": [segment] * 2000, "device_traces": []}, protocol=4)

    with pytest.raises(MeasuredFormatError, match=r"4,000,000 blocks in [\d,]+ bytes"):
        parse(body)


@pytest.mark.parametrize(
    ("num_traces", "says"),
    [
        (100, r"100,000 entries of traces in [\d,]+ bytes"),
        (10_000, "device_traces of 10,000 GPUs; .* at most 128"),
    ],
)
def test_the_same_trace_cannot_stand_for_many(num_traces: int, says: str) -> None:
    """Neither for more GPUs than a process has, nor for more entries than its file has room for."""
    trace = [{"action": "alloc", "size": 10}] * 1000
    body = pickle.dumps({"segments": [], "device_traces": [trace] * num_traces}, protocol=4)

    with pytest.raises(MeasuredFormatError, match=says):
        parse(body)


def test_a_device_beyond_all_is_refused() -> None:
    """Nobody counts to a number that a file names."""
    body = json.dumps(
        {"segments": [{"device": 1 << 60, "total_size": 1, "blocks": []}], "device_traces": []}
    ).encode()

    with pytest.raises(MeasuredFormatError, match="GPUs 0 to 127"):
        parse(body, declared=Format.SNAPSHOT)


def test_the_smallest_entries_are_few_enough() -> None:
    """A pickle of nothing but entries that share all their words is no hostile one."""
    trace = [{"action": "alloc", "size": 1} for _ in range(5000)]

    assert values(parse(pickle.dumps({"segments": [], "device_traces": [trace]}, protocol=4)))


def test_statistics_have_both_peaks() -> None:
    """What memory_stats() says is exact, for one device or for several."""
    stats = {"allocated_bytes.all.peak": 5, "reserved_bytes.all.peak": 2 * MIB, "num_ooms": 0}

    one, two = (
        parse(json.dumps(stats).encode()),
        parse(json.dumps({"0": stats, "1": stats}).encode()),
    )

    assert one.format is Format.MEMORY_STATS
    assert values(one) == {Quantity.ALLOCATED: 5, Quantity.RESERVED: 2 * MIB}
    assert {reading.place.gpu for reading in two.readings} == {"0", "1"}


def test_the_trainers_numbers_add_up_to_a_peak() -> None:
    """What was there, what was added, and by how much the peak exceeded the end."""
    found = read("train_results.json")

    assert values(found) == {Quantity.ALLOCATED: 1109893120 + 3330195456 + 8287144960}
    assert found.format is Format.TRAINER


def test_a_later_stage_of_the_trainer_is_refused() -> None:
    """Without the numbers of the start nothing says where the differences begin."""
    with pytest.raises(MeasuredFormatError, match="before_init_mem_gpu"):
        parse(b'{"train_mem_gpu_peaked_delta": 1, "train_mem_gpu_alloc_delta": 1}')
