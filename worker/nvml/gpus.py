"""The GPUs of this machine and the instances that MIG divides them into."""

from collections.abc import Iterator
from dataclasses import dataclass

from worker.nvml.library import Api, Handle, ask, text_of

_MIG_ON = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What CUDA can be given: a whole GPU, or one MIG instance, whose GPU is ``parent_uuid``.

    ``index`` is NVML's, which follows the PCI bus; an instance has its GPU's. ``instance`` is the pair of MIG's numbers.
    ``memory_bytes`` is NVML's total.
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
        """Return the name that drivers before release 470 gave an instance: ``MIG-GPU-…/1/0``."""
        if self.instance is None:
            return None
        return f"MIG-{self.parent_uuid}/{self.instance[0]}/{self.instance[1]}"


def list_gpus(api: Api) -> tuple[Gpu, ...]:
    """Return every GPU in the order of the PCI bus, each followed by its MIG instances."""
    return tuple(gpu for index in range(api.nvmlDeviceGetCount()) for gpu in _with_instances(api, index))


def find_handle(api: Api, gpu: Gpu) -> Handle:
    """Return what NVML knows a GPU or an instance by."""
    return api.nvmlDeviceGetHandleByUUID(gpu.uuid)


def driver_version(api: Api) -> str:
    """Return the driver's release."""
    return text_of(api.nvmlSystemGetDriverVersion())


def cuda_version(api: Api) -> str | None:
    """Return the newest CUDA that the driver runs, as ``13.0``."""
    number = ask(api, api.nvmlSystemGetCudaDriverVersion)
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _with_instances(api: Api, index: int) -> Iterator[Gpu]:
    handle = api.nvmlDeviceGetHandleByIndex(index)
    mode = ask(api, lambda: api.nvmlDeviceGetMigMode(handle))
    is_divided = mode is not None and mode[0] == _MIG_ON
    whole = Gpu(
        uuid=text_of(api.nvmlDeviceGetUUID(handle)),
        name=text_of(api.nvmlDeviceGetName(handle)),
        index=index,
        memory_bytes=int(api.nvmlDeviceGetMemoryInfo(handle).total),
        compute_capability=_capability(api, handle),
        is_divided=is_divided,
    )
    yield whole
    if is_divided:
        yield from _instances(api, handle, whole)


def _instances(api: Api, handle: Handle, whole: Gpu) -> Iterator[Gpu]:
    for place in range(api.nvmlDeviceGetMaxMigDeviceCount(handle)):
        # Free places answer "not found".
        instance = ask(api, lambda place=place: api.nvmlDeviceGetMigDeviceHandleByIndex(handle, place))  # type: ignore[misc]
        if instance is None:
            continue
        yield Gpu(
            uuid=text_of(api.nvmlDeviceGetUUID(instance)),
            name=text_of(api.nvmlDeviceGetName(instance)),
            index=whole.index,
            memory_bytes=int(api.nvmlDeviceGetMemoryInfo(instance).total),
            compute_capability=whole.compute_capability,
            parent_uuid=whole.uuid,
            instance=(api.nvmlDeviceGetGpuInstanceId(instance), api.nvmlDeviceGetComputeInstanceId(instance)),
        )


def _capability(api: Api, handle: Handle) -> str | None:
    pair = ask(api, lambda: api.nvmlDeviceGetCudaComputeCapability(handle))
    return None if pair is None else f"{pair[0]}.{pair[1]}"
