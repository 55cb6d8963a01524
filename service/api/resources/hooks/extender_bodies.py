"""Bodies that schedulers send to extenders.

They are a pod, and up to all nodes of a cluster. A node has 10 KB and more, of which its name and
labels are read. So nodes are decoded one by one, beside the event loop, and those that stay go back
as they came.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import msgspec
from litestar import Request

from service.api.http.decoding import (
    MAX_BODY_BYTES,
    check_free_values,
    check_value_count,
    read_envelope,
    require_json,
)
from service.base.errors import BodyTooLargeError, InvalidRequestError
from service.base.typed import get_decoder
from service.contract.schemas.fields import JsonObject
from service.contract.schemas.hooks.extenders import (
    EnqueueEnvelope,
    ExtenderEnvelope,
    NodeEnvelope,
    PredicateEnvelope,
    PrioritizeEnvelope,
    TaskEnvelope,
    VolcanoNodeEnvelope,
)
from service.formats.submissions.extenders import LabelledNode, asks_for_gpus, label_node

MAX_EXTENDER_BYTES = 32 * 2**20
MAX_VALUES = 2_000_000
"""Of a body; a node with the most images that a kubelet reports has some 500."""

T = TypeVar("T")
E = TypeVar("E", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A pod, and the nodes that it may run on.

    ``raw_nodes`` are they as they came, None where the scheduler sends ``names`` alone.
    """

    pod: Mapping[str, object] | None
    nodes: tuple[LabelledNode, ...] = ()
    raw_nodes: tuple[msgspec.Raw, ...] | None = None
    names: tuple[str, ...] = ()


async def read_placement(
    request: Request[Any, Any, Any], body: bytes, read: Callable[[bytes], T]
) -> T:
    """Read a body beside the event loop, which answers others meanwhile."""
    require_json(request.scope)
    check_value_count(body, MAX_VALUES)
    return await anyio.to_thread.run_sync(partial(read, body))


def read_extender_args(body: bytes) -> Placement:
    """Return what kube-scheduler asks."""
    args = read_envelope(body, ExtenderEnvelope)
    listed = args.nodes or None
    raw_nodes = None if listed is None else tuple(listed.items)
    named = () if raw_nodes is None else _read_each(raw_nodes, NodeEnvelope, "Nodes.items")
    return Placement(
        pod=_read_object(args.pod, "Pod"),
        nodes=tuple(_label(node.metadata.name, node) for node in named),
        raw_nodes=raw_nodes,
        names=tuple(args.node_names or ()),
    )


def read_predicate(body: bytes) -> Placement:
    """Return what Volcano asks about a task and a node."""
    envelope = read_envelope(body, PredicateEnvelope)
    return Placement(
        pod=_read_object(envelope.task.pod, "task.Pod"),
        nodes=(_label(envelope.node.name, envelope.node.node),),
    )


def read_prioritization(body: bytes) -> Placement:
    """Return what Volcano asks about a task and many nodes."""
    envelope = read_envelope(body, PrioritizeEnvelope)
    named = _read_each(envelope.nodes or (), VolcanoNodeEnvelope, "nodes")
    return Placement(
        pod=_read_object(envelope.task.pod, "task.Pod"),
        nodes=tuple(_label(node.name, node.node) for node in named),
    )


def read_job(body: bytes) -> Placement:
    """Return a pod of a job that Volcano may queue.

    It is the first that asks for GPUs, if any.
    """
    first = None
    for pod in _iter_pods(read_envelope(body, EnqueueEnvelope).job.tasks or {}):
        if asks_for_gpus(pod):
            return Placement(pod=pod)
        first = first or pod
    return Placement(pod=first)


def _iter_pods(tasks: Mapping[str, msgspec.Raw]) -> Iterator[Mapping[str, object]]:
    for name, raw in tasks.items():
        place = f"job.Tasks.{name[:40]}"
        (task,) = _read_each((raw,), TaskEnvelope, place)
        pod = _read_object(task.pod, f"{place}.Pod")
        if pod is not None:
            yield pod


def _label(name: str, node: NodeEnvelope | None) -> LabelledNode:
    return label_node(name, {} if node is None else node.metadata.labels or {})


def _read_each(items: Iterable[msgspec.Raw], kind: type[E], place: str) -> Iterable[E]:
    decoder = get_decoder(kind)
    for index, item in enumerate(items):
        try:
            yield decoder.decode(item)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _refuse(f"{place}[{index}]", error) from error


def _read_object(raw: msgspec.Raw, place: str) -> Mapping[str, object] | None:
    """Return an object that is read in full.

    It may be as large as any other body.
    """
    text = bytes(raw)
    if len(text) > MAX_BODY_BYTES:
        message = f"{place} has at most {MAX_BODY_BYTES:,} bytes"
        raise BodyTooLargeError(message)
    try:
        value: Mapping[str, object] | None = get_decoder(JsonObject | None).decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refuse(place, error) from error
    check_free_values(text)
    return value


def _refuse(place: str, error: Exception) -> InvalidRequestError:
    message = f"{place} cannot be read: {error}"
    return InvalidRequestError(message, errors=[{"field": place, "message": message}])
