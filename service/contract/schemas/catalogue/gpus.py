"""Answers of /v1/gpus."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from service.contract.schemas.fields import Answer


class MigAnswer(Answer, frozen=True, kw_only=True):
    """A slice that MIG can cut: how many fit on one GPU, and how many eighths of its memory each
    takes.
    """

    name: Annotated[str, Meta(examples=["1g.10gb"])]
    max_instances: int
    memory_eighths: int
    usable_bytes: Annotated[int, Meta(description="Bytes that a process in one can allocate.")]
    multiprocessors: Annotated[
        int | None,
        Meta(
            description=(
                "Streaming multiprocessors of one, as `nvidia-smi mig -lgip` lists them; `null` "
                "where no list was read, and its share of the GPU's is taken from its name."
            )
        ),
    ]


class GpuAnswer(Answer, frozen=True, kw_only=True):
    """One GPU of the catalogue; links count both directions together."""

    name: Annotated[str, Meta(examples=["A100-SXM4-80GB"])]
    vendor: str
    family: Annotated[str, Meta(description="What several SKUs share.", examples=["A100"])]
    form: Annotated[
        str,
        Meta(
            description=(
                "What it is built into: `server`, `workstation`, `desktop`, `laptop` or `module`."
            ),
            examples=["server"],
        ),
    ]
    aliases: Annotated[
        Mapping[str, tuple[str, ...]], Meta(description="Names that others use, by who uses them.")
    ]
    capacity_bytes: Annotated[int, Meta(description="NVML's total, in bytes.")]
    usable_bytes: Annotated[int, Meta(description="Bytes that a process can allocate.")]
    has_unified_memory: Annotated[
        bool,
        Meta(description="Whether the CPU has no other memory: what the host keeps counts too."),
    ]
    bandwidth_bytes_per_second: int
    peak_flops: Annotated[Mapping[str, int], Meta(description="Dense FLOP/s by number format.")]
    link_bytes_per_second: Annotated[
        int, Meta(description="To another GPU of the node: NVLink where there is one, else PCIe.")
    ]
    nvlink_bytes_per_second: int | None
    pcie_bytes_per_second: int
    mig_profiles: list[MigAnswer]
    compute_capability: Annotated[
        str | None,
        Meta(
            description="Of NVIDIA's GPUs: what decides which kernels run; null of others.",
            examples=["9.0"],
        ),
    ]
    gfx_target: Annotated[
        str | None, Meta(description="The same of AMD's GPUs; null of others.", examples=["gfx942"])
    ]
    sources: Annotated[Mapping[str, str], Meta(description="Where each figure comes from.")]


class GpuPage(Answer, frozen=True, kw_only=True):
    """GPUs, in the order of the catalogue."""

    items: list[GpuAnswer]
    next_cursor: str | None
