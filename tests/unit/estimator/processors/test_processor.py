"""Processors: kinds, fields of a request, and what is refused in words."""

import pytest

from service.estimator.processors.processor import read_processor
from service.estimator.processors.types import TYPES
from service.estimator.values.batches import Clip, Inputs, Picture, Sound
from service.estimator.values.errors import InvalidInputError

_PICTURE = Picture(width=1024, height=768)


def _count(model_type: str, inputs: Inputs, **config: object) -> list[int]:
    items = read_processor({"model_type": model_type, **config}).count_items(inputs)
    return [counted.item.tokens for counted in items]


@pytest.mark.parametrize("model_type", TYPES)
def test_every_type_counts_what_it_reads(model_type: str) -> None:
    """Defaults are enough for each kind of input, and no kind is without a piece."""
    processor = read_processor({"model_type": model_type})
    inputs = Inputs(
        images=(_PICTURE,) * ("image" in processor.fields),
        videos=(Clip(frames=8, width=320, height=240),) * ("video" in processor.fields),
        audio=(Sound(seconds=10),) * ("audio" in processor.fields),
    )

    items = processor.count_items(inputs)

    assert [counted.kind for counted in items] == list(processor.fields)
    assert all(counted.item.pieces > 0 < counted.item.positions for counted in items)


def test_fields_of_a_request_win_over_the_defaults() -> None:
    """Limits of pixels, under their older names too, bound an image's tokens."""
    default, bounded = (
        _count("qwen2_5_vl", Inputs(images=(_PICTURE,), processor=processor))
        for processor in ({}, {"max_pixels": 256 * 28 * 28})
    )
    sized = _count(
        "qwen2_5_vl",
        Inputs(
            images=(_PICTURE,),
            processor={"size": {"shortest_edge": 3136, "longest_edge": 256 * 28 * 28}},
        ),
    )

    assert (default, bounded, sized) == ([999], [234], [234])


@pytest.mark.parametrize("sent", [{"merge_size": 1000}, {"image_processor": {"patch_size": 28}}])
def test_what_the_weights_decide_is_not_the_requests(sent: dict[str, object]) -> None:
    """A model reads patches of one size; its own value may be said again."""
    own = {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
    with pytest.raises(InvalidInputError, match="which its weights are made for"):
        _count("qwen2_5_vl", Inputs(images=(_PICTURE,), processor=sent))

    assert _count("qwen2_5_vl", Inputs(images=(_PICTURE,), processor=own)) == [999]


def test_sections_of_a_processor_config_are_of_their_own_kind() -> None:
    """A video's limit leaves images alone."""
    section = {"video_processor": {"size": {"shortest_edge": 4096, "longest_edge": 32 * 32 * 64}}}
    inputs = Inputs(
        images=(_PICTURE,),
        videos=(Clip(frames=2, width=640, height=480),),
        processor=section,
    )

    assert _count("qwen3_vl", inputs) == [768, 26]


def test_several_images_of_onevision_have_no_tiles() -> None:
    """One image is cut into tiles; of two each is a square and a line end."""
    alone, pair = (
        _count("llava_onevision", Inputs(images=(Picture(width=800, height=600, count=count),)))
        for count in (1, 2)
    )

    assert (alone, pair) == ([4_725], [730])


@pytest.mark.parametrize(
    ("model_type", "inputs", "words"),
    [
        ("llava", Inputs(audio=(Sound(seconds=3),)), "llava reads no audio; it reads images"),
        ("qwen2_vl", Inputs(images=(Picture(width=3000, height=10),)), "300.0 times"),
        ("glm4v", Inputs(videos=(Clip(frames=1, width=64, height=64),)), "needs 2 or more"),
        (
            "qwen2_vl",
            Inputs(images=(_PICTURE,), processor={"max_pixel": 1}),
            "'max_pixel' is no field of the processor of qwen2_vl; those that decide are",
        ),
        (
            "qwen2_vl",
            Inputs(images=(_PICTURE,), processor={"patch_size": "14"}),
            "field 'patch_size' of the processor is '14'; it must be an integer",
        ),
        (
            "internvl",
            Inputs(images=(_PICTURE,), processor={"max_patches": 10**9}),
            "1000000000 tiles of one image; up to 256",
        ),
    ],
)
def test_what_a_processor_would_refuse_is_refused(
    model_type: str, inputs: Inputs, words: str
) -> None:
    """The message says what was wrong, and what would be right."""
    with pytest.raises(InvalidInputError, match=r"inputs|processor|frames|times|tiles|reads") as e:
        _count(model_type, inputs)

    assert words in e.value.message


@pytest.mark.parametrize(
    "build",
    [
        lambda: Picture(width=0, height=10),
        lambda: Picture(width=10, height=10**7),
        lambda: Clip(frames=0, width=1, height=1),
        lambda: Sound(seconds=0),
        lambda: Sound(seconds=3, count=10**9),
    ],
)
def test_sizes_are_bounded(build) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - any maker of a size
    """No side, length or number is out of range."""
    with pytest.raises(InvalidInputError, match="it must be"):
        build()


@pytest.mark.parametrize("model_type", ["llava_next", "llava_onevision"])
def test_a_resolution_below_a_tile_is_refused(model_type: str) -> None:
    """A resolution without a whole tile is no division by nothing."""
    inputs = Inputs(images=(_PICTURE,), processor={"image_grid_pinpoints": [[1, 1]]})

    with pytest.raises(InvalidInputError, match="no whole tile"):
        _count(model_type, inputs)


def test_audio_below_a_window_has_no_tokens() -> None:
    """Audio shorter than a window takes no tokens, not fewer than none."""
    assert _count("phi4_multimodal", Inputs(audio=(Sound(seconds=0.01),))) == [0]
