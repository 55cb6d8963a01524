"""Another release, driver or GPU is another environment, and another key."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from service.calibration.environment import (
    REFERENCE_VERSIONS,
    Environment,
    name_place,
    parse_environment,
    split_place,
)
from service.catalog.gpus import list_gpus

TOLD: dict[str, object] = {"torch": "2.13.0+cpu", "transformers": "5.23.1", "peft": "0.21.2"}
ON_GPU = Environment(gpu="H200", driver="570.1")


def test_reference_versions_are_those_that_the_worker_installs() -> None:
    """The worker extra pins the releases that questions stand for where nobody says another."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    pins = dict(
        line.split("==")
        for line in project["project"]["optional-dependencies"]["worker"]
        if "==" in line
    )

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
    found = parse_environment(told)

    assert found is not None
    assert (found.key.build_curve_key("k") == Environment().key.build_curve_key("k")) is same


@pytest.mark.parametrize("told", [{}, {"torch": "2.13.0"}])
def test_who_does_not_tell_its_releases_has_no_key(told: dict[str, object]) -> None:
    """Nothing is guessed."""
    assert parse_environment(told) is None


@pytest.mark.parametrize(
    "change", [{"gpu": "H100"}, {"driver": "580"}, {"torch": "2.14"}, {"gpu": None}]
)
def test_what_a_gpu_runs_on_is_in_its_key(change: dict[str, str | None]) -> None:
    """GPU, driver and releases each make another key."""
    assert replace(ON_GPU, **change).key.build_curve_key("k") != ON_GPU.key.build_curve_key("k")  # type: ignore[arg-type]  # one field


def test_libraries_alone_have_no_driver() -> None:
    """What fake tensors count holds whatever GPU is in the machine."""
    assert ON_GPU.libraries == Environment()


def test_cudnns_attention_has_keys_of_its_own() -> None:
    """Its scratch is another; what every other kernel is measured to need stays where it was before
    anybody told.
    """
    told = TOLD | {"driver": "570.1"}
    cudnn = parse_environment(told | {"attention_kernel": "cudnn"}, gpu="H200")
    flash = parse_environment(told | {"attention_kernel": "flash"}, gpu="H200")
    assert cudnn is not None
    assert flash is not None

    assert flash.key == ON_GPU.key
    assert cudnn.key == ON_GPU.key.with_cudnn != ON_GPU.key
    assert (cudnn.key.without_cudnn, cudnn.key.has_driver) == (ON_GPU.key, True)
    assert cudnn.key.without_driver == ON_GPU.key.without_driver.with_cudnn
    assert ON_GPU.key.match_kernel(cudnn.name) == cudnn.key


def test_without_a_gpu_no_kernel_is_cudnns() -> None:
    """A trace names what CUDA would choose, and its bytes are those of the libraries."""
    assert parse_environment(TOLD | {"attention_kernel": "cudnn"}) == Environment()
    assert Environment().key.with_cudnn == Environment().key


def test_a_clusters_gpus_are_a_place_of_their_own() -> None:
    """It is measured apart from such GPUs anywhere, whose name it never is; without the cluster it
    is the same environment.
    """
    environment = Environment(gpu="L4", driver="550.1", cudnn_attention=True)
    placed = environment.in_cluster("lab")

    assert placed.key.digest != environment.key.digest
    assert placed.key.anywhere == environment.key
    assert placed.key.libraries == environment.libraries.key
    assert split_place(placed.gpu or "") == ("L4", "lab")
    assert split_place("L4") == ("L4", "")
    assert name_place("L4", "") == "L4"
    assert placed.key.has_driver
    assert not placed.key.without_driver.has_driver
    assert placed.key.without_driver.anywhere == environment.key.without_driver


def test_libraries_have_no_cluster() -> None:
    """What fake tensors or a CPU allocated, the releases alone decide."""
    assert Environment().in_cluster("lab") == Environment()
    assert Environment().key.anywhere == Environment().key
    assert Environment().key.libraries == Environment().key


def test_no_gpu_is_called_like_a_place() -> None:
    """The sign between both is in no name or alias of the catalogue."""
    names = [name for entry in list_gpus() for name in entry.list_names()]

    assert [name for name in names if "@" in name] == []
