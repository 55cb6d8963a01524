from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="ImportPod")


@_attrs_define
class ImportPod:
    """A pod of Kubernetes.

    Attributes:
        namespace (str): Its namespace.
        name (str): Its name.
        seen_at (datetime.datetime): RFC 3339: when it was first seen, after its owner was made.
    """

    namespace: str
    name: str
    seen_at: datetime.datetime

    def to_dict(self) -> dict[str, Any]:
        namespace = self.namespace

        name = self.name

        seen_at = self.seen_at.isoformat()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "namespace": namespace,
                "name": name,
                "seen_at": seen_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        namespace = d.pop("namespace")

        name = d.pop("name")

        seen_at = datetime.datetime.fromisoformat(d.pop("seen_at"))

        import_pod = cls(
            namespace=namespace,
            name=name,
            seen_at=seen_at,
        )

        return import_pod
