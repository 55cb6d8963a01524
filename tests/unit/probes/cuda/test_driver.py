"""The words to CUDA, as far as they can be checked without one: they exist, and take what they are
given.
"""

from contextlib import nullcontext
from inspect import signature
from operator import attrgetter

import pytest
import torch
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from service.estimator.values.workload import Allocator, Attention
from worker.probes.attention.cuda_dispatch import describe_choice, make_device_context
from worker.probes.attention.names import Kernel
from worker.probes.cuda.driver import ALLOCATOR_SETTINGS, AllocatorBytes, TorchDriver, parse_counts

STATISTICS = {
    "num_alloc_retries": 2,
    "requested_bytes": {
        "all": {"current": 1, "peak": 2, "allocated": 9, "freed": 8},
        "small_pool": {},
    },
    "allocated_bytes": {"all": {"current": 512, "peak": 1024, "allocated": 0, "freed": 0}},
    "reserved_bytes": {"all": {"current": 2**21, "peak": 2**22, "allocated": 0, "freed": 0}},
}
"""The form of ``torch._C._cuda_memoryStats``."""


@pytest.mark.parametrize(
    ("name", "positional", "named"),
    [
        ("init", (), {}),
        ("set_device", (0,), {}),
        ("synchronize", (0,), {}),
        ("mem_get_info", (0,), {}),
        ("get_device_properties", (0,), {}),
        ("memory.memory_stats_as_nested_dict", (0,), {}),
        ("reset_peak_memory_stats", (0,), {}),
        ("empty_cache", (), {}),
        ("memory._snapshot", (), {}),
        ("memory._dump_snapshot", ("file",), {}),
        ("memory._record_memory_history", (), {"max_entries": 1, "stacks": "python"}),
        ("memory._record_memory_history", (), {"enabled": None}),
    ],
)
def test_torch_takes_what_the_driver_says(
    name: str, positional: tuple[object, ...], named: dict[str, object]
) -> None:
    """A release of torch that renames one of these is noticed here, and not on the first GPU."""
    assert signature(attrgetter(name)(torch.cuda)).bind(*positional, **named)


@pytest.mark.parametrize("allocator", list(Allocator))
def test_the_allocator_understands_its_settings(allocator: Allocator) -> None:
    """Torch parses them without a GPU as well; the default is put back at the end."""
    driver = TorchDriver()
    try:
        driver.set_allocator(allocator)
    finally:
        driver.set_allocator(Allocator.DEFAULT)

    assert ALLOCATOR_SETTINGS[allocator].startswith("expandable_segments:")


def test_statistics_are_read_by_their_names() -> None:
    """Current and peak of what was asked for, given out and reserved."""
    assert parse_counts(STATISTICS) == AllocatorBytes(
        requested=1,
        allocated=512,
        reserved=2**21,
        requested_peak=2,
        allocated_peak=1024,
        reserved_peak=2**22,
        num_retries=2,
    )


def test_before_the_start_everything_is_nothing() -> None:
    """Torch gives no statistics then."""
    assert parse_counts({}).reserved_peak == 0


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (
            RuntimeError(
                "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
            ),
            True,
        ),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA driver error: out of memory"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"), False),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("Triton Error [CUDA]: invalid argument"), False),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
    ],
)
def test_running_out_is_told_from_other_errors(error: RuntimeError, is_so: bool) -> None:  # noqa: FBT001 - a case of a table
    """The allocator's own error, and those of libraries that found no room below it."""
    assert TorchDriver().is_out_of_memory(error) is is_so


def test_peaks_are_joined() -> None:
    """Of two looks the later tells what is there, and both tell the peaks."""
    early, late = parse_counts(STATISTICS), parse_counts({})
    both = early | late

    assert (both.requested, both.requested_peak, both.reserved_peak) == (0, 2, 2**22)


def test_torch_is_asked_about_what_autocast_casts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention gets its inputs in autocast's dtype, whatever they were before."""
    dtypes: list[torch.dtype] = []

    def choose(query: torch.Tensor, *_: object, **__: object) -> int:
        dtypes.append(query.dtype)
        return int(SDPBackend.FLASH_ATTENTION.value)

    monkeypatch.setattr(torch, "_fused_sdp_choice", choose)
    query = torch.zeros(1, 2, 4, 8)
    with (
        torch.autocast("cpu", torch.bfloat16),
        make_device_context(Attention.SDPA, [])(Kernel.FLASH),
    ):
        scaled_dot_product_attention(query, query, query)

    assert dtypes == [torch.bfloat16]


def test_torch_is_asked_once_which_kernel_it_takes() -> None:
    """The first attention tells, later ones run undisturbed; a choice that was not expected is
    told.
    """
    chosen: list[str] = []
    choices = make_device_context(Attention.SDPA, chosen)
    query = torch.zeros(1, 2, 4, 8)
    for _ in range(2):
        with choices(Kernel.FLASH):
            scaled_dot_product_attention(query, query, query, is_causal=True)

    assert chosen == ["flash"]
    assert isinstance(choices(Kernel.FLASH), nullcontext)
    assert (
        describe_choice(["cudnn"], Kernel.FLASH)
        == "CUDA chose the cudnn attention kernel, where flash was expected"
    )
    assert describe_choice(["flash"], Kernel.FLASH) is None
