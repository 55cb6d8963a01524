"""PyTorch's out-of-memory message in the wordings of its releases.

c10/cuda/CUDACachingAllocator.cpp: before 1.4 ``cached``, which is what is reserved and not
allocated, ``reserved in total`` to 2.0, from 2.1 on
the sentences with ``of which … is free`` and the processes of the GPU (``capacty`` until 2.2), with
private pools of CUDA graphs. What it prints as allocated includes the free blocks of those pools.
c10/xpu words it alike; aten/src/ATen/mps/MPSAllocator.mm and c10/cuda/CUDAMallocAsyncAllocator.cpp
(``backend:cudaMallocAsync``) have wordings of their own.
"""

from collections.abc import Iterator

from service.formats.failures.failure import (
    Amount,
    FailedMemory,
    Failure,
    FailureQuantity,
    FailureSpeaker,
    Frame,
    ProcessUse,
    make_amount,
    make_span,
)
from service.formats.failures.wording import COUNT, NUMBER, SIZE, compile_wording

MARKS = ("out of memory", "Tried to allocate ")
MAX_MESSAGE = 4000
END = "unallocated"
"""Word by which the message of 2.1 and later is complete."""
_START = compile_wording(
    r"(CUDA|HIP|XPU|NPU) out of memory\.|Allocation on device [0-9]{1,3}+ would exceed allowed"
    r"|^Tried to allocate [0-9.]{1,12}+ [KMG]iB \(GPU "
)
_REQUESTED = compile_wording(rf"Tried to allocate {SIZE}")
_HUGE = "Tried to allocate more than 1EB"
_OLD_GPU = compile_wording(
    rf"\(GPU {COUNT}; {SIZE} total capacity; {SIZE} already allocated; {SIZE} free"
)
_OLD_RESERVED = compile_wording(rf"{SIZE} reserved in total by Py")
_CACHED = compile_wording(rf"free; {SIZE} cached")
_GPU = compile_wording(rf"GPU {COUNT} has a total capaci?+ty of {SIZE} of which {SIZE} is free")
_LIMIT = compile_wording(rf"{SIZE} allowed; ")
_SELF = compile_wording(rf"this process has {SIZE} memory in use")
_PROCESS = compile_wording(rf"Process {COUNT} has {SIZE} memory in use")
_ALLOCATED = compile_wording(rf"allocated memory {SIZE} is allocated by PyTorch")
_POOLS = compile_wording(rf"with {SIZE} allocated in private pools")
_UNALLOCATED = compile_wording(rf"{SIZE} is reserved by PyTorch but unallocated")
_QUANTITIES = (
    (FailureQuantity.LIMIT, _LIMIT),
    (FailureQuantity.PROCESS, _SELF),
    (FailureQuantity.ALLOCATED, _ALLOCATED),
    (FailureQuantity.PRIVATE_POOLS, _POOLS),
    (FailureQuantity.UNALLOCATED, _UNALLOCATED),
    (FailureQuantity.UNALLOCATED, _CACHED),
    (FailureQuantity.RESERVED, _OLD_RESERVED),
)
_MPS = compile_wording(
    rf"MPS backend out of memory \(MPS allocated: {NUMBER} (bytes|KB|MB|GB), other allocations: "
    rf"{NUMBER} (bytes|KB|MB|GB), max allowed: {NUMBER} (bytes|KB|MB|GB)\)\. Tried to allocate "
    rf"{NUMBER} (bytes|KB|MB|GB)"
)
_ASYNC_GPU = compile_wording(rf"Allocation on device {COUNT} would exceed")
_ASYNC = (
    (FailureQuantity.ALLOCATED, compile_wording(rf"Currently allocated ?+: {SIZE}")),
    (FailureQuantity.REQUESTED, compile_wording(rf"Requested ?+: {SIZE}")),
    (FailureQuantity.TOTAL, compile_wording(rf"Device limit ?+: {SIZE}")),
    (FailureQuantity.FREE, compile_wording(rf"Free \(according to CUDA\) ?+: {SIZE}")),
)
_ASYNC_END = "PyTorch limit"
"""Begin of the last number of the asynchronous allocator, which is no limit by default."""
_VENDORS = {"HIP": "amd", "XPU": "intel", "NPU": "huawei"}


