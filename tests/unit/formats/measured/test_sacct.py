"""Slurm's accounting: what a step's tasks had on their GPUs."""

import json

import pytest

from service.formats.measured.detect import parse
from service.formats.measured.reading import MIB, Format, MeasuredFormatError, Quantity
from service.formats.measured.sacct import parse_size
from tests.unit.formats.measured.reading_samples import read

HEADER = "JobID|JobName|NTasks|AllocTRES|TRESUsageInMax"


def test_a_published_job_is_read() -> None:
    """The batch step has the number, in MiB as sacct rounds it; the job's row and Slurm's own step
    are named as left out.
    """
    found = read("sacct_alpine.txt")

    [reading] = found.readings
    assert (found.format, reading.quantity, reading.value) == (
        Format.SACCT,
        Quantity.DEVICE,
        38888 * MIB,
    )
    assert (reading.low, reading.high) == (38887 * MIB, 38889 * MIB)
    assert (
        reading.low <= 40777023488 <= (reading.high or 0)
    )  # what the same page shows with --noconvert
    assert (reading.place.job, reading.place.step, reading.line) == ("18194943", "batch", 3)
    assert reading.num_gpus is None
    assert [(part.line, part.what) for part in found.left_out] == [
        (2, "job 18194943"),
        (4, "step 18194943.extern"),
    ]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("40777023488", (40777023488, 40777023488, 40777023488)),
        ("38888M", (38888 * MIB, 38887 * MIB, 38889 * MIB)),
        ("37.5G", (40265318400, 40157944218, 40372692582)),
        ("0", (0, 0, 0)),
    ],
)
def test_sizes_are_powers_of_1024(printed: str, expected: tuple[int, int, int]) -> None:
    """An amount with a unit stands for one printed step either side."""
    assert parse_size(printed, line=1, what="x") == expected


def test_gpus_of_a_task_come_from_the_allocation() -> None:
    """Four tasks on eight GPUs have two each; a reading is their sum."""
    row = "7.0|x|4|cpu=8,gres/gpu:h100=8,gres/gpu=8|gres/gpumem=80G"
    [reading] = parse(f"{HEADER}\n7|sft||gres/gpu=8|\n{row}\n".encode()).readings

    assert reading.num_gpus == 2
    assert (reading.place.name, reading.place.gpu_name) == ("sft", "h100")


def test_json_says_the_same() -> None:
    """What sacct --json has under tres.requested.max is TRESUsageInMax."""
    tres = [
        {
            "type": "gres",
            "name": "gpumem",
            "id": 1002,
            "count": 40777023488,
            "task": 0,
            "node": "c3gpu-1",
        },
    ]
    unknown = [{"type": "gres", "name": "gpumem", "id": 1002, "count": 2**64 - 1}]
    steps = [
        {
            "step": {"id": "7.batch"},
            "tasks": {"count": 1},
            "tres": {"requested": {"max": tres}, "allocated": []},
        },
        {"step": {"id": {"job_id": 7, "step_id": "0"}}, "tres": {"requested": {"max": unknown}}},
    ]
    allocated = [{"type": "gres", "name": "gpu", "count": 1}]
    found = parse(
        json.dumps(
            {
                "jobs": [
                    {"job_id": 7, "name": "sft", "tres": {"allocated": allocated}, "steps": steps}
                ],
            },
        ).encode(),
    )

    [reading] = found.readings
    assert (reading.value, reading.num_gpus, reading.place.host) == (40777023488, 1, "c3gpu-1")
    assert (reading.place.job, reading.place.step, reading.place.name) == ("7", "batch", "sft")
    assert "gres/gpumem" in found.left_out[-1].reason


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("JobID|State\n1|DONE\n", "line 1: has no column TRESUsageInMax"),
        (f"{HEADER}\n", "has no job: sacct found none"),
        (f"{HEADER}\n7.0|x\n", "line 2: has 2 columns; expected the 5"),
        (
            f"{HEADER}\n7.0|x|1|gres/gpu=1|gres/gpumem=lots\n",
            "line 2: gres/gpumem of step 7.0 is 'lots'; expected bytes",
        ),
    ],
)
def test_a_wrong_line_is_named(text: str, says: str) -> None:
    """The error names the line, what is wrong in it and what would be right."""
    with pytest.raises(MeasuredFormatError) as caught:
        parse(text.encode(), declared=Format.SACCT)

    assert says in caught.value.message


def test_a_header_that_was_left_out_is_asked_for() -> None:
    """Without names nobody knows what the columns are."""
    with pytest.raises(MeasuredFormatError, match="leave -n out"):
        parse(b"18194943.batch|cpu=00:56:24,gres/gpumem=38888M|\n", declared=Format.SACCT)
