"""Images and videos named by their pixels, against live bytes of real models of their classes."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.batches import Clip, Inputs, Picture
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Attention, Cache, Engine
from tests.builders import a_device, a_serving, a_training
from tests.unit.estimator.model.families.vision.vision_models import SMALL

_PATCH = 14
_TOLERANCE_BYTES = 1024
"""The tracer's grids and scalars."""


def _picture(rows: int, columns: int) -> Picture:
    return Picture(height=rows * _PATCH, width=columns * _PATCH)


def _images(*grids: tuple[int, int]) -> Inputs:
    pictures = tuple(_picture(*grid) for grid in grids)
    return Inputs(images=pictures, processor={"min_pixels": 1})


def _frames(pairs: int, rows: int, columns: int) -> Inputs:
    clip = Clip(frames=2 * pairs, height=rows * _PATCH, width=columns * _PATCH)
    return Inputs(videos=(clip,), processor={"video_processor": {"min_pixels": 1}})


def _step(family: str, length: int, **words: Any) -> Estimate:  # noqa: ANN401 - any field of a workload
    workload = a_training(
        precision="bf16",
        optimizer="sgd",
        sequence_length=length,
        micro_batch_size=2,
        keeps_logits=True,
        fp32_outputs=False,
        attention=Attention.EAGER,
        **words,
    )
    model = architecture_from_config(SMALL[family])
    return estimate(model, workload, layout=Layout(), device=a_device())


def _phases(answer: Estimate) -> tuple[int, int]:
    phases = {phase.name: phase.allocated_bytes for phase in answer.phases}
    return phases["forward_pass"], phases["backward_pass"]


@pytest.mark.parametrize(
    ("family", "length", "inputs", "others", "more"),
    [
        ("qwen2_vl", 64, _images((8, 8), (8, 8)), _images((8, 8), (4, 12)), (1206656, 1267968)),
        ("qwen2_5_vl", 64, _images((8, 8), (8, 8)), _images((4, 12), (8, 8)), (1805056, 1805056)),
        ("qwen2_5_vl", 128, _frames(3, 12, 10), _images((20, 12), (6, 14)), (1121424, 1121424)),
    ],
    ids=["mixed", "mixed-windows", "frames-of-cut-windows"],
)
def test_sizes_of_images_cost_what_they_cost_the_real_model(
    family: str, length: int, inputs: Inputs, others: Inputs, more: tuple[int, int]
) -> None:
    """Patches, windows cut at edges and frames, each attended by itself, as traced steps of
    transformers 5.23 differ in forward and backward.
    """
    ours = _phases(_step(family, length, inputs=inputs))
    theirs = _phases(_step(family, length, inputs=others))

    differences = [here - there for here, there in zip(ours, theirs, strict=True)]
    assert differences == pytest.approx(more, abs=_TOLERANCE_BYTES)


@pytest.mark.parametrize(
    ("family", "words", "inputs"),
    [
        ("qwen2_vl", {"num_images": 2, "image_tokens": 16}, _images((8, 8), (8, 8))),
        ("llava", {"num_images": 2}, Inputs(images=(Picture(width=900, height=40, count=2),))),
        ("gemma3", {"num_images": 1}, Inputs(images=(Picture(width=64, height=64),))),
    ],
)
def test_pixels_and_numbers_ask_the_same(
    family: str, words: dict[str, int], inputs: Inputs
) -> None:
    """Images that the processor makes equal are those of `num_images` and `image_tokens`."""
    by_pixels, by_number = _step(family, 64, inputs=inputs), _step(family, 64, **words)

    assert by_pixels.allocated_bytes == by_number.allocated_bytes


