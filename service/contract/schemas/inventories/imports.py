"""Request and answer of POST /v1/clusters/{name}/import."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.clusters import LevelName
from service.contract.schemas.fields import Answer, NodeName, Strict
from service.contract.schemas.fit import GpuReference
from service.formats.inventories.observed import InventoryFormat
from service.planner.cluster.adoption import ImportScope
from service.planner.cluster.changes import ChangeKind

MAX_IMPORT_BYTES = 128 * 1024**2
"""A body: 10,000 nodes as ``kubectl`` prints them have 60 MB without their lists of images."""
MAX_CONTENTS = 16

Content = Annotated[
    str | dict[str, Any] | list[dict[str, Any]],
    Meta(description="What the tool printed: its JSON as it is, or any output as text."),
]


class ClusterImportRequest(Strict, frozen=True, kw_only=True):
    """Nodes as another tool lists them."""

    content: Annotated[
        Content,
        Meta(description="The listing of nodes: JSON as it is, or the tool's output as text."),
    ]
    also: Annotated[
        Annotated[list[Content], Meta(max_length=MAX_CONTENTS)] | UnsetType,
        Meta(
            description=(
                "Further output of the same tool and moment: pods, ResourceClaims, `squeue --json`."
            )
        ),
    ] = UNSET
    format: Annotated[
        InventoryFormat | UnsetType | None,
        Meta(description="Whose output it is; told from the content when null or left out."),
    ] = UNSET
    apply: Annotated[
        bool,
        Meta(description="Store the result; without it the answer says what would change."),
    ] = False
    scope: Annotated[
        ImportScope | UnsetType,
        Meta(
            description=(
                "Which stored nodes go that the content lacks: none (`named`), those of the same "
                "tool (`source`), or all (`cluster`). Default `source`; `named` for `nvidia-smi` "
                "and `dcgm`, which show single nodes."
            )
        ),
    ] = UNSET
    node: Annotated[
        NodeName | UnsetType,
        Meta(description="Host of output that is of one node and does not name it: `nvidia-smi`."),
    ] = UNSET
    gpus: Annotated[
        Annotated[dict[Annotated[str, Meta(max_length=120)], GpuReference], Meta(max_length=100)]
        | UnsetType,
        Meta(
            description=(
                "What the tool's names of GPUs mean, where the catalogue has none or several: a "
                "name of the catalogue, or the memory that can be allocated."
            ),
            examples=[{"A100": "A100-SXM4-40GB", "zeta9000": {"memory_bytes": "24Gi"}}],
        ),
    ] = UNSET
    tolerates: Annotated[
        Annotated[list[LevelName], Meta(max_length=100)] | UnsetType,
        Meta(description="Keys of Kubernetes taints that your jobs tolerate."),
    ] = UNSET
    observed_at: Annotated[
        Annotated[datetime, Meta(tz=True)] | UnsetType,
        Meta(description="RFC 3339: when the tool printed it; default now."),
    ] = UNSET


class FieldChangeAnswer(Answer, frozen=True, kw_only=True):
    """One value that changes."""

    name: str
    before: Any
    after: Any


class InventoryChangeAnswer(Answer, frozen=True, kw_only=True):
    """A pool or a node that comes, goes or changes."""

    kind: ChangeKind
    pool: str
    gpu: str
    node: str | None
    fields: Sequence[FieldChangeAnswer]


class InventorySums(Answer, frozen=True, kw_only=True):
    """A cluster's size."""

    nodes: int
    gpus: int
    free_gpus: int


class UnknownGpuAnswer(Answer, frozen=True, kw_only=True):
    """A GPU that the catalogue does not have, or has under several names."""

    name: str
    num_nodes: int
    num_gpus: int
    memory_bytes: int | None
    candidates: Sequence[str]


class ImportOmission(Answer, frozen=True, kw_only=True):
    """Nodes or devices that became no part of the cluster."""

    what: str
    reason: str


class ClusterImportAnswer(Answer, frozen=True, kw_only=True):
    """What an import changes, or would."""

    cluster: str
    applied: bool
    created: bool
    format: InventoryFormat
    source: str
    observed_at: Annotated[str, Meta(description="RFC 3339, UTC: when the nodes were seen.")]
    before: InventorySums
    after: InventorySums
    num_added: int
    num_removed: int
    num_changed: int
    num_changes: int
    changes: Sequence[InventoryChangeAnswer]
    unknown_gpus: Sequence[UnknownGpuAnswer]
    left_out: Sequence[ImportOmission]
    warnings: Sequence[str]
