"""Images in what is served: prompts of language models, and one forward pass of models without a
cache.
"""

from typing import Any

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Engine
from tests.builders import a_device, a_serving
from tests.unit.estimator.model.families.vision.vision_models import SMALL

_TWO = {"num_sequences": 2, "prompt_tokens": 64}
_TILES = {**_TWO, "num_images": 2, "image_tokens": 16}
_ROWS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("vit", {"num_sequences": 8, "prompt_tokens": 65}, 2592768, 3422688),
    ("clip", {"num_sequences": 8, "prompt_tokens": 32}, 886784, 905280),
    ("llava", {**_TWO, "num_images": 2}, 459776, 606848),
    ("gemma3", {**_TWO, "num_images": 1}, 657408, 722944),
    ("qwen2_vl", _TILES, 2394208, 2394208),
    ("qwen2_5_vl", _TILES, 2394720, 2394720),
)
"""Live bytes above weights and buffers of models of transformers 5.23 at their highest in prefill:
SDPA, and eager.
"""
_GRIDS_BYTES = 6144
"""Masks of placeholders and positions of patches, which the estimate drops as it makes them."""


def _prefill(model: Architecture, **words: Any) -> int:  # noqa: ANN401 - any field of a workload
    workload = a_serving(**({"output_tokens": 0} | words))
    instants = {
        instant.name: instant.allocated_bytes
        for instant in estimate(model, workload, layout=Layout(), device=a_device()).instants
    }
    return instants["prefill"] - instants["load"]


@pytest.mark.parametrize(
    ("family", "words", "fused", "eager"), _ROWS, ids=[row[0] for row in _ROWS]
)
def test_prefill_holds_what_the_real_model_held(
    family: str, words: dict[str, Any], fused: int, eager: int
) -> None:
    """The tower runs before the language model, layer by layer; nothing of it is kept but the
    features.
    """
    model = architecture_from_config(SMALL[family])

    held = [
        _prefill(model, attention=kernel, **words) for kernel in (Attention.SDPA, Attention.EAGER)
    ]

    assert held == pytest.approx([fused, eager], abs=_GRIDS_BYTES)


def test_decode_runs_no_tower() -> None:
    """Once their features are in the cache, images cost what their tokens cost."""
    model = load_architecture(resolve_model("llava-1.5-7b"))

    answers = [
        estimate(model, a_serving(prompt_tokens=1024, **images), layout=Layout(), device=a_device())
        for images in ({}, {"num_images": 1})
    ]

    prefill, decode = (
        [instant.allocated_bytes for instant in answer.instants[1:]] for answer in answers
    )
    assert prefill[0] <= decode[0]
    assert prefill[1] == decode[1]


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("llava-1.5-7b", {}, "no images: the image tower of llava is loaded and idle"),
        ("vit-base-patch16-224", {"prompt_tokens": 128}, "prompt_tokens 128 has no effect"),
        ("vit-base-patch16-224", {"prompt_tokens": 197}, None),
        ("clip-vit-base-patch32", {"prompt_tokens": 30}, None),
    ],
)
def test_an_answer_says_what_it_took_of_images(
    name: str, words: dict[str, Any], said: str | None
) -> None:
    """A tower that is left out, and a length that the image decides, are named."""
    model = load_architecture(resolve_model(name))

    answer = estimate(
        model, a_serving(**({"output_tokens": 0} | words)), layout=Layout(), device=a_device()
    )

    told = " ".join(answer.warnings)
    assert (said in told) if said is not None else ("image" not in told)


@pytest.mark.parametrize(
    ("name", "words", "kind", "match"),
    [
        (
            "llava-1.5-7b",
            {"num_images": 1, "prompt_tokens": 512},
            InvalidInputError,
            "prompt_tokens is 512",
        ),
        ("llama-3.2-1b", {"num_images": 1}, InvalidInputError, "takes no images"),
        (
            "llava-1.5-7b",
            {"num_images": 1, "prompt_tokens": 1024, "engine": Engine.TENSORRT_LLM},
            NotModelledError,
            "prompts of tensorrt_llm",
        ),
        ("vit-base-patch16-224", {"output_tokens": 1}, InvalidInputError, "generates nothing"),
        (
            "clip-vit-base-patch32",
            {"num_images": 2, "prompt_tokens": 77},
            InvalidInputError,
            "one image per sequence",
        ),
    ],
)
def test_images_that_cannot_be_served_are_refused(
    name: str, words: dict[str, Any], kind: type[EstimatorError], match: str
) -> None:
    """The refusal names the word, and what would be right."""
    model = load_architecture(resolve_model(name))

    with pytest.raises(kind, match=match):
        estimate(
            model, a_serving(**({"output_tokens": 0} | words)), layout=Layout(), device=a_device()
        )
