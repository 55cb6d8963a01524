from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.refusal_answer import RefusalAnswer
    from ..models.training_answer import TrainingAnswer


T = TypeVar("T", bound="ModelFamilyAnswer")


@_attrs_define
class ModelFamilyAnswer:
    """A family of models by the `model_type` of its config.json, and what is modelled of it.

    Attributes:
        name (str): The `model_type`.
        group (str): The kind of model: `dense`, `gpt` and `moe` decoders, `ssm` (state-space and hybrids), `encoders`
            (encoder-decoders too), `vision` (with and without text).
        models (list[str]): Names of the catalogue's models of this family.
        training (list[TrainingAnswer]): Frameworks that train it, by method.
        serving (list[str]): Engines that serve it.
        refused (list[RefusalAnswer]): Everything else, each with its reason.
    """

    name: str
    group: str
    models: list[str]
    training: list[TrainingAnswer]
    serving: list[str]
    refused: list[RefusalAnswer]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        group = self.group

        models = self.models

        training = []
        for training_item_data in self.training:
            training_item = training_item_data.to_dict()
            training.append(training_item)

        serving = self.serving

        refused = []
        for refused_item_data in self.refused:
            refused_item = refused_item_data.to_dict()
            refused.append(refused_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "group": group,
                "models": models,
                "training": training,
                "serving": serving,
                "refused": refused,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.refusal_answer import RefusalAnswer  # noqa: PLC0415
        from ..models.training_answer import TrainingAnswer  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        group = d.pop("group")

        models = cast(list[str], d.pop("models"))

        training = []
        _training = d.pop("training")
        for training_item_data in _training:
            training_item = TrainingAnswer.from_dict(training_item_data)

            training.append(training_item)

        serving = cast(list[str], d.pop("serving"))

        refused = []
        _refused = d.pop("refused")
        for refused_item_data in _refused:
            refused_item = RefusalAnswer.from_dict(refused_item_data)

            refused.append(refused_item)

        model_family_answer = cls(
            name=name,
            group=group,
            models=models,
            training=training,
            serving=serving,
            refused=refused,
        )

        model_family_answer.additional_properties = d
        return model_family_answer

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
