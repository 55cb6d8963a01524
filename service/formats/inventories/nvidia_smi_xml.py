"""GPUs of one node, from ``nvidia-smi -q -x``.

``fb_memory_usage`` says what the driver reserves; the file names no host. Entities are refused, the
document type is not fetched.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from service.estimator.values.units import MIB
from service.formats.inventories.documents import MAX_COUNT
from service.formats.inventories.observed import (
    MAX_GPUS,
    InventoryFormat,
    InventoryFormatError,
    ObservedGpus,
    ObservedInventory,
    ObservedNode,
    ObservedSlices,
    ObservedUse,
)

_MAX_DEPTH = 16
_MAX_ELEMENTS = 200_000
_MEMORY = "gpu/fb_memory_usage"
_MIG = "gpu/mig_devices/mig_device"


@dataclass(slots=True, kw_only=True)
class _Gpu:
    texts: dict[str, str] = field(default_factory=dict)
    slices: list[tuple[int, int]] = field(default_factory=list)
    """Bytes and multiprocessors."""
    processors: int = 0
    processes: int = 0


class _Reader:
    """Collects texts of GPUs by their path, bounded in depth and number."""

    def __init__(self) -> None:
        self.gpus: list[_Gpu] = []
        self.texts: dict[str, str] = {}
        self._path: list[str] = []
        self._text: list[str] = []
        self._num_elements = 0

    def read(self, text: str) -> None:
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.EntityDeclHandler = _refuse_entity
        try:
            parser.Parse(text.encode("utf-8", "surrogatepass"), True)  # noqa: FBT003 - expat's own
        except expat.ExpatError as error:
            message = f"is no XML: {error}"
            raise InventoryFormatError(message) from None

    def _start(self, name: str, _attributes: object) -> None:
        self._num_elements += 1
        if len(self._path) >= _MAX_DEPTH or self._num_elements > _MAX_ELEMENTS:
            message = f"is deeper than {_MAX_DEPTH} or has more than {_MAX_ELEMENTS:,} elements"
            raise InventoryFormatError(message)
        self._path.append(name)
        self._text.clear()
        if self._path[1:] == ["gpu"]:
            self.gpus.append(_Gpu())

    def _end(self, _name: str) -> None:
        path, text = "/".join(self._path[1:]), "".join(self._text).strip()
        self._path.pop()
        self._text.clear()
        if not self.gpus or not path.startswith("gpu/"):
            self.texts.setdefault(path, text)
            return
        gpu = self.gpus[-1]
        gpu.texts.setdefault(path, text)
        if path.startswith(_MIG):
            _read_slice(gpu, path.removeprefix(_MIG), text)
        gpu.processes += path == "gpu/processes/process_info/pid"


def read_nvidia_smi(text: str, *, node: str | None) -> ObservedInventory:
    """Return the GPUs of ``node``, which the file does not name."""
    reader = _Reader()
    reader.read(text)
    if not reader.gpus:
        message = "shows no GPU; send the output of `nvidia-smi -q -x`"
        raise InventoryFormatError(message)
    if len(reader.gpus) > MAX_GPUS:
        message = f"shows {len(reader.gpus):,} GPUs, and no node has more than {MAX_GPUS}"
        raise InventoryFormatError(message)
    if node is None:
        message = "is of one node and does not say which: say it with `node` (--node)"
        raise InventoryFormatError(message, field="node")
    by_name: dict[str, list[tuple[int, _Gpu]]] = {}
    for index, gpu in enumerate(reader.gpus):
        by_name.setdefault(gpu.texts.get("gpu/product_name", ""), []).append((index, gpu))
    return ObservedInventory(
        format=InventoryFormat.NVIDIA_SMI,
        version=reader.texts.get("driver_version") or None,
        nodes=(
            ObservedNode(
                name=node, gpus=tuple(_build(name, group) for name, group in by_name.items())
            ),
        ),
    )


def _build(name: str, group: Sequence[tuple[int, _Gpu]]) -> ObservedGpus:
    cut = [gpu for _, gpu in group if gpu.texts.get("gpu/mig_mode/current_mig") == "Enabled"]
    uncut = [(index, gpu) for index, gpu in group if gpu not in cut]
    totals = [_read_memory(gpu, "total") for _, gpu in group]
    reserved = [_read_memory(gpu, "reserved") for _, gpu in group]
    busy = tuple(index for index, gpu in uncut if gpu.processes)
    return ObservedGpus(
        name=name,
        count=len(uncut),
        memory_bytes=min((total for total in totals if total), default=None),
        reserved_bytes=max((part for part in reserved if part is not None), default=None),
        used=(
            ObservedUse(
                holder="processes",
                num_gpus=len(busy),
                gpu_indices=busy if len(uncut) == len(group) else None,
            ),
        )
        if busy
        else (),
        slices=tuple(_iter_slices(cut)),
        mig_gpus=len(cut),
    )


def _iter_slices(cut: Sequence[_Gpu]) -> Iterator[ObservedSlices]:
    """Yield slices by size: the file does not name their profiles."""
    sizes = Counter(size for gpu in cut for size in gpu.slices)
    for (num_bytes, processors), total in sizes.items():
        yield ObservedSlices(
            memory_bytes=num_bytes,
            multiprocessors=processors or None,
            total=total,
        )


def _read_slice(gpu: _Gpu, path: str, text: str) -> None:
    if path.endswith("/multiprocessor_count") and text.isascii() and text.isdigit():
        gpu.processors = int(text[:6])
    elif path == "/fb_memory_usage/total":
        gpu.slices.append((_read_mebibytes(text) or 0, gpu.processors))
        gpu.processors = 0


def _read_memory(gpu: _Gpu, name: str) -> int | None:
    return _read_mebibytes(gpu.texts.get(f"{_MEMORY}/{name}", ""))


def _read_mebibytes(text: str) -> int | None:
    number, _, unit = text.partition(" ")
    if unit != "MiB" or not (number.isascii() and number.isdigit()) or len(number) > len("9" * 10):
        return None
    return min(int(number) * MIB, MAX_COUNT)


def _refuse_entity(*_arguments: object) -> None:
    message = "declares an entity; nvidia-smi writes none"
    raise InventoryFormatError(message)
