"""A model's processor: what it makes of images, videos and audio."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.estimator.processors.defaults import Config, Fields
from service.estimator.processors.rules.items import Item
from service.estimator.processors.rules.settings import FIELD, Settings
from service.estimator.processors.types import TYPES, ProcessorType
from service.estimator.values.batches import Clip, Inputs, Picture, Sound
from service.estimator.values.errors import InvalidInputError

_SECTIONS = {
    "image": "image_processor",
    "video": "video_processor",
    "audio": "feature_extractor",
}
"""Sections of a processor_config.json."""
_PIXELS = {"min_pixels": "shortest_edge", "max_pixels": "longest_edge"}
"""Older names of the edges of ``size``."""
_UNUSED = frozenset(
    {
        "auto_map",
        "chat_template",
        "crop_size",
        "data_format",
        "default_to_square",
        "device",
        "do_center_crop",
        "do_convert_rgb",
        "do_normalize",
        "do_pad",
        "do_rescale",
        "do_resize",
        "do_sample_frames",
        "dither",
        "feature_size",
        "fps",
        "image_mean",
        "image_std",
        "input_data_format",
        "max_frames",
        "min_frames",
        "model_input_names",
        "n_fft",
        "nb_max_frames",
        "n_samples",
        "num_frames",
        "padding_side",
        "padding_value",
        "processor_class",
        "resample",
        "rescale_factor",
        "return_attention_mask",
        "return_metadata",
        "return_row_col_info",
        "return_tensors",
        "temporal_patch_size",
        "valid_processor_keys",
    }
)
"""Fields that change pixels' values, or which frames are taken, and no number of tokens."""
_OF_WEIGHTS = frozenset(
    {
        "audio_compression_rate",
        "audio_downsample_rate",
        "conv_kernel",
        "conv_stride",
        "downsample_factor",
        "dropped_tokens",
        "edge_features",
        "encoder_patch_size",
        "merge_size",
        "patch_size",
        "pooling_kernel_size",
        "positions",
        "spatial_merge_size",
        "temporal_patch_size",
    }
)
"""Fields that follow the model's config: another value has no weights."""
_SUFFIXES = ("_type", "_kwargs")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedItem:
    """Equal items of a request, and one of them as read."""

    kind: str
    source: Picture | Clip | Sound
    item: Item

    @property
    def count(self) -> int:
        """Number of the items."""
        return self.source.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Rules of a type with the fields of a model's processor."""

    model_type: str
    fields: Mapping[str, Fields] = field(hash=False)

    @property
    def rules(self) -> ProcessorType:
        """Rules of the type."""
        return TYPES[self.model_type]

    def count_items(self, inputs: Inputs) -> tuple[CountedItem, ...]:
        """Return every item of a sequence, in the order of the request.

        Raises InvalidInputError for a kind that the model does not read, and for what its
        processor refuses.
        """
        self._check_names(inputs.processor)
        settings = {
            kind: Settings(values=_override(kind, self.fields[kind], inputs.processor))
            for kind in self.fields
        }
        return (
            *(self._count_image(settings, picture, inputs) for picture in inputs.images),
            *(self._count_video(settings, clip) for clip in inputs.videos),
            *(self._count_audio(settings, sound) for sound in inputs.audio),
        )

    def _count_image(
        self, settings: Mapping[str, Settings], picture: Picture, inputs: Inputs
    ) -> CountedItem:
        if self.rules.image is None:
            raise self._refuse("images")
        rule = self.rules.image[0]
        item = rule(settings["image"], picture.height, picture.width, inputs.num_images)
        return CountedItem(kind="image", source=picture, item=item)

    def _count_video(self, settings: Mapping[str, Settings], clip: Clip) -> CountedItem:
        if self.rules.video is None:
            raise self._refuse("videos")
        rule = self.rules.video[0]
        item = rule(settings["video"], clip.frames, clip.height, clip.width)
        return CountedItem(kind="video", source=clip, item=item)

    def _count_audio(self, settings: Mapping[str, Settings], sound: Sound) -> CountedItem:
        if self.rules.audio is None:
            raise self._refuse("audio")
        samples = round(sound.seconds * settings["audio"].read_integer("sampling_rate"))
        item = self.rules.audio[0](settings["audio"], samples)
        return CountedItem(kind="audio", source=sound, item=item)

    def _check_names(self, sent: Mapping[str, object]) -> None:
        """Refuse a field that no processor of this type has."""
        deciding = {name for fields in self.fields.values() for name in fields}
        names = [*sent, *(name for part in _SECTIONS.values() for name in _get_section(sent, part))]
        for name in names:
            if name in deciding or name in _UNUSED or name in _PIXELS or name in _SECTIONS.values():
                continue
            if not name.endswith(_SUFFIXES):
                message = (
                    f"{name!r} is no field of the processor of {self.model_type}; those that "
                    f"decide are {', '.join(sorted(deciding))}"
                )
                raise InvalidInputError(message, field=FIELD)

    def _refuse(self, kind: str) -> InvalidInputError:
        names = {"image": "images", "video": "videos", "audio": "audio"}
        reads = ", ".join(name for part, name in names.items() if part in self.fields)
        message = f"{self.model_type} reads no {kind}; it reads {reads}"
        return InvalidInputError(message, field=f"workload.inputs.{kind}")


def read_processor(config: Config) -> Processor:
    """Return the processor of a config.json, of a type that has rules."""
    model_type = str(config.get("model_type"))
    rules = TYPES[model_type]
    parts = {"image": rules.image, "video": rules.video, "audio": rules.audio}
    fields = {kind: part[1](config) for kind, part in parts.items() if part is not None}
    return Processor(model_type=model_type, fields=fields)


def _override(kind: str, fields: Fields, sent: Mapping[str, object]) -> Fields:
    """Return the defaults with the fields of a request.

    Those of a preprocessor_config.json are the images', else the audio's; a section of a
    processor_config.json is of its own kind.
    """
    flat = {} if kind == "video" else sent
    overrides = {**flat, **_get_section(sent, _SECTIONS[kind])}
    _refuse_other_weights(fields, overrides)
    merged = {**fields, **{name: value for name, value in overrides.items() if name in fields}}
    size = merged.get("size")
    edges = {
        edge: overrides[name] for name, edge in _PIXELS.items() if overrides.get(name) is not None
    }
    if edges and isinstance(size, Mapping):
        merged["size"] = {**size, **edges}
    return merged


def _refuse_other_weights(fields: Fields, overrides: Mapping[str, object]) -> None:
    for name in sorted(_OF_WEIGHTS & fields.keys() & overrides.keys()):
        sent, own = overrides[name], fields[name]
        # What is of another type is refused where it is read.
        if type(sent) is type(own) and sent != own:
            message = (
                f"{name} of the processor is {sent!r:.60}, and that of the model's config is "
                f"{own!r:.60}, which its weights are made for; leave it out"
            )
            raise InvalidInputError(message, field=FIELD)


def _get_section(sent: Mapping[str, object], name: str) -> Mapping[str, object]:
    section = sent.get(name)
    return section if isinstance(section, Mapping) else {}
