"""The GPUs of this machine and their MIG instances."""

from collections.abc import Iterator
from dataclasses import dataclass

from worker.nvml.library import Api, Handle, decode_text, query

_MIG_ON = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU or a MIG instance that CUDA can use.

    ``parent_uuid`` is the GPU of an instance. ``index`` is NVML's, which follows the PCI bus; an
    instance has its GPU's. ``instance`` is the pair of MIG's numbers. ``memory_bytes`` is NVML's
    total.
    """

    uuid: str
    name: str
    index: int
    memory_bytes: int
    compute_capability: str | None = None
    parent_uuid: str | None = None
    instance: tuple[int, int] | None = None
    is_divided: bool = False

    @property
    def legacy_name(self) -> str | None:
        """The name of an instance before driver release 470: ``MIG-GPU-…/1/0``."""
        if self.instance is None:
            return None
        return f"MIG-{self.parent_uuid}/{self.instance[0]}/{self.instance[1]}"


def list_gpus(api: Api) -> tuple[Gpu, ...]:
    """List all GPUs in PCI bus order, with their MIG instances.

    Each GPU is followed by its instances.
    """
    return tuple(
        gpu
        for index in range(api.nvmlDeviceGetCount())
        for gpu in _iter_gpu_and_instances(api, index)
    )


def find_handle(api: Api, gpu: Gpu) -> Handle:
    """Return NVML's handle of a GPU or an instance."""
    return api.nvmlDeviceGetHandleByUUID(gpu.uuid)


def read_driver_version(api: Api) -> str:
    """Return the driver's release."""
    return decode_text(api.nvmlSystemGetDriverVersion())


def read_cuda_version(api: Api) -> str | None:
    """Return the newest CUDA that the driver runs, as ``13.0``."""
    number = query(api, api.nvmlSystemGetCudaDriverVersion)
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _iter_gpu_and_instances(api: Api, index: int) -> Iterator[Gpu]:
    handle = api.nvmlDeviceGetHandleByIndex(index)
    mode = query(api, lambda: api.nvmlDeviceGetMigMode(handle))
    is_divided = mode is not None and mode[0] == _MIG_ON
    gpu = Gpu(
        uuid=decode_text(api.nvmlDeviceGetUUID(handle)),
        name=decode_text(api.nvmlDeviceGetName(handle)),
        index=index,
        memory_bytes=int(api.nvmlDeviceGetMemoryInfo(handle).total),
        compute_capability=_read_capability(api, handle),
        is_divided=is_divided,
    )
    yield gpu
    if is_divided:
        yield from _iter_instances(api, handle, gpu)


def _iter_instances(api: Api, handle: Handle, gpu: Gpu) -> Iterator[Gpu]:
    for place in range(api.nvmlDeviceGetMaxMigDeviceCount(handle)):
        # Free places answer "not found".
        instance = query(
            api,
            lambda place=place: api.nvmlDeviceGetMigDeviceHandleByIndex(handle, place),  # type: ignore[misc]
        )
        if instance is None:
            continue
        yield Gpu(
            uuid=decode_text(api.nvmlDeviceGetUUID(instance)),
            name=decode_text(api.nvmlDeviceGetName(instance)),
            index=gpu.index,
            memory_bytes=int(api.nvmlDeviceGetMemoryInfo(instance).total),
            compute_capability=gpu.compute_capability,
            parent_uuid=gpu.uuid,
            instance=(
                api.nvmlDeviceGetGpuInstanceId(instance),
                api.nvmlDeviceGetComputeInstanceId(instance),
            ),
        )


def _read_capability(api: Api, handle: Handle) -> str | None:
    pair = query(api, lambda: api.nvmlDeviceGetCudaComputeCapability(handle))
    return None if pair is None else f"{pair[0]}.{pair[1]}"
