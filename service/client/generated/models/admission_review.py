from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.admission_review_api_version import AdmissionReviewApiVersion, check_admission_review_api_version
from ..models.admission_review_kind import AdmissionReviewKind, check_admission_review_kind

if TYPE_CHECKING:
    from ..models.admission_request import AdmissionRequest


T = TypeVar("T", bound="AdmissionReview")


@_attrs_define
class AdmissionReview:
    """A question of Kubernetes to an admission webhook.

    Attributes:
        api_version (AdmissionReviewApiVersion): The one there is.
        kind (AdmissionReviewKind): The one there is.
        request (AdmissionRequest): An object on its way into Kubernetes (admission.k8s.io/v1).
    """

    api_version: AdmissionReviewApiVersion
    kind: AdmissionReviewKind
    request: AdmissionRequest
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        api_version: str = self.api_version

        kind: str = self.kind

        request = self.request.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "apiVersion": api_version,
                "kind": kind,
                "request": request,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.admission_request import AdmissionRequest  # noqa: PLC0415

        d = dict(src_dict)
        api_version = check_admission_review_api_version(d.pop("apiVersion"))

        kind = check_admission_review_kind(d.pop("kind"))

        request = AdmissionRequest.from_dict(d.pop("request"))

        admission_review = cls(
            api_version=api_version,
            kind=kind,
            request=request,
        )

        admission_review.additional_properties = d
        return admission_review

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
