from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.fit_request import FitRequest
    from ..models.launch_import_request import LaunchImportRequest


T = TypeVar("T", bound="ExplainRequest")


@_attrs_define
class ExplainRequest:
    """A log, a message or a memory snapshot of a run that failed, and what ran where that is known.

    Attributes:
        content (str | Unset): The log or message, as text; the end of a log is enough.
        content_base64 (str | Unset): The file in base64, in place of `content`: a pickled snapshot.
        question (FitRequest | Unset): A question: does this workload fit on this GPU in this layout.
        launch (LaunchImportRequest | Unset): A launch: files, a command or keyword arguments, and what they do not say.
    """

    content: str | Unset = UNSET
    content_base64: str | Unset = UNSET
    question: FitRequest | Unset = UNSET
    launch: LaunchImportRequest | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        content = self.content

        content_base64 = self.content_base64

        question: dict[str, Any] | Unset = UNSET
        if not isinstance(self.question, Unset):
            question = self.question.to_dict()

        launch: dict[str, Any] | Unset = UNSET
        if not isinstance(self.launch, Unset):
            launch = self.launch.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if content is not UNSET:
            field_dict["content"] = content
        if content_base64 is not UNSET:
            field_dict["content_base64"] = content_base64
        if question is not UNSET:
            field_dict["question"] = question
        if launch is not UNSET:
            field_dict["launch"] = launch

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.fit_request import FitRequest  # noqa: PLC0415
        from ..models.launch_import_request import LaunchImportRequest  # noqa: PLC0415

        d = dict(src_dict)
        content = d.pop("content", UNSET)

        content_base64 = d.pop("content_base64", UNSET)

        _question = d.pop("question", UNSET)
        question: FitRequest | Unset
        if isinstance(_question, Unset):
            question = UNSET
        else:
            question = FitRequest.from_dict(_question)

        _launch = d.pop("launch", UNSET)
        launch: LaunchImportRequest | Unset
        if isinstance(_launch, Unset):
            launch = UNSET
        else:
            launch = LaunchImportRequest.from_dict(_launch)

        explain_request = cls(
            content=content,
            content_base64=content_base64,
            question=question,
            launch=launch,
        )

        return explain_request
