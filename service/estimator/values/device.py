"""One GPU, and its memory that a process can use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError

_SLICE = "-MIG-"
"""Between a GPU and a profile, as GPU feature discovery labels nodes whose slices are all alike."""
_SPELLED = re.compile(
    r"(.+?)(?<!\s)\s*(?:[-_ ]mig[-_ ]|/\s*(?:mig[-_ ])?(?=[0-9]))\s*+(.*?)",
    re.IGNORECASE | re.DOTALL,
)
_EXTRAS = re.compile(r"[+.-](?:me(?:\.all)?|gfx|all)$")
"""Media and graphics engines of a slice, which change neither its memory nor its processors."""


def format_slice(gpu: str, profile: str) -> str:
    """Return the name of a MIG slice: ``A100-SXM4-80GB-MIG-1g.10gb``."""
    return f"{gpu}{_SLICE}{profile}"


def parse_slice(name: str) -> tuple[str, str] | None:
    """Return the GPU and the profile of a slice's name.

    It is spelled as feature discovery does, as drivers do (``NVIDIA A100-SXM4-80GB MIG 1g.10gb``),
    or with a slash: ``A100-SXM4-80GB/1g.10gb``. None where it names no slice.
    """
    match = _SPELLED.fullmatch(name)
    return None if match is None else (match[1], _EXTRAS.sub("", match[2].casefold()))


UNKNOWN_VENDOR = "unknown"
"""Of a GPU that a request describes by its memory."""
_UNKNOWN = (
    "only the memory of this GPU is known: nothing is refused that its compute capability may lack "
    "(bf16 and flash attention need 8.0, fp8 arithmetic 8.9), reserved bytes and the context are "
    "those of the middle of other GPUs; memory_bytes is what a process can allocate, 0.3 to 0.6 "
    "GiB less than nvidia-smi shows of a whole card"
)
_SHARED = (
    "{name} shares its memory with the CPU: the system, other programs and what this job keeps on "
    "the host take of the same bytes, so that offloading to the host saves none"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU with its memory and its rates.

    ``capacity_bytes`` is NVML's total, ``usable_bytes`` what a process can allocate
    (cudaMemGetInfo's total).
    """

    name: str
    capacity_bytes: int
    usable_bytes: int
    vendor: str = "nvidia"
    bandwidth_bytes_per_second: int | None = None
    peak_flops: Mapping[str, int] = field(default_factory=dict)
    link_bytes_per_second: int | None = None
    mig_profile: str | None = None
    """The profile of a slice: no two of them reach each other, so that a job has one."""
    compute_capability: str | None = None
    """Of an NVIDIA GPU, as NVIDIA writes it: ``8.0``; None where it is unknown."""
    gfx_target: str | None = None
    """Of an AMD GPU, as LLVM names it: ``gfx942``."""
    num_processors: int | None = None
    """Of a slice: the streaming multiprocessors that it has of its GPU's."""
    has_unified_memory: bool = False
    """Whether the host's memory is the same: what is kept on the host leaves less for tensors."""

    def __post_init__(self) -> None:
        """Refuse a device that offers more than it has, or nothing."""
        if not 0 < self.usable_bytes <= self.capacity_bytes:
            message = (
                f"usable_bytes {self.usable_bytes} must lie between 1 and capacity_bytes "
                f"{self.capacity_bytes}"
            )
            raise InvalidInputError(message, field="gpu.memory_bytes")

    @property
    def kind(self) -> tuple[object, ...]:
        """Properties that decide its kernels and contexts."""
        return self.name, self.vendor, self.compute_capability, self.num_processors

    @property
    def is_blackwell(self) -> bool:
        """Whether it is a data-center Blackwell, of compute capability 10."""
        return (self.compute_capability or "").startswith("10.")

    @property
    def is_hopper(self) -> bool:
        """Whether it is a Hopper, or may be one."""
        return (self.compute_capability or "9.0").startswith("9.")

    def list_warnings(self, dtype: DType) -> tuple[str, ...]:
        """Return warnings about arithmetic in ``dtype`` and about the vendor.

        A format without a peak rate has no hardware.
        """
        return (
            *self._list_format_warnings(dtype),
            *self._list_vendor_warnings(),
            *self._list_memory_warnings(),
        )

    def _list_format_warnings(self, dtype: DType) -> tuple[str, ...]:
        if not self.peak_flops or dtype.value in self.peak_flops:
            return ()
        formats = ", ".join(sorted(self.peak_flops))
        emulated = (
            "the bytes hold where software emulates it, slowly, and some kernels refuse to run"
        )
        return (
            (
                f"{self.name} has no hardware for {dtype.value} arithmetic (it has {formats}): "
                f"{emulated}"
            ),
        )

    def _list_memory_warnings(self) -> tuple[str, ...]:
        """Return warnings about what is unknown or shared."""
        if self.vendor == UNKNOWN_VENDOR:
            return (_UNKNOWN,)
        if self.has_unified_memory:
            return (_SHARED.format(name=self.name),)
        return ()

    def _list_vendor_warnings(self) -> tuple[str, ...]:
        """Return warnings about GPUs of other vendors.

        A Gaudi's runtime compiles graphs and reuses memory within them in its own way.
        """
        if self.vendor != "intel":
            return ()
        reason = (
            "its graph compiler plans temporaries in its own way, and nothing was measured on one"
        )
        return (
            (
                f"{self.name} is answered as a CUDA device with its memory would be: {reason}; "
                "measure before you rely on it"
            ),
        )
