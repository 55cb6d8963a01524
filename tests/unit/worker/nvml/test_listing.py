"""Which GPUs ``headroom up`` is told of."""

import json

import pytest

from tests.fake_nvml import FakeNvml
from worker.nvml.__main__ import EXIT_UNKNOWN, main


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the UUIDs of the lines that were printed."""
    return [json.loads(line)["uuid"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "environ", "uuids"),
    [
        ((), {}, ["GPU-1111", "GPU-1222", "MIG-aaa1", "MIG-bbb2"]),
        ((), {"CUDA_VISIBLE_DEVICES": "GPU-1222,MIG-bbb2"}, ["GPU-1222", "MIG-bbb2"]),
        ((), {"CUDA_VISIBLE_DEVICES": ""}, []),
        (("--gpus", "0,2"), {}, ["GPU-1111", "MIG-aaa1"]),
    ],
)
def test_every_gpu_that_cuda_shows_is_listed(
    machine: FakeNvml,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    environ: dict[str, str],
    uuids: list[str],
) -> None:
    """A divided GPU is its slices; the environment and the selection leave out the others."""
    status = main(arguments, machine, environ)

    assert (status, listed(capsys)) == (0, uuids)


def test_no_driver_is_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine without a GPU is none that is wrong, unless one is named."""
    nothing = FakeNvml(has_driver=False)

    statuses = main((), nothing, {}), main(("--gpus", "0"), nothing, {})

    assert statuses == (0, EXIT_UNKNOWN)
    assert listed(capsys) == []


def test_a_driver_that_does_not_start_is_no_machine_without_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its GPUs may be there: it is said, not passed over."""
    status = main((), FakeNvml(starts_driver=False), {})

    assert status == EXIT_UNKNOWN
    assert "the NVIDIA driver does not answer" in capsys.readouterr().err
