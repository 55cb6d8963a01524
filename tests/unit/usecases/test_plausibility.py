"""Readings that no run of their question can have shown."""

import json

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload
from service.formats.measured.detect import parse
from service.formats.measured.observe import Match, observe
from service.formats.measured.reading import Place, Quantity, Reading
from service.jobs.contract import ModelSource
from service.usecases.imports.imports import ImportQuestion, ImportReport, read_import
from service.usecases.imports.plausibility import (
    LowerBounds,
    compute_resident_bytes,
    find_impossible_readings,
)
from service.usecases.questions.fit import FitQuestion, judge_fit
from service.usecases.stored_specs.spec_cache import load_catalogue_model

GPU = resolve_gpu("A100-SXM4-80GB")
WEIGHTS = 2_471_629_056
"""llama-3.2-1b in bf16, its head tied, each tensor rounded up as the allocator does."""
WORKLOAD = TrainWorkload(sequence_length=1024, precision=POLICIES["bf16"])
GIB = 1 << 30


def reading(
    quantity: Quantity, value: int, *, spread: int = 0, sampled: bool = False, gpu: str = "0"
) -> Reading:
    """Return one number with its resolution."""
    place = Place(gpu=gpu)
    return Reading(
        quantity=quantity,
        value=value,
        low=value - spread,
        high=value + spread,
        sampled=sampled,
        place=place,
    )


def told(*readings: Reading, always: int = GIB, peak: int = 0) -> list[str]:
    """Return what stands against some readings of one job."""
    [observed], _left_out = observe(readings, num_gpus=1)
    return list(
        find_impossible_readings(
            observed, GPU.to_device(), bounds=LowerBounds(always=always, peak=peak)
        ),
    )


def imported(allocated: int, reserved: int, **more: int) -> ImportReport:
    """Return what becomes of an allocator's statistics, said to be of a small training."""
    known = load_catalogue_model("llama-3.2-1b")
    assert known is not None
    question = ImportQuestion(
        architecture=known.architecture,
        source=ModelSource(architecture=known.architecture.describe(), name=known.name, revision=1),
        workload=WORKLOAD,
        layout=Layout(),
        gpu=GPU.name,
        match=Match(),
    )
    stats = {"allocated_bytes.all.peak": allocated, "reserved_bytes.all.peak": reserved, **more}
    parsed = parse(json.dumps(stats).encode())
    return read_import(parsed, [question], environment={}, plans=PlanCache(), find_corrections=None)


@pytest.mark.parametrize(
    ("allocated", "reserved", "says"),
    [
        (2_000_000_000_000, 2_000_000_000_000, "are more than A100-SXM4-80GB has: "),
        (
            512,
            512,
            (
                f"512 allocated bytes are fewer than the {WEIGHTS:,} bytes that each GPU of such a "
                "job holds"
            ),
        ),
        (
            4 * GIB,
            5 * GIB,
            "of weights, gradients and optimizer states that each GPU of such a job holds at once",
        ),
        (
            12 * GIB,
            3 * GIB,
            f"{3 * GIB:,} reserved bytes are fewer than {12 * GIB:,} allocated bytes",
        ),
    ],
)
def test_an_import_that_cannot_be_is_refused(allocated: int, reserved: int, says: str) -> None:
    """Its item says why, in numbers."""
    [item] = imported(allocated, reserved).items

    assert says in " ".join(item.problems)


def test_an_import_that_can_be_is_taken() -> None:
    """So is one of a job that ended before its weights were there, since it says so."""
    assert imported(15_000_000_000, 17_000_000_000).items[0].problems == ()
    assert imported(512, 2 << 20, num_ooms=1).items[0].problems == ()


def test_resolution_is_in_favour_of_the_file() -> None:
    """What a coarse counter shows may be as low, or as high, as it rounds."""
    capacity = GPU.to_device().capacity_bytes

    assert told(reading(Quantity.DEVICE, capacity + 500, spread=500)) == []
    assert told(reading(Quantity.DEVICE, capacity + 501, spread=500)) != []
    assert told(reading(Quantity.DEVICE, GIB - 500, spread=500)) == []
    assert told(reading(Quantity.DEVICE, GIB - 501, spread=500)) != []


def test_a_peak_that_was_sampled_may_have_been_missed() -> None:
    """Who looks now and then may see the moments between; the weights are there in all of them."""
    seen = reading(Quantity.DEVICE, 2 * GIB, sampled=True)

    assert told(seen, peak=3 * GIB) == []
    assert told(reading(Quantity.DEVICE, 2 * GIB), peak=3 * GIB) != []
    assert told(seen, always=3 * GIB) != []


def test_a_whole_is_no_smaller_than_its_part_in_one_place() -> None:
    """Other GPUs may hold less, and one who looked now and then may have missed the peak."""
    part = reading(Quantity.RESERVED, 4 * GIB)

    assert "which are a part of them" in told(part, reading(Quantity.DEVICE, 3 * GIB))[0]
    assert told(part, reading(Quantity.DEVICE, 3 * GIB, gpu="1")) == []
    assert told(part, reading(Quantity.DEVICE, 3 * GIB, sampled=True)) == []


def test_shards_hold_less() -> None:
    """The least of a sharded job is what its ranks keep, not the model."""
    known = load_catalogue_model("llama-3.2-1b")
    assert known is not None
    shards = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)
    question = FitQuestion(
        architecture=known.architecture, workload=WORKLOAD, layout=shards, device=GPU.to_device()
    )
    answer = judge_fit(question, plans=PlanCache()).estimate

    assert 0 < compute_resident_bytes(answer) <= answer.steady_bytes < WEIGHTS