def starts_message(text: str) -> bool:
    """Return whether PyTorch's message begins in a line."""
    start = _START.search(text)
    is_whole = start is not None and not is_bare(text)
    return is_whole or "MPS backend out of memory" in text


def is_bare(text: str) -> bool:
    """Return whether a line begins behind what names the message."""
    return text.startswith("Tried to allocate ") and _START.search(text) is not None


def is_complete(text: str) -> bool:
    """Return whether a message needs no further line."""
    is_other = "MPS backend" in text or _ASYNC_END in text
    return is_other or END in text or "reserved in total" in text or " cached" in text


def read_torch_message(
    text: str, *, line: int, rank: str | None, frames: tuple[Frame, ...]
) -> Failure | None:
    """Return the failure that a message tells, ``None`` where it tells none.

    Lines of a message that was wrapped are joined before.
    """
    start = _START.search(text)
    if start is None:
        return _read_mps(text, line=line, rank=rank, frames=frames)
    message = " ".join(text[start.start() : start.start() + MAX_MESSAGE].split())
    # A second message in the same line would mix its numbers into this one.
    end = message.find(" out of memory.", 16)
    message = message if end < 0 else message[:end]
    gpu = _GPU.search(message) or _OLD_GPU.search(message) or _ASYNC_GPU.search(message)
    return Failure(
        speaker=FailureSpeaker.TORCH,
        memory=FailedMemory.GPU,
        kind="impossible_allocation" if _HUGE in message else "allocation",
        line=line,
        amounts=tuple(_iter_amounts(message, line)),
        processes=tuple(_iter_processes(message)),
        frames=frames,
        rank=rank,
        gpu=None if gpu is None else int(gpu[1]),
        release=_name_release(text, message),
        vendor=_VENDORS.get(start[1] or "", "nvidia"),
    )


def _iter_amounts(message: str, line: int) -> Iterator[Amount]:
    if (match := _REQUESTED.search(message)) is not None:
        yield make_amount(FailureQuantity.REQUESTED, match[1], match[2], line=line)
    if (gpu := _GPU.search(message)) is not None:
        yield make_amount(FailureQuantity.TOTAL, gpu[2], gpu[3], line=line)
        yield make_amount(FailureQuantity.FREE, gpu[4], gpu[5], line=line)
    elif (old := _OLD_GPU.search(message)) is not None:
        yield make_amount(FailureQuantity.TOTAL, old[2], old[3], line=line)
        yield make_amount(FailureQuantity.ALLOCATED, old[4], old[5], line=line)
        yield make_amount(FailureQuantity.FREE, old[6], old[7], line=line)
    for quantity, pattern in (*_ASYNC, *_QUANTITIES):
        if (number := pattern.search(message)) is not None:
            yield make_amount(quantity, number[1], number[2], line=line)


def _iter_processes(message: str) -> Iterator[ProcessUse]:
    for process in _PROCESS.finditer(message):
        yield ProcessUse(pid=int(process[1]), span=make_span(process[2], process[3]))
    if (match := _SELF.search(message)) is not None:
        yield ProcessUse(pid=None, span=make_span(match[1], match[2]))


def _name_release(text: str, message: str) -> str:
    """Return the releases of PyTorch that word a message so."""
    if " cached" in message:
        return "before 1.4"
    if "reserved in total" in message:
        return "1.13 to 2.0" if "torch.cuda.OutOfMemoryError" in text else "1.4 to 2.0"
    if "capacty" in message:
        return "2.1 to 2.2"
    if "torch.OutOfMemoryError" in text:
        return "2.5 or later"
    return "2.3 or later" if "total capacity of" in message else ""


def _read_mps(
    text: str, *, line: int, rank: str | None, frames: tuple[Frame, ...]
) -> Failure | None:
    match = _MPS.search(text)
    if match is None:
        return None
    names = (
        FailureQuantity.ALLOCATED,
        FailureQuantity.OTHER_PROCESS,
        FailureQuantity.LIMIT,
        FailureQuantity.REQUESTED,
    )
    return Failure(
        speaker=FailureSpeaker.TORCH,
        memory=FailedMemory.GPU,
        kind="allocation",
        line=line,
        amounts=tuple(
            make_amount(name, match[1 + 2 * index], match[2 + 2 * index], line=line)
            for index, name in enumerate(names)
        ),
        frames=frames,
        rank=rank,
        vendor="apple",
    )
