"""GPUs of the catalogue as answers of /v1/gpus."""

from service.catalog.gpu_entries import GpuEntry
from service.contract.schemas.catalogue.gpus import GpuAnswer, MigAnswer


def build_gpu(entry: GpuEntry) -> GpuAnswer:
    """Return a GPU of the catalogue."""
    return GpuAnswer(
        name=entry.name,
        vendor=entry.vendor,
        family=entry.family,
        form=entry.form,
        aliases=entry.aliases,
        capacity_bytes=entry.capacity_bytes,
        usable_bytes=entry.usable_bytes,
        has_unified_memory=entry.has_unified_memory,
        bandwidth_bytes_per_second=entry.bandwidth_bytes_per_second,
        peak_flops=entry.peak_flops,
        link_bytes_per_second=entry.link_bytes_per_second,
        nvlink_bytes_per_second=entry.nvlink_bytes_per_second,
        pcie_bytes_per_second=entry.pcie_bytes_per_second,
        mig_profiles=[
            MigAnswer(
                name=profile.name,
                max_instances=profile.max_instances,
                memory_eighths=profile.memory_eighths,
                usable_bytes=entry.slice_usable_bytes(profile),
                multiprocessors=profile.multiprocessors,
            )
            for profile in entry.mig_profiles
        ],
        compute_capability=entry.compute_capability,
        gfx_target=entry.gfx_target,
        sources=entry.sources,
    )
