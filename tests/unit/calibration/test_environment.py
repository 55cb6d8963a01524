"""Another release, driver or GPU is another environment, and another key."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from service.calibration.environment import REFERENCE_VERSIONS, Environment, environment_of

TOLD: dict[str, object] = {"torch": "2.13.0+cpu", "transformers": "5.23.1", "peft": "0.21.2"}
ON_GPU = Environment(gpu="H200", driver="570.1")


def test_reference_versions_are_those_that_the_worker_installs() -> None:
    """The worker extra pins the releases that questions stand for where nobody says another."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    pins = dict(line.split("==") for line in project["project"]["optional-dependencies"]["worker"] if "==" in line)

    assert {name: ".".join(pin.split(".")[:2]) for name, pin in pins.items()} == REFERENCE_VERSIONS


@pytest.mark.parametrize(
    ("told", "same"),
    [
        (TOLD, True),
        ({**TOLD, "torch": "2.13.1"}, True),
        ({**TOLD, "torch": "2.14.0"}, False),
        ({**TOLD, "transformers": "5.3.0"}, False),
        ({"torch": "2.13.0", "transformers": "5.23.0"}, True),
    ],
)
def test_only_the_same_releases_share_a_key(told: dict[str, object], *, same: bool) -> None:
    """A measurement of another release addresses keys of its own."""
    found = environment_of(told)

    assert found is not None
    assert (found.place.address("k") == Environment().place.address("k")) is same


@pytest.mark.parametrize("told", [{}, {"torch": "2.13.0"}])
def test_who_does_not_tell_its_releases_has_no_key(told: dict[str, object]) -> None:
    """Nothing is guessed."""
    assert environment_of(told) is None


@pytest.mark.parametrize("change", [{"gpu": "H100"}, {"driver": "580"}, {"torch": "2.14"}, {"gpu": None}])
def test_what_a_gpu_runs_on_is_in_its_key(change: dict[str, str | None]) -> None:
    """GPU, driver and releases each make another key."""
    assert replace(ON_GPU, **change).place.address("k") != ON_GPU.place.address("k")  # type: ignore[arg-type]  # one field


def test_libraries_alone_have_no_driver() -> None:
    """What fake tensors count holds whatever GPU is in the machine."""
    assert ON_GPU.libraries == Environment()


def test_cudnns_attention_has_keys_of_its_own() -> None:
    """Its scratch is another; what every other kernel is measured to need stays where it was before anybody told."""
    told = TOLD | {"driver": "570.1"}
    cudnn = environment_of(told | {"attention_kernel": "cudnn"}, gpu="H200")
    flash = environment_of(told | {"attention_kernel": "flash"}, gpu="H200")
    assert cudnn is not None
    assert flash is not None

    assert flash.place == ON_GPU.place
    assert cudnn.place == ON_GPU.place.with_cudnn != ON_GPU.place
    assert (cudnn.place.plain, cudnn.place.tells_driver) == (ON_GPU.place, True)
    assert cudnn.place.unknown_driver == ON_GPU.place.unknown_driver.with_cudnn
    assert ON_GPU.place.alike(cudnn.name) == cudnn.place


def test_without_a_gpu_no_kernel_is_cudnns() -> None:
    """A trace names what CUDA would choose, and its bytes are those of the libraries."""
    assert environment_of(TOLD | {"attention_kernel": "cudnn"}) == Environment()
    assert Environment().place.with_cudnn == Environment().place
