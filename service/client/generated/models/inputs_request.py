from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.clip_request import ClipRequest
    from ..models.inputs_request_processor import InputsRequestProcessor
    from ..models.picture_request import PictureRequest
    from ..models.sound_request import SoundRequest


T = TypeVar("T", bound="InputsRequest")


@_attrs_define
class InputsRequest:
    """Images, videos and audio of each sequence. The processor's own rules make tokens of them, which `sequence_length` or
    `prompt_tokens` counts.

        Attributes:
            images (list[PictureRequest] | Unset): Images by their pixels.
            videos (list[ClipRequest] | Unset): Videos by their frames and pixels.
            audio (list[SoundRequest] | Unset): Audio by its seconds.
            processor (InputsRequestProcessor | Unset): A preprocessor_config.json or processor_config.json, or those of its
                fields that differ (vLLM's `mm_processor_kwargs`), such as `max_pixels`; default those of the type's
                checkpoints.
    """

    images: list[PictureRequest] | Unset = UNSET
    videos: list[ClipRequest] | Unset = UNSET
    audio: list[SoundRequest] | Unset = UNSET
    processor: InputsRequestProcessor | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        images: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.images, Unset):
            images = []
            for images_item_data in self.images:
                images_item = images_item_data.to_dict()
                images.append(images_item)

        videos: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.videos, Unset):
            videos = []
            for videos_item_data in self.videos:
                videos_item = videos_item_data.to_dict()
                videos.append(videos_item)

        audio: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.audio, Unset):
            audio = []
            for audio_item_data in self.audio:
                audio_item = audio_item_data.to_dict()
                audio.append(audio_item)

        processor: dict[str, Any] | Unset = UNSET
        if not isinstance(self.processor, Unset):
            processor = self.processor.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if images is not UNSET:
            field_dict["images"] = images
        if videos is not UNSET:
            field_dict["videos"] = videos
        if audio is not UNSET:
            field_dict["audio"] = audio
        if processor is not UNSET:
            field_dict["processor"] = processor

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.clip_request import ClipRequest  # noqa: PLC0415
        from ..models.inputs_request_processor import InputsRequestProcessor  # noqa: PLC0415
        from ..models.picture_request import PictureRequest  # noqa: PLC0415
        from ..models.sound_request import SoundRequest  # noqa: PLC0415

        d = dict(src_dict)
        _images = d.pop("images", UNSET)
        images: list[PictureRequest] | Unset = UNSET
        if _images is not UNSET:
            images = []
            for images_item_data in _images:
                images_item = PictureRequest.from_dict(images_item_data)

                images.append(images_item)

        _videos = d.pop("videos", UNSET)
        videos: list[ClipRequest] | Unset = UNSET
        if _videos is not UNSET:
            videos = []
            for videos_item_data in _videos:
                videos_item = ClipRequest.from_dict(videos_item_data)

                videos.append(videos_item)

        _audio = d.pop("audio", UNSET)
        audio: list[SoundRequest] | Unset = UNSET
        if _audio is not UNSET:
            audio = []
            for audio_item_data in _audio:
                audio_item = SoundRequest.from_dict(audio_item_data)

                audio.append(audio_item)

        _processor = d.pop("processor", UNSET)
        processor: InputsRequestProcessor | Unset
        if isinstance(_processor, Unset):
            processor = UNSET
        else:
            processor = InputsRequestProcessor.from_dict(_processor)

        inputs_request = cls(
            images=images,
            videos=videos,
            audio=audio,
            processor=processor,
        )

        return inputs_request
