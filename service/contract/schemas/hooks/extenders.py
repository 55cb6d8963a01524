"""Requests and answers of extenders: kube-scheduler's and Volcano's.

Members have the names of Go's structs (k8s.io/kube-scheduler, ``extender/v1/types.go``;
volcano-sh/volcano, ``pkg/scheduler/plugins/extender/argument.go``), and unknown ones are passed
over. The envelopes are the same requests as they are read: what a cluster has many of is decoded
one by one.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from service.contract.schemas.fields import Answer, JsonObject

_POD = "The pod that looks for a node."


class NodeList(Struct, frozen=True, kw_only=True):
    """Nodes of Kubernetes."""

    items: Annotated[list[JsonObject], Meta(description="The nodes.")]


class ExtenderArgs(Struct, frozen=True, kw_only=True, rename="pascal"):
    """A pod of kube-scheduler, and the nodes that it may run on."""

    pod: Annotated[JsonObject, Meta(description=_POD)]
    nodes: Annotated[
        NodeList | UnsetType | None,
        Meta(description="The nodes; null where the scheduler's `nodeCacheCapable` is true."),
    ] = UNSET
    node_names: Annotated[
        list[str] | UnsetType | None,
        Meta(description="Their names, where it is true; null where it is not."),
    ] = UNSET


class ExtenderFilterResult(Answer, frozen=True, kw_only=True, rename="pascal"):
    """Nodes that hold a pod, and why the others do not."""

    nodes: Annotated[
        JsonObject | None, Meta(description="A NodeList of those left; null where names came.")
    ]
    node_names: Annotated[
        list[str] | None, Meta(description="Names of those left; null where nodes came.")
    ]
    failed_nodes: Annotated[
        Mapping[str, str],
        Meta(description="Empty: no preemption changes what a GPU holds."),
    ]
    failed_and_unresolvable_nodes: Annotated[
        Mapping[str, str], Meta(description="The line for each node that is left out.")
    ]
    error: Annotated[str, Meta(description="Empty: what cannot be answered leaves no node out.")]


class HostPriority(Answer, frozen=True, kw_only=True, rename="pascal"):
    """How well a node suits a pod."""

    host: Annotated[str, Meta(description="Name of the node.")]
    score: Annotated[
        int, Meta(description="0 to 10: 10 where the cheapest GPU is that holds the pod.")
    ]


class VolcanoTask(Struct, frozen=True, kw_only=True, rename="pascal"):
    """A pod, as Volcano has it."""

    pod: Annotated[JsonObject | None, Meta(description=f"{_POD} Null of a task without one.")] = (
        None
    )


class VolcanoNode(Struct, frozen=True, kw_only=True, rename="pascal"):
    """A node, as Volcano has it."""

    name: Annotated[str, Meta(description="Name of the node.")] = ""
    node: Annotated[
        JsonObject | None, Meta(description="The node of Kubernetes; null where it is gone.")
    ] = None


class VolcanoJob(Struct, frozen=True, kw_only=True, rename="pascal"):
    """A job of Volcano."""

    tasks: Annotated[
        dict[str, VolcanoTask] | None, Meta(description="Its pods by id; null where none is made.")
    ] = None


class PredicateRequest(Struct, frozen=True, kw_only=True):
    """A task, and a node that it may run on."""

    task: Annotated[VolcanoTask, Meta(description="The task.")]
    node: Annotated[VolcanoNode, Meta(description="The node.")]


class PredicateAnswer(Answer, frozen=True, kw_only=True):
    """Whether a task may run on a node."""

    status: Annotated[str, Meta(description="The line; empty where it may.")]
    code: Annotated[
        int, Meta(description="0, or 3 where it may not, and no preemption changes that.")
    ]


class PrioritizeRequest(Struct, frozen=True, kw_only=True):
    """A task, and the nodes that it may run on."""

    task: Annotated[VolcanoTask, Meta(description="The task.")]
    nodes: Annotated[
        list[VolcanoNode] | None, Meta(description="The nodes; null where there are none.")
    ] = None


class PrioritizeAnswer(Answer, frozen=True, kw_only=True, rename="camel"):
    """How well nodes suit a task."""

    node_score: Annotated[
        Mapping[str, float],
        Meta(description="By node, 0 to 10: 10 where the cheapest GPU is that holds it."),
    ]
    error_message: Annotated[str, Meta(description="Empty: what is unknown scores nothing.")]


class JobEnqueueableRequest(Struct, frozen=True, kw_only=True):
    """A job that waits to be queued."""

    job: Annotated[VolcanoJob, Meta(description="The job.")]


class JobEnqueueableAnswer(Answer, frozen=True, kw_only=True):
    """Whether a job may be queued."""

    status: Annotated[
        int, Meta(description="-1 where it does not fit on the GPUs that it names, else 0.")
    ]


class NodeMetadata(Struct, frozen=True, kw_only=True):
    """What is read of a node's metadata."""

    name: str = ""
    labels: dict[str, str] | None = None


class NodeEnvelope(Struct, frozen=True, kw_only=True):
    """What is read of a node: images, addresses and all the rest are passed over."""

    metadata: NodeMetadata = NodeMetadata()


class NodeListEnvelope(Struct, frozen=True, kw_only=True):
    """Nodes that are not read yet."""

    items: list[Raw]


class ExtenderEnvelope(Struct, frozen=True, kw_only=True, rename="pascal"):
    """An ``ExtenderArgs`` that is not read yet."""

    pod: Raw
    nodes: NodeListEnvelope | UnsetType | None = UNSET
    node_names: list[str] | UnsetType | None = UNSET


class TaskEnvelope(Struct, frozen=True, kw_only=True, rename="pascal"):
    """A ``VolcanoTask`` that is not read yet."""

    pod: Raw = Raw(b"null")


class VolcanoNodeEnvelope(Struct, frozen=True, kw_only=True, rename="pascal"):
    """What is read of a ``VolcanoNode``, not the pods on it."""

    name: str = ""
    node: NodeEnvelope | None = None


class PredicateEnvelope(Struct, frozen=True, kw_only=True):
    """A ``PredicateRequest`` that is not read yet."""

    task: TaskEnvelope
    node: VolcanoNodeEnvelope


class PrioritizeEnvelope(Struct, frozen=True, kw_only=True):
    """A ``PrioritizeRequest`` that is not read yet."""

    task: TaskEnvelope
    nodes: list[Raw] | None = None


class TasksEnvelope(Struct, frozen=True, kw_only=True, rename="pascal"):
    """A ``VolcanoJob`` that is not read yet."""

    tasks: dict[str, Raw] | None = None


class EnqueueEnvelope(Struct, frozen=True, kw_only=True):
    """A ``JobEnqueueableRequest`` that is not read yet."""

    job: TasksEnvelope
