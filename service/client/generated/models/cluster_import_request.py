from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.import_scope import ImportScope, check_import_scope
from ..models.inventory_format import InventoryFormat, check_inventory_format
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.cluster_import_request_also_item_type_1 import ClusterImportRequestAlsoItemType1
    from ..models.cluster_import_request_also_item_type_2_item import ClusterImportRequestAlsoItemType2Item
    from ..models.cluster_import_request_content_type_1 import ClusterImportRequestContentType1
    from ..models.cluster_import_request_content_type_2_item import ClusterImportRequestContentType2Item
    from ..models.cluster_import_request_gpus import ClusterImportRequestGpus


T = TypeVar("T", bound="ClusterImportRequest")


@_attrs_define
class ClusterImportRequest:
    """Nodes as another tool lists them.

    Attributes:
        content (ClusterImportRequestContentType1 | list[ClusterImportRequestContentType2Item] | str): The listing of
            nodes: JSON as it is, or the tool's output as text.
        also (list[ClusterImportRequestAlsoItemType1 | list[ClusterImportRequestAlsoItemType2Item] | str] | Unset):
            Further output of the same tool and moment: pods, ResourceClaims, `squeue --json`.
        format_ (InventoryFormat | None | Unset): Whose output it is; told from the content when null or left out.
        apply (bool | Unset): Store the result; without it the answer says what would change. Default: False.
        scope (ImportScope | Unset): Stored nodes that an import removes when it lacks them.
        node (str | Unset): Host of output that is of one node and does not name it: `nvidia-smi`.
        gpus (ClusterImportRequestGpus | Unset): What the tool's names of GPUs mean, where the catalogue has none or
            several: a name of the catalogue, or the memory that can be allocated.
        tolerates (list[str] | Unset): Keys of Kubernetes taints that your jobs tolerate.
        observed_at (datetime.datetime | Unset): RFC 3339: when the tool printed it; default now.
    """

    content: ClusterImportRequestContentType1 | list[ClusterImportRequestContentType2Item] | str
    also: list[ClusterImportRequestAlsoItemType1 | list[ClusterImportRequestAlsoItemType2Item] | str] | Unset = UNSET
    format_: InventoryFormat | None | Unset = UNSET
    apply: bool | Unset = False
    scope: ImportScope | Unset = UNSET
    node: str | Unset = UNSET
    gpus: ClusterImportRequestGpus | Unset = UNSET
    tolerates: list[str] | Unset = UNSET
    observed_at: datetime.datetime | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.cluster_import_request_also_item_type_1 import ClusterImportRequestAlsoItemType1  # noqa: PLC0415
        from ..models.cluster_import_request_content_type_1 import ClusterImportRequestContentType1  # noqa: PLC0415

        content: dict[str, Any] | list[dict[str, Any]] | str
        if isinstance(self.content, ClusterImportRequestContentType1):
            content = self.content.to_dict()
        elif isinstance(self.content, list):
            content = []
            for content_type_2_item_data in self.content:
                content_type_2_item = content_type_2_item_data.to_dict()
                content.append(content_type_2_item)

        else:
            content = self.content

        also: list[dict[str, Any] | list[dict[str, Any]] | str] | Unset = UNSET
        if not isinstance(self.also, Unset):
            also = []
            for also_item_data in self.also:
                also_item: dict[str, Any] | list[dict[str, Any]] | str
                if isinstance(also_item_data, ClusterImportRequestAlsoItemType1):
                    also_item = also_item_data.to_dict()
                elif isinstance(also_item_data, list):
                    also_item = []
                    for also_item_type_2_item_data in also_item_data:
                        also_item_type_2_item = also_item_type_2_item_data.to_dict()
                        also_item.append(also_item_type_2_item)

                else:
                    also_item = also_item_data
                also.append(also_item)

        format_: None | str | Unset
        if isinstance(self.format_, Unset):
            format_ = UNSET
        elif isinstance(self.format_, str):
            format_ = self.format_
        else:
            format_ = self.format_

        apply = self.apply

        scope: str | Unset = UNSET
        if not isinstance(self.scope, Unset):
            scope = self.scope

        node = self.node

        gpus: dict[str, Any] | Unset = UNSET
        if not isinstance(self.gpus, Unset):
            gpus = self.gpus.to_dict()

        tolerates: list[str] | Unset = UNSET
        if not isinstance(self.tolerates, Unset):
            tolerates = self.tolerates

        observed_at: str | Unset = UNSET
        if not isinstance(self.observed_at, Unset):
            observed_at = self.observed_at.isoformat()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "content": content,
            }
        )
        if also is not UNSET:
            field_dict["also"] = also
        if format_ is not UNSET:
            field_dict["format"] = format_
        if apply is not UNSET:
            field_dict["apply"] = apply
        if scope is not UNSET:
            field_dict["scope"] = scope
        if node is not UNSET:
            field_dict["node"] = node
        if gpus is not UNSET:
            field_dict["gpus"] = gpus
        if tolerates is not UNSET:
            field_dict["tolerates"] = tolerates
        if observed_at is not UNSET:
            field_dict["observed_at"] = observed_at

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.cluster_import_request_also_item_type_1 import ClusterImportRequestAlsoItemType1  # noqa: PLC0415
        from ..models.cluster_import_request_also_item_type_2_item import ClusterImportRequestAlsoItemType2Item  # noqa: PLC0415
        from ..models.cluster_import_request_content_type_1 import ClusterImportRequestContentType1  # noqa: PLC0415
        from ..models.cluster_import_request_content_type_2_item import ClusterImportRequestContentType2Item  # noqa: PLC0415
        from ..models.cluster_import_request_gpus import ClusterImportRequestGpus  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_content(data: object) -> ClusterImportRequestContentType1 | list[ClusterImportRequestContentType2Item] | str:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                content_type_1 = ClusterImportRequestContentType1.from_dict(data)

                return content_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, list):
                    raise TypeError()
                content_type_2 = []
                _content_type_2 = data
                for content_type_2_item_data in _content_type_2:
                    content_type_2_item = ClusterImportRequestContentType2Item.from_dict(content_type_2_item_data)

                    content_type_2.append(content_type_2_item)

                return content_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ClusterImportRequestContentType1 | list[ClusterImportRequestContentType2Item] | str, data)

        content = _parse_content(d.pop("content"))

        _also = d.pop("also", UNSET)
        also: list[ClusterImportRequestAlsoItemType1 | list[ClusterImportRequestAlsoItemType2Item] | str] | Unset = UNSET
        if _also is not UNSET:
            also = []
            for also_item_data in _also:

                def _parse_also_item(
                    data: object,
                ) -> ClusterImportRequestAlsoItemType1 | list[ClusterImportRequestAlsoItemType2Item] | str:
                    try:
                        if not isinstance(data, dict):
                            raise TypeError()
                        also_item_type_1 = ClusterImportRequestAlsoItemType1.from_dict(data)

                        return also_item_type_1
                    except (TypeError, ValueError, AttributeError, KeyError):
                        pass
                    try:
                        if not isinstance(data, list):
                            raise TypeError()
                        also_item_type_2 = []
                        _also_item_type_2 = data
                        for also_item_type_2_item_data in _also_item_type_2:
                            also_item_type_2_item = ClusterImportRequestAlsoItemType2Item.from_dict(also_item_type_2_item_data)

                            also_item_type_2.append(also_item_type_2_item)

                        return also_item_type_2
                    except (TypeError, ValueError, AttributeError, KeyError):
                        pass
                    return cast(ClusterImportRequestAlsoItemType1 | list[ClusterImportRequestAlsoItemType2Item] | str, data)

                also_item = _parse_also_item(also_item_data)

                also.append(also_item)

        def _parse_format_(data: object) -> InventoryFormat | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                format_type_0 = check_inventory_format(data)

                return format_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(InventoryFormat | None | Unset, data)

        format_ = _parse_format_(d.pop("format", UNSET))

        apply = d.pop("apply", UNSET)

        _scope = d.pop("scope", UNSET)
        scope: ImportScope | Unset
        if isinstance(_scope, Unset):
            scope = UNSET
        else:
            scope = check_import_scope(_scope)

        node = d.pop("node", UNSET)

        _gpus = d.pop("gpus", UNSET)
        gpus: ClusterImportRequestGpus | Unset
        if isinstance(_gpus, Unset):
            gpus = UNSET
        else:
            gpus = ClusterImportRequestGpus.from_dict(_gpus)

        tolerates = cast(list[str], d.pop("tolerates", UNSET))

        _observed_at = d.pop("observed_at", UNSET)
        observed_at: datetime.datetime | Unset
        if isinstance(_observed_at, Unset):
            observed_at = UNSET
        else:
            observed_at = datetime.datetime.fromisoformat(_observed_at)

        cluster_import_request = cls(
            content=content,
            also=also,
            format_=format_,
            apply=apply,
            scope=scope,
            node=node,
            gpus=gpus,
            tolerates=tolerates,
            observed_at=observed_at,
        )

        return cluster_import_request