def test_an_answer_says_what_each_item_becomes() -> None:
    """Tokens, features, pieces and the encoder's positions of one, and how many there are."""
    model = load_architecture(resolve_model("qwen2.5-vl-7b"))
    inputs = Inputs(images=(Picture(width=1024, height=768, count=4),))
    workload = a_serving(prompt_tokens=8192, inputs=inputs)

    answer = estimate(model, workload, layout=Layout(), device=a_device())

    (item,) = answer.inputs
    assert (item.kind, item.count, item.tokens, item.features) == ("image", 4, 999, 999)
    assert (item.pieces, item.positions) == (1, 3996)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_engines_with_a_pool_hold_the_tokens_of_images(engine: Engine) -> None:
    """Four images are so many tokens of a prompt, and have to have room in it."""
    model = load_architecture(resolve_model("qwen2.5-vl-7b"))
    inputs = Inputs(images=(Picture(width=1024, height=768, count=4),))

    def ask(**words: Any) -> Estimate:  # noqa: ANN401 - any field of a workload
        workload = a_serving(engine=engine, cache=Cache.PAGED, **words)
        return estimate(model, workload, layout=Layout(), device=a_device())

    with_images, text = ask(prompt_tokens=4096, inputs=inputs), ask(prompt_tokens=4096)
    with pytest.raises(InvalidInputError, match="inputs take 3996 tokens of a sequence"):
        ask(prompt_tokens=2048, inputs=inputs)

    assert with_images.device_bytes == text.device_bytes
    assert [item.tokens for item in with_images.inputs] == [999]
    assert any("vision tower" in warning for warning in with_images.warnings)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (
            "smollm2-135m",
            "llama is answered for text alone here: leave inputs out",
        ),
        (
            "idefics3",
            "count their 2227 tokens, by the processor of that type's checkpoints, in seq",
        ),
    ],
)
def test_a_model_without_a_tower_here_says_the_tokens(family: str, message: str) -> None:
    """What is left to do by hand is told in numbers, where the type's rules are known."""
    model = load_architecture(resolve_model("smollm2-135m"))
    if family == "idefics3":
        model = replace(model, spec=replace(model.spec, family=family))
    inputs = Inputs(images=(Picture(width=1024, height=768),))

    with pytest.raises(InvalidInputError) as raised:
        estimate(
            model,
            a_training(sequence_length=4096, inputs=inputs),
            layout=Layout(),
            device=a_device(),
        )

    assert message in raised.value.message


def test_other_engines_say_who_reads_images() -> None:
    """TensorRT-LLM's images have no term, and the refusal names engines that have one."""
    model = load_architecture(resolve_model("qwen2.5-vl-7b"))
    inputs = Inputs(images=(Picture(width=640, height=480),))
    workload = a_serving(engine=Engine.TENSORRT_LLM, cache=Cache.PAGED, inputs=inputs)

    with pytest.raises(NotModelledError, match="engine transformers, vllm or sglang"):
        estimate(model, workload, layout=Layout(), device=a_device())


@pytest.mark.parametrize(
    ("family", "words", "error", "message"),
    [
        (
            "qwen2_vl",
            {"inputs": _images((40, 40))},
            InvalidInputError,
            "but sequence_length is 64, which counts them: say 400 or more",
        ),
        (
            "qwen2_vl",
            {"inputs": _images((8, 8)), "num_images": 1},
            InvalidInputError,
            "inputs has the images by their pixels; leave num_images and image_tokens out",
        ),
        (
            "qwen2_vl",
            {
                "inputs": Inputs(
                    images=(_picture(8, 8),), videos=(Clip(frames=2, width=56, height=56),)
                )
            },
            NotModelledError,
            "images and videos in one sequence",
        ),
        (
            "vit",
            {"inputs": Inputs(images=(Picture(width=64, height=64, count=2),))},
            InvalidInputError,
            "this model reads one image per sequence",
        ),
        ("qwen2_vl", {"num_images": 1}, InvalidInputError, "say inputs with its width and height"),
    ],
)
def test_what_cannot_be_combined_is_said(
    family: str, words: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Each refusal says what was wrong and what would be right."""
    with pytest.raises(error, match=r"input|image") as raised:
        _step(family, 64, **words)

    assert message in str(raised.value)
