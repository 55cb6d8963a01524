from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.rendering_answer_document_type_0 import RenderingAnswerDocumentType0


T = TypeVar("T", bound="RenderingAnswer")


@_attrs_define
class RenderingAnswer:
    """A job in a format, or why there is none.

    Attributes:
        format_ (str): The format's word.
        verdict (str): `fits`, `tight` or `does_not_fit`.
        document (None | RenderingAnswerDocumentType0 | str): An object of the scheduler's API, a List of several, or
            the text of a script; null where `reason` says why there is none.
        text (None | str): The same as a file: a script as it is, objects as YAML that `kubectl apply -f` reads; null
            where there is none.
        notes (list[str]): What of the workload no flag of the launch says.
        reason (None | str): Why there is none: it does not fit, or the format cannot carry it; null where there is one.
    """

    format_: str
    verdict: str
    document: None | RenderingAnswerDocumentType0 | str
    text: None | str
    notes: list[str]
    reason: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.rendering_answer_document_type_0 import RenderingAnswerDocumentType0  # noqa: PLC0415

        format_ = self.format_

        verdict = self.verdict

        document: dict[str, Any] | None | str
        if isinstance(self.document, RenderingAnswerDocumentType0):
            document = self.document.to_dict()
        else:
            document = self.document

        text: None | str
        text = self.text

        notes = self.notes

        reason: None | str
        reason = self.reason

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "format": format_,
                "verdict": verdict,
                "document": document,
                "text": text,
                "notes": notes,
                "reason": reason,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.rendering_answer_document_type_0 import RenderingAnswerDocumentType0  # noqa: PLC0415

        d = dict(src_dict)
        format_ = d.pop("format")

        verdict = d.pop("verdict")

        def _parse_document(data: object) -> None | RenderingAnswerDocumentType0 | str:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                document_type_0 = RenderingAnswerDocumentType0.from_dict(data)

                return document_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | RenderingAnswerDocumentType0 | str, data)

        document = _parse_document(d.pop("document"))

        def _parse_text(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        text = _parse_text(d.pop("text"))

        notes = cast(list[str], d.pop("notes"))

        def _parse_reason(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        reason = _parse_reason(d.pop("reason"))

        rendering_answer = cls(
            format_=format_,
            verdict=verdict,
            document=document,
            text=text,
            notes=notes,
            reason=reason,
        )

        rendering_answer.additional_properties = d
        return rendering_answer

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
