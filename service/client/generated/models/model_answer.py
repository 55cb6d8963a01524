from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.gguf_answer import GgufAnswer
    from ..models.hub_answer import HubAnswer
    from ..models.model_answer_architecture import ModelAnswerArchitecture
    from ..models.model_answer_weight_bytes import ModelAnswerWeightBytes
    from ..models.parameters_answer import ParametersAnswer
    from ..models.recording_progress_answer import RecordingProgressAnswer


T = TypeVar("T", bound="ModelAnswer")


@_attrs_define
class ModelAnswer:
    """One model at one revision; revisions are never changed.

    Attributes:
        name (str): Name of the model.
        revision (int): Number of the revision, counted from 1.
        origin (str): `stored` or `catalogue`.
        family (str): Its family, the `model_type` of its config.
        created_at (None | str): RFC 3339, UTC; null for the catalogue.
        parameters (None | ParametersAnswer): Numbers of parameters; null until those of a model that is being recorded
            are counted.
        weight_bytes (ModelAnswerWeightBytes): Bytes of the weights by number format; empty until they are counted.
        architecture (ModelAnswerArchitecture): The structure in our own words, as `source.architecture` takes it; empty
            until its recording is there.
        warnings (list[str]): What of its files does not agree with the structure.
        state (str | Unset): `ready`; `recording` while a trace worker records its type; `refused` where that cannot be,
            or was cancelled: storing its config again queues it anew. Default: 'ready'.
        recording (None | RecordingProgressAnswer | Unset): How far its recording is; null where it is `ready`.
        aliases (list[str] | Unset): Other names of the catalogue's model.
        source (None | str | Unset): Where the catalogue took the config.json from; null for a stored model.
        gguf (GgufAnswer | None | Unset): What its GGUF file holds; null where it came as something else.
        hub (HubAnswer | None | Unset): Where on a hub it was read; null for what was sent.
    """

    name: str
    revision: int
    origin: str
    family: str
    created_at: None | str
    parameters: None | ParametersAnswer
    weight_bytes: ModelAnswerWeightBytes
    architecture: ModelAnswerArchitecture
    warnings: list[str]
    state: str | Unset = "ready"
    recording: None | RecordingProgressAnswer | Unset = UNSET
    aliases: list[str] | Unset = UNSET
    source: None | str | Unset = UNSET
    gguf: GgufAnswer | None | Unset = UNSET
    hub: HubAnswer | None | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.gguf_answer import GgufAnswer  # noqa: PLC0415
        from ..models.hub_answer import HubAnswer  # noqa: PLC0415
        from ..models.parameters_answer import ParametersAnswer  # noqa: PLC0415
        from ..models.recording_progress_answer import RecordingProgressAnswer  # noqa: PLC0415

        name = self.name

        revision = self.revision

        origin = self.origin

        family = self.family

        created_at: None | str
        created_at = self.created_at

        parameters: dict[str, Any] | None
        if isinstance(self.parameters, ParametersAnswer):
            parameters = self.parameters.to_dict()
        else:
            parameters = self.parameters

        weight_bytes = self.weight_bytes.to_dict()

        architecture = self.architecture.to_dict()

        warnings = self.warnings

        state = self.state

        recording: dict[str, Any] | None | Unset
        if isinstance(self.recording, Unset):
            recording = UNSET
        elif isinstance(self.recording, RecordingProgressAnswer):
            recording = self.recording.to_dict()
        else:
            recording = self.recording

        aliases: list[str] | Unset = UNSET
        if not isinstance(self.aliases, Unset):
            aliases = self.aliases

        source: None | str | Unset
        if isinstance(self.source, Unset):
            source = UNSET
        else:
            source = self.source

        gguf: dict[str, Any] | None | Unset
        if isinstance(self.gguf, Unset):
            gguf = UNSET
        elif isinstance(self.gguf, GgufAnswer):
            gguf = self.gguf.to_dict()
        else:
            gguf = self.gguf

        hub: dict[str, Any] | None | Unset
        if isinstance(self.hub, Unset):
            hub = UNSET
        elif isinstance(self.hub, HubAnswer):
            hub = self.hub.to_dict()
        else:
            hub = self.hub

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "revision": revision,
                "origin": origin,
                "family": family,
                "created_at": created_at,
                "parameters": parameters,
                "weight_bytes": weight_bytes,
                "architecture": architecture,
                "warnings": warnings,
            }
        )
        if state is not UNSET:
            field_dict["state"] = state
        if recording is not UNSET:
            field_dict["recording"] = recording
        if aliases is not UNSET:
            field_dict["aliases"] = aliases
        if source is not UNSET:
            field_dict["source"] = source
        if gguf is not UNSET:
            field_dict["gguf"] = gguf
        if hub is not UNSET:
            field_dict["hub"] = hub

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.gguf_answer import GgufAnswer  # noqa: PLC0415
        from ..models.hub_answer import HubAnswer  # noqa: PLC0415
        from ..models.model_answer_architecture import ModelAnswerArchitecture  # noqa: PLC0415
        from ..models.model_answer_weight_bytes import ModelAnswerWeightBytes  # noqa: PLC0415
        from ..models.parameters_answer import ParametersAnswer  # noqa: PLC0415
        from ..models.recording_progress_answer import RecordingProgressAnswer  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        revision = d.pop("revision")

        origin = d.pop("origin")

        family = d.pop("family")

        def _parse_created_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        created_at = _parse_created_at(d.pop("created_at"))

        def _parse_parameters(data: object) -> None | ParametersAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                parameters_type_0 = ParametersAnswer.from_dict(data)

                return parameters_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ParametersAnswer, data)

        parameters = _parse_parameters(d.pop("parameters"))

        weight_bytes = ModelAnswerWeightBytes.from_dict(d.pop("weight_bytes"))

        architecture = ModelAnswerArchitecture.from_dict(d.pop("architecture"))

        warnings = cast(list[str], d.pop("warnings"))

        state = d.pop("state", UNSET)

        def _parse_recording(data: object) -> None | RecordingProgressAnswer | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                recording_type_0 = RecordingProgressAnswer.from_dict(data)

                return recording_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | RecordingProgressAnswer | Unset, data)

        recording = _parse_recording(d.pop("recording", UNSET))

        aliases = cast(list[str], d.pop("aliases", UNSET))

        def _parse_source(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        source = _parse_source(d.pop("source", UNSET))

        def _parse_gguf(data: object) -> GgufAnswer | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                gguf_type_0 = GgufAnswer.from_dict(data)

                return gguf_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(GgufAnswer | None | Unset, data)

        gguf = _parse_gguf(d.pop("gguf", UNSET))

        def _parse_hub(data: object) -> HubAnswer | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                hub_type_0 = HubAnswer.from_dict(data)

                return hub_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(HubAnswer | None | Unset, data)

        hub = _parse_hub(d.pop("hub", UNSET))

        model_answer = cls(
            name=name,
            revision=revision,
            origin=origin,
            family=family,
            created_at=created_at,
            parameters=parameters,
            weight_bytes=weight_bytes,
            architecture=architecture,
            warnings=warnings,
            state=state,
            recording=recording,
            aliases=aliases,
            source=source,
            gguf=gguf,
            hub=hub,
        )

        model_answer.additional_properties = d
        return model_answer

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
