from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="FormatOptionsRequest")


@_attrs_define
class FormatOptionsRequest:
    """Names and queues of an installation.

    Attributes:
        queue (str | Unset): Queue of Kueue, KAI Scheduler or Volcano; default that of each, if any.
        topology (str | Unset): Label of a level of nodes that Kueue keeps a job within.
        gate (bool | Unset): Let Kueue hold the Job while `headroom.dev/fit` gates it. Default: False.
        namespace (str | Unset): Namespace of Kubernetes' objects; default that of who applies them.
        name (str | Unset): Name of the job and its objects; default one of the model's.
    """

    queue: str | Unset = UNSET
    topology: str | Unset = UNSET
    gate: bool | Unset = False
    namespace: str | Unset = UNSET
    name: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        queue = self.queue

        topology = self.topology

        gate = self.gate

        namespace = self.namespace

        name = self.name

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if queue is not UNSET:
            field_dict["queue"] = queue
        if topology is not UNSET:
            field_dict["topology"] = topology
        if gate is not UNSET:
            field_dict["gate"] = gate
        if namespace is not UNSET:
            field_dict["namespace"] = namespace
        if name is not UNSET:
            field_dict["name"] = name

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        queue = d.pop("queue", UNSET)

        topology = d.pop("topology", UNSET)

        gate = d.pop("gate", UNSET)

        namespace = d.pop("namespace", UNSET)

        name = d.pop("name", UNSET)

        format_options_request = cls(
            queue=queue,
            topology=topology,
            gate=gate,
            namespace=namespace,
            name=name,
        )

        return format_options_request
