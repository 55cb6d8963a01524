from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.gpu_answer_aliases import GpuAnswerAliases
    from ..models.gpu_answer_peak_flops import GpuAnswerPeakFlops
    from ..models.gpu_answer_sources import GpuAnswerSources
    from ..models.mig_answer import MigAnswer


T = TypeVar("T", bound="GpuAnswer")


@_attrs_define
class GpuAnswer:
    """One GPU of the catalogue; links count both directions together.

    Attributes:
        name (str): Name of the GPU, by which every answer calls it.
        vendor (str): Its maker: `nvidia`, `amd` or `intel`.
        family (str): What several SKUs share.
        form (str): What it is built into: `server`, `workstation`, `desktop`, `laptop` or `module`.
        aliases (GpuAnswerAliases): Names that others use, by who uses them.
        capacity_bytes (int): NVML's total, in bytes.
        usable_bytes (int): Bytes that a process can allocate.
        has_unified_memory (bool): Whether the CPU has no other memory: what the host keeps counts too.
        bandwidth_bytes_per_second (int): Peak rate of its memory, in bytes per second.
        peak_flops (GpuAnswerPeakFlops): Dense FLOP/s by number format.
        link_bytes_per_second (int): To another GPU of the node: NVLink where there is one, else PCIe.
        nvlink_bytes_per_second (int | None): Bytes per second to another GPU of the node over NVLink or the maker's own
            links, both directions together; null where there are none.
        pcie_bytes_per_second (int): Bytes per second over PCIe, both directions together.
        mig_profiles (list[MigAnswer]): The slices that MIG cuts of it; empty where it cuts none.
        compute_capability (None | str): Of NVIDIA's GPUs: what decides which kernels run; null of others.
        gfx_target (None | str): The same of AMD's GPUs; null of others.
        sources (GpuAnswerSources): Where each figure comes from.
    """

    name: str
    vendor: str
    family: str
    form: str
    aliases: GpuAnswerAliases
    capacity_bytes: int
    usable_bytes: int
    has_unified_memory: bool
    bandwidth_bytes_per_second: int
    peak_flops: GpuAnswerPeakFlops
    link_bytes_per_second: int
    nvlink_bytes_per_second: int | None
    pcie_bytes_per_second: int
    mig_profiles: list[MigAnswer]
    compute_capability: None | str
    gfx_target: None | str
    sources: GpuAnswerSources
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        vendor = self.vendor

        family = self.family

        form = self.form

        aliases = self.aliases.to_dict()

        capacity_bytes = self.capacity_bytes

        usable_bytes = self.usable_bytes

        has_unified_memory = self.has_unified_memory

        bandwidth_bytes_per_second = self.bandwidth_bytes_per_second

        peak_flops = self.peak_flops.to_dict()

        link_bytes_per_second = self.link_bytes_per_second

        nvlink_bytes_per_second: int | None
        nvlink_bytes_per_second = self.nvlink_bytes_per_second

        pcie_bytes_per_second = self.pcie_bytes_per_second

        mig_profiles = []
        for mig_profiles_item_data in self.mig_profiles:
            mig_profiles_item = mig_profiles_item_data.to_dict()
            mig_profiles.append(mig_profiles_item)

        compute_capability: None | str
        compute_capability = self.compute_capability

        gfx_target: None | str
        gfx_target = self.gfx_target

        sources = self.sources.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "vendor": vendor,
                "family": family,
                "form": form,
                "aliases": aliases,
                "capacity_bytes": capacity_bytes,
                "usable_bytes": usable_bytes,
                "has_unified_memory": has_unified_memory,
                "bandwidth_bytes_per_second": bandwidth_bytes_per_second,
                "peak_flops": peak_flops,
                "link_bytes_per_second": link_bytes_per_second,
                "nvlink_bytes_per_second": nvlink_bytes_per_second,
                "pcie_bytes_per_second": pcie_bytes_per_second,
                "mig_profiles": mig_profiles,
                "compute_capability": compute_capability,
                "gfx_target": gfx_target,
                "sources": sources,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.gpu_answer_aliases import GpuAnswerAliases  # noqa: PLC0415
        from ..models.gpu_answer_peak_flops import GpuAnswerPeakFlops  # noqa: PLC0415
        from ..models.gpu_answer_sources import GpuAnswerSources  # noqa: PLC0415
        from ..models.mig_answer import MigAnswer  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        vendor = d.pop("vendor")

        family = d.pop("family")

        form = d.pop("form")

        aliases = GpuAnswerAliases.from_dict(d.pop("aliases"))

        capacity_bytes = d.pop("capacity_bytes")

        usable_bytes = d.pop("usable_bytes")

        has_unified_memory = d.pop("has_unified_memory")

        bandwidth_bytes_per_second = d.pop("bandwidth_bytes_per_second")

        peak_flops = GpuAnswerPeakFlops.from_dict(d.pop("peak_flops"))

        link_bytes_per_second = d.pop("link_bytes_per_second")

        def _parse_nvlink_bytes_per_second(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        nvlink_bytes_per_second = _parse_nvlink_bytes_per_second(d.pop("nvlink_bytes_per_second"))

        pcie_bytes_per_second = d.pop("pcie_bytes_per_second")

        mig_profiles = []
        _mig_profiles = d.pop("mig_profiles")
        for mig_profiles_item_data in _mig_profiles:
            mig_profiles_item = MigAnswer.from_dict(mig_profiles_item_data)

            mig_profiles.append(mig_profiles_item)

        def _parse_compute_capability(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        compute_capability = _parse_compute_capability(d.pop("compute_capability"))

        def _parse_gfx_target(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        gfx_target = _parse_gfx_target(d.pop("gfx_target"))

        sources = GpuAnswerSources.from_dict(d.pop("sources"))

        gpu_answer = cls(
            name=name,
            vendor=vendor,
            family=family,
            form=form,
            aliases=aliases,
            capacity_bytes=capacity_bytes,
            usable_bytes=usable_bytes,
            has_unified_memory=has_unified_memory,
            bandwidth_bytes_per_second=bandwidth_bytes_per_second,
            peak_flops=peak_flops,
            link_bytes_per_second=link_bytes_per_second,
            nvlink_bytes_per_second=nvlink_bytes_per_second,
            pcie_bytes_per_second=pcie_bytes_per_second,
            mig_profiles=mig_profiles,
            compute_capability=compute_capability,
            gfx_target=gfx_target,
            sources=sources,
        )

        gpu_answer.additional_properties = d
        return gpu_answer

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
