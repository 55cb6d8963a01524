"""Readings of a probe's runs."""

import msgspec


class _Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all readings; unknown fields are refused."""


class InstantReading(_Reading, frozen=True, kw_only=True):
    """Highest bytes during one instant.

    They are those of live tensors, and of what the allocator had handed out where it can say.
    """

    name: str
    allocated_bytes: int
    allocator_bytes: int | None = None


class StepTime(_Reading, frozen=True, kw_only=True):
    """Seconds of one step."""

    median: float
    p95: float


class Peaks(_Reading, frozen=True, kw_only=True):
    """Highest readings for the requested model.

    ``None`` where this device has no such number.
    """

    allocated_bytes: int
    reserved_bytes: int | None = None
    device_bytes: int | None = None
    device_total_used_bytes: int | None = None
    process_rss_bytes: int | None = None
    out_of_memory: bool = False


class HeldTensors(_Reading, frozen=True, kw_only=True):
    """Tensors of one kind and shape alive at once.

    It has how many, their bytes in all, and what made them where.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    made_in: str
    count: int
    bytes: int


class AtPeak(_Reading, frozen=True, kw_only=True):
    """Content of memory at a run's peak.

    It has the stretch that the peak fell in, bytes by kind (their sum is ``bytes``), and the
    largest parts.
    """

    stretch: str
    bytes: int
    by_kind: dict[str, int]
    largest: tuple[HeldTensors, ...]


class ProbeReading(_Reading, frozen=True, kw_only=True):
    """One run of a model.

    ``micro_batch_size`` counts sequences and ``sequence_length`` all tokens of one (serving: prompt
    and output; of these ``output_tokens`` were decoded). ``at_peak`` is there where every tensor
    was followed.
    """

    num_layers: int
    micro_batch_size: int
    sequence_length: int
    instants: tuple[InstantReading, ...]
    output_tokens: int = 0
    steady_bytes: int | None = None
    process_rss_bytes: int | None = None
    step_time_s: StepTime | None = None
    prefill_time_s: StepTime | None = None
    """Of serving, where the device told it."""
    out_of_memory: bool = False
    at_peak: AtPeak | None = None
    layers: tuple[int, ...] = ()
    """Indices in the requested model of the layers that were run."""
    reserved_bytes: int | None = None
    device_bytes: int | None = None
    context_bytes: int | None = None
    """Memory that the GPU holds for the process before its first tensor."""
