"""Runs of dstack: a spec as its 0.22.5 sends it to a REST plugin."""

from typing import Any

import pytest

from service.formats.submissions.dstack import change_run, read_run
from service.formats.submissions.submission import GpuRequest, SubmissionError


def a_run(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - members of a JSON document
    """Return the spec of a task, as pydantic dumped it, with other members of its configuration."""
    gpu = {
        "vendor": None, "name": ["A100"], "count": {"min": 4, "max": 4},
        "memory": {"min": 80.0, "max": 80.0}, "total_memory": None, "compute_capability": None,
    }  # fmt: skip
    configuration = {
        "nodes": 1, "ports": [], "commands": ["pip install trl", "torchrun train.py"],
        "type": "task", "name": None, "image": None, "privileged": False,
        "env": {"A": "b", "HEADROOM_QUESTION": "llama-3.2-1b --task train"},
        "resources": {
            "cpu": {"arch": None, "count": {"min": 2, "max": None}},
            "memory": {"min": 8.0, "max": None}, "shm_size": None, "gpu": gpu,
            "disk": {"size": {"min": 100.0, "max": None}},
        },
    }  # fmt: skip
    return {"run_name": "r", "repo_id": None, "configuration": {**configuration, **changes}}


def test_a_run_says_its_gpus_and_its_question() -> None:
    """Names, number and memory of a GPU, on each of its nodes."""
    job = read_run(a_run(), user="ann", project="main")

    assert (job.scheduler, job.name, job.user, job.queue) == ("dstack", "r", "ann", "main")
    assert job.gpus == GpuRequest(per_node=4, names=("A100",), memory_gb=80.0)
    assert job.note == "llama-3.2-1b --task train"
    assert job.script == "pip install trl\ntorchrun train.py"
    assert job.can_change


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (None, None),
        ({"name": None, "count": {"min": 0, "max": None}}, None),
        ({"name": None, "count": {"min": 1, "max": None}}, GpuRequest(per_node=1)),
        (
            {"name": ["H100", "A100"], "count": {"min": 2, "max": 4}, "memory": {"min": 40.0}},
            GpuRequest(per_node=2, names=("H100", "A100"), memory_gb=40.0),
        ),
        (
            {"name": ["L4"], "count": {"min": 1}, "memory": None},
            GpuRequest(per_node=1, names=("L4",)),
        ),
        ({"name": "L4", "count": 1}, None),
    ],
)
def test_of_a_range_it_is_the_least(gpu: object, expected: GpuRequest | None) -> None:
    """The run may get no more."""
    assert read_run(a_run(resources={"gpu": gpu})).gpus == expected


def test_a_run_on_several_nodes_keeps_its_number() -> None:
    """More nodes are found by what runs on them, which no hook changes."""
    job = read_run(a_run(nodes=2))

    assert job.gpus == GpuRequest(per_node=4, num_nodes=2, names=("A100",), memory_gb=80.0)
    assert not job.can_change


def test_another_number_changes_nothing_else() -> None:
    """Both ends of the range are what the run gets; the spec that came stays as it was."""
    spec, expected = a_run(), a_run()
    expected["configuration"]["resources"]["gpu"]["count"] = {"min": 8, "max": 8}

    assert change_run(spec, 8) == expected
    assert spec == a_run()


def test_variables_that_are_no_texts_are_left_out() -> None:
    """Dstack writes a variable of the user's own machine as an object."""
    job = read_run(a_run(env={"HF_TOKEN": {"key": "HF_TOKEN"}, "A": "b"}))

    assert job.environment == {"A": "b"}
    assert job.note is None


def test_a_spec_without_a_configuration_is_refused() -> None:
    """By a reason."""
    with pytest.raises(SubmissionError, match="configuration"):
        read_run({})
