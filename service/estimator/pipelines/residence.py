"""Weights of a component on the GPU, by its offloading."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.pipelines.recording import RecordedComponent
from service.estimator.pipelines.workload import PipelineOffload
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Residence:
    """Tensors that stay through a pass, or through a module's call.

    All in bytes, tensor by tensor; ``by_module`` has the names that a log has.
    """

    constant: tuple[int, ...] = ()
    by_module: Mapping[str, tuple[int, ...]]


def make_constant(tensors: list[int]) -> Residence:
    """Return the residence of weights that stay."""
    return Residence(constant=tuple(tensors), by_module={})


def make_residence(
    component: RecordedComponent,
    dtype: DType,
    offload: PipelineOffload,
    modules: tuple[str, ...],
    *,
    blocks_per_group: int = 1,
    streams: bool = False,
) -> Residence:
    """Return what of a component is resident in its own pass.

    ``modules`` are those that the pass enters.
    """
    if offload in {PipelineOffload.NONE, PipelineOffload.MODEL}:
        return make_constant(component.list_tensors(dtype))
    if offload is PipelineOffload.SEQUENTIAL:
        return _make_sequential(component, dtype)
    return _make_grouped(component, dtype, modules, blocks_per_group, streams=streams)


def _make_sequential(component: RecordedComponent, dtype: DType) -> Residence:
    """Return each module's own tensors, there while it runs.

    (accelerate's ``attach_align_device_hook``: every module with tensors of its own has a hook.)
    """
    return Residence(
        by_module={
            _join(component.name, path): tuple(weight.count_bytes(dtype) for weight in weights)
            for path, weights in component.modules.items()
        }
    )


def _make_grouped(
    component: RecordedComponent,
    dtype: DType,
    modules: tuple[str, ...],
    blocks_per_group: int,
    *,
    streams: bool,
) -> Residence:
    """Return a group's blocks while one runs, and all outer tensors.

    (``_apply_group_offloading_block_level`` of diffusers 0.42.) Of a list every block counts as
    the largest group, with a stream as the largest two that follow each other.
    """
    by_module: dict[str, tuple[int, ...]] = {}
    for blocks in component.blocks:
        groups = _list_groups(component, dtype, blocks, blocks_per_group)
        size = 2 if streams else 1
        largest = max(
            (
                [row for part in groups[start : start + size] for row in part]
                for start in range(len(groups))
            ),
            key=sum,
            default=[],
        )
        prefix = f"{component.name}.{blocks}."
        for name in modules:
            if name.startswith(prefix) and name.removeprefix(prefix).isdigit():
                by_module[name] = tuple(largest)
    used = {name.split(".")[1] for name in modules if name.startswith(f"{component.name}.")}
    outer = tuple(
        weight.count_bytes(dtype)
        for path, weights in component.modules.items()
        for weight in weights
        if not any(path.startswith(f"{blocks}.") for blocks in component.blocks)
        and (not path or path.split(".")[0] in used or not used)
    )
    return Residence(constant=outer, by_module=by_module)


def _list_groups(
    component: RecordedComponent, dtype: DType, blocks: str, blocks_per_group: int
) -> list[list[int]]:
    """Return the tensors of each group of a list of blocks."""
    by_block: dict[int, list[int]] = {}
    for path, weights in component.modules.items():
        if path.startswith(f"{blocks}."):
            place = path.removeprefix(f"{blocks}.").split(".")[0]
            if place.isdigit():
                by_block.setdefault(int(place), []).extend(
                    weight.count_bytes(dtype) for weight in weights
                )
    ordered = [by_block[place] for place in sorted(by_block)]
    return [
        [row for part in ordered[start : start + blocks_per_group] for row in part]
        for start in range(0, len(ordered), blocks_per_group)
    ]


def _join(component: str, path: str) -> str:
    return f"{component}.{path}" if path else component
