from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.admission_response_patch_type_type_0 import (
    AdmissionResponsePatchTypeType0,
    check_admission_response_patch_type_type_0,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.admission_response_audit_annotations import AdmissionResponseAuditAnnotations
    from ..models.admission_status import AdmissionStatus


T = TypeVar("T", bound="AdmissionResponse")


@_attrs_define
class AdmissionResponse:
    """Outcome of a review.

    Attributes:
        uid (str): Id of the review.
        allowed (bool): Whether it is let in.
        warnings (list[str] | Unset): Lines that its sender reads: what was found or changed.
        status (AdmissionStatus | None | Unset): Why it is refused; null where it is not.
        patch_type (AdmissionResponsePatchTypeType0 | None | Unset): Kind of the patch; null without one.
        patch (None | str | Unset): Changes of the object (RFC 6902) in base64; null without any.
        audit_annotations (AdmissionResponseAuditAnnotations | Unset): What the cluster's audit log keeps of it:
            `decision` (the line), `verdict`, and the `gpu` that it is about; absent where it is nothing.
    """

    uid: str
    allowed: bool
    warnings: list[str] | Unset = UNSET
    status: AdmissionStatus | None | Unset = UNSET
    patch_type: AdmissionResponsePatchTypeType0 | None | Unset = UNSET
    patch: None | str | Unset = UNSET
    audit_annotations: AdmissionResponseAuditAnnotations | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.admission_status import AdmissionStatus  # noqa: PLC0415

        uid = self.uid

        allowed = self.allowed

        warnings: list[str] | Unset = UNSET
        if not isinstance(self.warnings, Unset):
            warnings = self.warnings

        status: dict[str, Any] | None | Unset
        if isinstance(self.status, Unset):
            status = UNSET
        elif isinstance(self.status, AdmissionStatus):
            status = self.status.to_dict()
        else:
            status = self.status

        patch_type: None | str | Unset
        if isinstance(self.patch_type, Unset):
            patch_type = UNSET
        elif isinstance(self.patch_type, str):
            patch_type = self.patch_type
        else:
            patch_type = self.patch_type

        patch: None | str | Unset
        if isinstance(self.patch, Unset):
            patch = UNSET
        else:
            patch = self.patch

        audit_annotations: dict[str, Any] | Unset = UNSET
        if not isinstance(self.audit_annotations, Unset):
            audit_annotations = self.audit_annotations.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "uid": uid,
                "allowed": allowed,
            }
        )
        if warnings is not UNSET:
            field_dict["warnings"] = warnings
        if status is not UNSET:
            field_dict["status"] = status
        if patch_type is not UNSET:
            field_dict["patchType"] = patch_type
        if patch is not UNSET:
            field_dict["patch"] = patch
        if audit_annotations is not UNSET:
            field_dict["auditAnnotations"] = audit_annotations

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.admission_response_audit_annotations import AdmissionResponseAuditAnnotations  # noqa: PLC0415
        from ..models.admission_status import AdmissionStatus  # noqa: PLC0415

        d = dict(src_dict)
        uid = d.pop("uid")

        allowed = d.pop("allowed")

        warnings = cast(list[str], d.pop("warnings", UNSET))

        def _parse_status(data: object) -> AdmissionStatus | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                status_type_0 = AdmissionStatus.from_dict(data)

                return status_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(AdmissionStatus | None | Unset, data)

        status = _parse_status(d.pop("status", UNSET))

        def _parse_patch_type(data: object) -> AdmissionResponsePatchTypeType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                patch_type_type_0 = check_admission_response_patch_type_type_0(data)

                return patch_type_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(AdmissionResponsePatchTypeType0 | None | Unset, data)

        patch_type = _parse_patch_type(d.pop("patchType", UNSET))

        def _parse_patch(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        patch = _parse_patch(d.pop("patch", UNSET))

        _audit_annotations = d.pop("auditAnnotations", UNSET)
        audit_annotations: AdmissionResponseAuditAnnotations | Unset
        if isinstance(_audit_annotations, Unset):
            audit_annotations = UNSET
        else:
            audit_annotations = AdmissionResponseAuditAnnotations.from_dict(_audit_annotations)

        admission_response = cls(
            uid=uid,
            allowed=allowed,
            warnings=warnings,
            status=status,
            patch_type=patch_type,
            patch=patch,
            audit_annotations=audit_annotations,
        )

        admission_response.additional_properties = d
        return admission_response

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
