from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.admission_request_object_type_0 import AdmissionRequestObjectType0
    from ..models.admission_user import AdmissionUser


T = TypeVar("T", bound="AdmissionRequest")


@_attrs_define
class AdmissionRequest:
    """An object on its way into Kubernetes (admission.k8s.io/v1).

    Attributes:
        uid (str): Id of the review, which its answer repeats.
        operation (str | Unset): `CREATE`, `UPDATE`, `DELETE` or `CONNECT`. Default: 'CREATE'.
        namespace (str | Unset): Namespace of the object. Default: ''.
        object_ (AdmissionRequestObjectType0 | None | Unset): The object; null where it is deleted.
        user_info (AdmissionUser | Unset): Whoever sends an object to Kubernetes.
        dry_run (bool | None | Unset): Whether nothing will be stored; null is no.
    """

    uid: str
    operation: str | Unset = "CREATE"
    namespace: str | Unset = ""
    object_: AdmissionRequestObjectType0 | None | Unset = UNSET
    user_info: AdmissionUser | Unset = UNSET
    dry_run: bool | None | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.admission_request_object_type_0 import AdmissionRequestObjectType0  # noqa: PLC0415

        uid = self.uid

        operation = self.operation

        namespace = self.namespace

        object_: dict[str, Any] | None | Unset
        if isinstance(self.object_, Unset):
            object_ = UNSET
        elif isinstance(self.object_, AdmissionRequestObjectType0):
            object_ = self.object_.to_dict()
        else:
            object_ = self.object_

        user_info: dict[str, Any] | Unset = UNSET
        if not isinstance(self.user_info, Unset):
            user_info = self.user_info.to_dict()

        dry_run: bool | None | Unset
        if isinstance(self.dry_run, Unset):
            dry_run = UNSET
        else:
            dry_run = self.dry_run

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "uid": uid,
            }
        )
        if operation is not UNSET:
            field_dict["operation"] = operation
        if namespace is not UNSET:
            field_dict["namespace"] = namespace
        if object_ is not UNSET:
            field_dict["object"] = object_
        if user_info is not UNSET:
            field_dict["userInfo"] = user_info
        if dry_run is not UNSET:
            field_dict["dryRun"] = dry_run

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.admission_request_object_type_0 import AdmissionRequestObjectType0  # noqa: PLC0415
        from ..models.admission_user import AdmissionUser  # noqa: PLC0415

        d = dict(src_dict)
        uid = d.pop("uid")

        operation = d.pop("operation", UNSET)

        namespace = d.pop("namespace", UNSET)

        def _parse_object_(data: object) -> AdmissionRequestObjectType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                object_type_0 = AdmissionRequestObjectType0.from_dict(data)

                return object_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(AdmissionRequestObjectType0 | None | Unset, data)

        object_ = _parse_object_(d.pop("object", UNSET))

        _user_info = d.pop("userInfo", UNSET)
        user_info: AdmissionUser | Unset
        if isinstance(_user_info, Unset):
            user_info = UNSET
        else:
            user_info = AdmissionUser.from_dict(_user_info)

        def _parse_dry_run(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        dry_run = _parse_dry_run(d.pop("dryRun", UNSET))

        admission_request = cls(
            uid=uid,
            operation=operation,
            namespace=namespace,
            object_=object_,
            user_info=user_info,
            dry_run=dry_run,
        )

        admission_request.additional_properties = d
        return admission_request

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
