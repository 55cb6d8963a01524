"""The list of GPUs and what CUDA_VISIBLE_DEVICES and --gpus make of it."""

import pytest

from tests.fake_nvml import GIB, FakeGpu, FakeMismatchError, FakeNvml, FakeNvmlError
from worker.nvml.gpus import Gpu, find_handle, list_gpus, read_cuda_version, read_driver_version
from worker.nvml.library import NoDriverError, NvmlUnavailableError, open_nvml
from worker.nvml.visible import UnknownGpuError, list_visible_gpus, select_gpus


def uuids(gpus: tuple[Gpu, ...]) -> list[str]:
    """Return the names of GPUs, in order."""
    return [gpu.uuid for gpu in gpus]


def test_gpus_are_listed_with_their_instances(machine: FakeNvml) -> None:
    """A divided GPU is followed by its instances, which know their own memory and whose they
    are.
    """
    gpus = list_gpus(machine)

    assert uuids(gpus) == ["GPU-1111", "GPU-1222", "GPU-3333", "MIG-aaa1", "MIG-bbb2"]
    assert [gpu.is_divided for gpu in gpus] == [False, False, True, False, False]
    assert gpus[0].compute_capability == "9.0"
    assert gpus[4].memory_bytes == 17 * GIB
    assert gpus[4].parent_uuid == "GPU-3333"
    assert gpus[4].legacy_name == "MIG-GPU-3333/2/0"


def test_an_instance_has_a_handle_of_its_own(machine: FakeNvml) -> None:
    """Memory of an instance is asked of the instance: of its GPU NVML may tell nothing."""
    instance = list_gpus(machine)[3]

    assert find_handle(machine, instance) is machine.gpus[2].instances[0]


def test_versions_are_told_in_words(machine: FakeNvml) -> None:
    """CUDA's number 13000 is release 13.0."""
    assert read_driver_version(machine) == "580.159.04"
    assert read_cuda_version(machine) == "13.0"


def test_without_a_driver_the_reason_is_told() -> None:
    """A machine without a driver is no crash but an answer."""
    with (
        pytest.raises(NoDriverError, match="there is no NVIDIA driver"),
        open_nvml(FakeNvml(has_driver=False)),
    ):
        pass


def test_a_driver_that_refuses_is_told_in_its_words(machine: FakeNvml) -> None:
    """Whatever it says no to: a GPU that is lost, a user without rights, a function that it is too
    old for.
    """
    with (
        pytest.raises(NvmlUnavailableError, match="the NVIDIA driver refuses: GPU is lost"),
        open_nvml(machine),
    ):
        raise FakeNvmlError("GPU is lost")
    with pytest.raises(NvmlUnavailableError, match="refuses: too old"), open_nvml(machine):
        raise FakeMismatchError("too old")


def test_the_library_is_closed_again(machine: FakeNvml) -> None:
    """Whatever happens inside, the library is given back."""
    with pytest.raises(KeyError), open_nvml(machine):
        raise KeyError

    assert machine.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (None, ["GPU-1111", "GPU-1222", "MIG-aaa1", "MIG-bbb2"]),
        ("", []),
        ("-1", []),
        ("1,0", ["GPU-1222", "GPU-1111"]),
        ("0,-1,1", ["GPU-1111"]),
        ("GPU-12", ["GPU-1222"]),
        ("MIG-bbb2, GPU-1111", ["MIG-bbb2", "GPU-1111"]),
        ("MIG-GPU-3333/1/0", ["MIG-aaa1"]),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(
    machine: FakeNvml, said: str | None, shown: list[str]
) -> None:
    """Numbers, UUIDs, their beginnings and both ways to name an instance; a divided GPU is not
    usable as a whole.
    """
    environ = {} if said is None else {"CUDA_VISIBLE_DEVICES": said}

    assert uuids(list_visible_gpus(list_gpus(machine), environ)) == shown


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("GPU-1", "GPU-1111, GPU-1222 begin with"),
        ("GPU-9", "no GPU here; there are: GPU-1111, GPU-1222, MIG-aaa1, MIG-bbb2"),
        ("7", "no GPU here"),
        ("0,0", "twice"),
        ("2", "MIG divides: name one of its instances: MIG-aaa1, MIG-bbb2"),
    ],
)
def test_what_names_no_gpu_is_refused(machine: FakeNvml, said: str, reason: str) -> None:
    """CUDA would silently show fewer GPUs; here it is said what is wrong and what there is."""
    with pytest.raises(UnknownGpuError, match=reason):
        list_visible_gpus(list_gpus(machine), {"CUDA_VISIBLE_DEVICES": said})


def test_numbers_of_different_gpus_are_ambiguous() -> None:
    """CUDA counts by speed and NVML by the bus, so a number needs CUDA_DEVICE_ORDER, and a UUID
    does not.
    """
    gpus = list_gpus(
        FakeNvml(FakeGpu(uuid="GPU-a", name="NVIDIA L4"), FakeGpu(uuid="GPU-b", name="NVIDIA H200"))
    )
    by_bus = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    assert uuids(list_visible_gpus(gpus, by_bus)) == ["GPU-b"]
    assert uuids(list_visible_gpus(gpus, {"CUDA_VISIBLE_DEVICES": "GPU-b"})) == ["GPU-b"]
    with pytest.raises(UnknownGpuError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        list_visible_gpus(gpus, {"CUDA_VISIBLE_DEVICES": "1"})


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ("all", ["GPU-1222", "GPU-1111"]),
        ("0", ["GPU-1222"]),
        ("1,0", ["GPU-1111", "GPU-1222"]),
        ("GPU-11", ["GPU-1111"]),
    ],
)
def test_chosen_numbers_count_what_is_visible(
    machine: FakeNvml, said: str, chosen: list[str]
) -> None:
    """Inside a Slurm step that shows a part of the machine, 0 is the first of that part."""
    environ = {"CUDA_VISIBLE_DEVICES": "1,0"}

    assert uuids(select_gpus(said, list_gpus(machine), environ)) == chosen


@pytest.mark.parametrize(
    ("said", "environ"),
    [("GPU-33", {"CUDA_VISIBLE_DEVICES": "0"}), (",", {}), ("all", {"CUDA_VISIBLE_DEVICES": ""})],
)
def test_a_choice_of_nothing_is_refused(
    machine: FakeNvml, said: str, environ: dict[str, str]
) -> None:
    """A GPU that is hidden, no GPU at all, and none to choose from."""
    with pytest.raises(UnknownGpuError):
        select_gpus(said, list_gpus(machine), environ)
