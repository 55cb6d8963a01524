from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.launcher import Launcher, check_launcher

if TYPE_CHECKING:
    from ..models.launch_import_answer_question import LaunchImportAnswerQuestion
    from ..models.launch_import_answer_versions import LaunchImportAnswerVersions
    from ..models.open_question_answer import OpenQuestionAnswer
    from ..models.read_key_answer import ReadKeyAnswer


T = TypeVar("T", bound="LaunchImportAnswer")


@_attrs_define
class LaunchImportAnswer:
    """The question of a launch, and what became of each of its settings.

    Attributes:
        launcher (Launcher): Program or library whose settings are read.
        question (LaunchImportAnswerQuestion): A body of POST /v1/fit, whole where nothing is `missing`.
        read (list[ReadKeyAnswer]): Settings that count, defaults among them.
        without_effect (list[str]): Settings that decide neither memory nor time.
        ignored (list[str]): Settings that may decide either, and have no word here.
        questions (list[OpenQuestionAnswer]): What the launch leaves open; `workload`, `layout` or `gpu` may say it.
        missing (list[str]): Fields without which the question is not answered.
        refusal (None | str): What POST /v1/fit says to the question, where it reads it as illegal; null where it does
            not, or something is missing.
        warnings (list[str]): What the question does not hold for.
        versions (LaunchImportAnswerVersions): Releases whose keys and defaults these are, by package.
    """

    launcher: Launcher
    question: LaunchImportAnswerQuestion
    read: list[ReadKeyAnswer]
    without_effect: list[str]
    ignored: list[str]
    questions: list[OpenQuestionAnswer]
    missing: list[str]
    refusal: None | str
    warnings: list[str]
    versions: LaunchImportAnswerVersions
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        launcher: str = self.launcher

        question = self.question.to_dict()

        read = []
        for read_item_data in self.read:
            read_item = read_item_data.to_dict()
            read.append(read_item)

        without_effect = self.without_effect

        ignored = self.ignored

        questions = []
        for questions_item_data in self.questions:
            questions_item = questions_item_data.to_dict()
            questions.append(questions_item)

        missing = self.missing

        refusal: None | str
        refusal = self.refusal

        warnings = self.warnings

        versions = self.versions.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "launcher": launcher,
                "question": question,
                "read": read,
                "without_effect": without_effect,
                "ignored": ignored,
                "questions": questions,
                "missing": missing,
                "refusal": refusal,
                "warnings": warnings,
                "versions": versions,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.launch_import_answer_question import LaunchImportAnswerQuestion  # noqa: PLC0415
        from ..models.launch_import_answer_versions import LaunchImportAnswerVersions  # noqa: PLC0415
        from ..models.open_question_answer import OpenQuestionAnswer  # noqa: PLC0415
        from ..models.read_key_answer import ReadKeyAnswer  # noqa: PLC0415

        d = dict(src_dict)
        launcher = check_launcher(d.pop("launcher"))

        question = LaunchImportAnswerQuestion.from_dict(d.pop("question"))

        read = []
        _read = d.pop("read")
        for read_item_data in _read:
            read_item = ReadKeyAnswer.from_dict(read_item_data)

            read.append(read_item)

        without_effect = cast(list[str], d.pop("without_effect"))

        ignored = cast(list[str], d.pop("ignored"))

        questions = []
        _questions = d.pop("questions")
        for questions_item_data in _questions:
            questions_item = OpenQuestionAnswer.from_dict(questions_item_data)

            questions.append(questions_item)

        missing = cast(list[str], d.pop("missing"))

        def _parse_refusal(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        refusal = _parse_refusal(d.pop("refusal"))

        warnings = cast(list[str], d.pop("warnings"))

        versions = LaunchImportAnswerVersions.from_dict(d.pop("versions"))

        launch_import_answer = cls(
            launcher=launcher,
            question=question,
            read=read,
            without_effect=without_effect,
            ignored=ignored,
            questions=questions,
            missing=missing,
            refusal=refusal,
            warnings=warnings,
            versions=versions,
        )

        launch_import_answer.additional_properties = d
        return launch_import_answer

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
