"""Imports of clusters between the contract and the use cases."""

from collections.abc import Sequence
from dataclasses import asdict, is_dataclass

from service.catalog.gpus import resolve_gpu
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import GpuByMemory
from service.contract.schemas.inventories.imports import (
    ClusterImportAnswer,
    ClusterImportRequest,
    FieldChangeAnswer,
    ImportOmission,
    InventoryChangeAnswer,
    InventorySums,
    UnknownGpuAnswer,
)
from service.contract.to_answer.timestamps import format_timestamp
from service.contract.to_question.models import prefix_error_field
from service.formats.inventories.detect import ReadingOptions, read_inventory
from service.formats.quantities import parse_bytes
from service.planner.cluster.changes import Change, ChangeKind, FieldChange
from service.usecases.clusters.imports import ClusterSums, ImportOutcome, NewImport
from service.usecases.clusters.observed_gpus import NamedGpu

MAX_CHANGES = 1000
"""Changes that an answer lists; it counts all of them."""


def read_import(request: ClusterImportRequest) -> NewImport:
    """Return the nodes of a request.

    Raises InvalidInputError for content that no tool prints.
    """
    contents = [request.content, *(get_or_none(request.also) or ())]
    with prefix_error_field("content"):
        observed = read_inventory(
            contents,
            declared=get_or_none(request.format),
            options=ReadingOptions(
                node=get_or_none(request.node),
                tolerated=frozenset(get_or_none(request.tolerates) or ()),
            ),
        )
    return NewImport(
        observed=observed,
        aliases=dict(_read_alias(*pair) for pair in (get_or_none(request.gpus) or {}).items()),
        scope=get_or_none(request.scope),
        observed_at=get_or_none(request.observed_at),
    )


def build_import_answer(name: str, new: NewImport, outcome: ImportOutcome) -> ClusterImportAnswer:
    """Return what an import changes, or would."""
    nodes = [change.kind for change in outcome.changes if change.node is not None]
    return ClusterImportAnswer(
        cluster=name,
        applied=outcome.is_applied,
        created=outcome.is_new,
        format=new.observed.format,
        source=new.observed.source,
        observed_at=format_timestamp(outcome.observed_at),
        before=_build_sums(outcome.before),
        after=_build_sums(outcome.after),
        num_added=nodes.count(ChangeKind.ADDED),
        num_removed=nodes.count(ChangeKind.REMOVED),
        num_changed=nodes.count(ChangeKind.CHANGED),
        num_changes=len(outcome.changes),
        changes=[_build_change(change) for change in outcome.changes[:MAX_CHANGES]],
        unknown_gpus=[
            UnknownGpuAnswer(
                name=gpu.name,
                num_nodes=gpu.num_nodes,
                num_gpus=gpu.num_gpus,
                memory_bytes=gpu.memory_bytes or None,
                candidates=list(gpu.candidates),
            )
            for gpu in outcome.unknown_gpus
        ],
        left_out=[ImportOmission(what=part.what, reason=part.reason) for part in outcome.omissions],
        warnings=list(outcome.warnings),
    )


def _read_alias(name: str, reference: str | GpuByMemory) -> tuple[str, NamedGpu]:
    """Return a tool's name of a GPU, and what it means."""
    field = f"gpus.{name}"
    if isinstance(reference, str):
        return name.casefold(), NamedGpu(name=resolve_gpu(reference, field=field).name)
    memory_bytes = parse_bytes(reference.memory_bytes, field=f"{field}.memory_bytes")
    return name.casefold(), NamedGpu(name=name, memory_bytes=memory_bytes)


def _build_sums(sums: ClusterSums) -> InventorySums:
    return InventorySums(nodes=sums.nodes, gpus=sums.gpus, free_gpus=sums.free_gpus)


def _build_change(change: Change) -> InventoryChangeAnswer:
    return InventoryChangeAnswer(
        kind=change.kind,
        pool=change.pool,
        gpu=change.gpu,
        node=change.node,
        fields=[_build_field(field) for field in change.fields],
    )


def _build_field(field: FieldChange) -> FieldChangeAnswer:
    return FieldChangeAnswer(
        name=field.name, before=_to_json(field.before), after=_to_json(field.after)
    )


def _to_json(value: object) -> object:
    """Return a value of the inventory as JSON has it."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_json(item) for item in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
