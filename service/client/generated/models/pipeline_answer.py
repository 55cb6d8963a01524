from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.pipeline_answer_releases import PipelineAnswerReleases
    from ..models.pipeline_component_answer import PipelineComponentAnswer


T = TypeVar("T", bound="PipelineAnswer")


@_attrs_define
class PipelineAnswer:
    """A shipped pipeline and what it was recorded with.

    Attributes:
        name (str): Name by which it is asked.
        class_name (str): Its class in diffusers.
        hub_ids (list[str]): Its names on the hub, in lower case.
        makes_video (bool): Whether it makes videos, not images.
        components (list[PipelineComponentAnswer]): Its networks, text encoders and VAE.
        releases (PipelineAnswerReleases): Releases of the libraries that were recorded.
    """

    name: str
    class_name: str
    hub_ids: list[str]
    makes_video: bool
    components: list[PipelineComponentAnswer]
    releases: PipelineAnswerReleases
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        class_name = self.class_name

        hub_ids = self.hub_ids

        makes_video = self.makes_video

        components = []
        for components_item_data in self.components:
            components_item = components_item_data.to_dict()
            components.append(components_item)

        releases = self.releases.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "class_name": class_name,
                "hub_ids": hub_ids,
                "makes_video": makes_video,
                "components": components,
                "releases": releases,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.pipeline_answer_releases import PipelineAnswerReleases  # noqa: PLC0415
        from ..models.pipeline_component_answer import PipelineComponentAnswer  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        class_name = d.pop("class_name")

        hub_ids = cast(list[str], d.pop("hub_ids"))

        makes_video = d.pop("makes_video")

        components = []
        _components = d.pop("components")
        for components_item_data in _components:
            components_item = PipelineComponentAnswer.from_dict(components_item_data)

            components.append(components_item)

        releases = PipelineAnswerReleases.from_dict(d.pop("releases"))

        pipeline_answer = cls(
            name=name,
            class_name=class_name,
            hub_ids=hub_ids,
            makes_video=makes_video,
            components=components,
            releases=releases,
        )

        pipeline_answer.additional_properties = d
        return pipeline_answer

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
