"""Answers of /v1/gpus."""

from typing import Annotated, Any

from msgspec import Meta

from service.api.schemas.fields import Answer


class GpuAnswer(Answer, frozen=True, kw_only=True):
    """One GPU of the catalogue."""

    name: Annotated[str, Meta(examples=["A100-SXM4-80GB"])]
    vendor: str
    family: Annotated[str, Meta(description="What several SKUs share.", examples=["A100"])]
    aliases: Annotated[dict[str, list[str]], Meta(description="Names that others use, by who uses them.")]
    capacity_bytes: Annotated[int, Meta(description="NVML's total.")]
    usable_bytes: Annotated[int, Meta(description="What a process can allocate.")]
    bandwidth_bytes_per_second: int | None
    peak_flops: Annotated[dict[str, int], Meta(description="Dense FLOP/s by number format.")]
    link_bytes_per_second: int | None
    mig_profiles: list[Any]
    sources: Annotated[dict[str, str], Meta(description="Where each figure comes from.")]


class GpuPage(Answer, frozen=True, kw_only=True):
    """The whole catalogue."""

    items: list[GpuAnswer]
    next_cursor: str | None
