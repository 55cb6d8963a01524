"""Shipped pipelines: exact parameters, names, and configs that match."""

from typing import Any

import pytest

from service.base.errors import UnknownModelError
from service.catalog.pipelines.matching import match_pipeline
from service.catalog.pipelines.shipped import (
    SHORT_NAMES,
    is_pipeline,
    list_pipeline_names,
    load_pipeline,
)
from service.estimator.pipelines.decoding import read_pipeline
from service.estimator.values.errors import InvalidInputError, NotModelledError

_PARAMETERS = {
    ("stable-diffusion-1.5", "unet"): 859_520_964,
    ("stable-diffusion-1.5", "vae"): 83_653_863,
    ("stable-diffusion-1.5", "text_encoder"): 123_060_480,
    ("stable-diffusion-xl", "unet"): 2_567_463_684,
    ("stable-diffusion-xl", "text_encoder_2"): 694_659_840,
    ("flux.1-dev", "transformer"): 11_901_408_320,
    ("flux.1-dev", "text_encoder_2"): 4_762_310_656,
    ("flux.1-schnell", "transformer"): 11_891_178_560,
    ("stable-diffusion-3.5-large", "transformer"): 8_056_627_520,
    ("wan2.1-t2v-1.3b", "transformer"): 1_418_996_800,
    ("wan2.1-t2v-14b", "transformer"): 14_288_491_584,
    ("wan2.1-t2v-14b", "text_encoder"): 5_680_910_336,
    ("flux.2-dev", "transformer"): 32_223_281_152,
    ("flux.2-dev", "text_encoder"): 24_011_361_280,
    ("flux.2-klein-9b", "transformer"): 9_078_581_248,
    ("flux.2-klein-4b", "transformer"): 3_875_544_576,
    ("flux.2-klein-4b", "text_encoder"): 4_022_468_096,
    ("wan2.2-ti2v-5b", "transformer"): 4_999_787_712,
    ("wan2.2-ti2v-5b", "vae"): 704_688_668,
    ("z-image", "transformer"): 6_154_908_736,
    ("hunyuanvideo", "transformer"): 12_821_012_544,
    ("qwen-image", "transformer"): 20_430_401_088,
    ("qwen-image", "text_encoder"): 8_292_166_656,
    ("ltx-video-0.9", "transformer"): 1_923_385_472,
}
"""Elements of the weights, as diffusers' and transformers' own classes have them."""


@pytest.mark.parametrize("place", _PARAMETERS, ids="-".join)
def test_parameters_are_exact(place: tuple[str, str]) -> None:
    """A component has as many parameters as its class."""
    pipeline, component = place

    counted = load_pipeline(pipeline).components[component].num_parameters

    assert counted == _PARAMETERS[place]


def test_every_shipped_pipeline_is_read() -> None:
    """All have text encoders, a denoiser and a VAE."""
    pipelines = [load_pipeline(name) for name in list_pipeline_names()]

    assert len(pipelines) >= 17
    assert all({"vae", "text_encoder"} <= set(part.components) for part in pipelines)


def test_a_pipeline_goes_by_its_hubs_name() -> None:
    """Names on the hub are read in any case; others are refused with the nearest."""
    assert load_pipeline("black-forest-labs/FLUX.1-dev").name == "flux.1-dev"
    assert load_pipeline("SG161222/RealVisXL_V5.0").name == "stable-diffusion-xl"
    with pytest.raises(UnknownModelError, match=r"flux\.1-dev"):
        load_pipeline("flux-develop")


def test_a_pipeline_that_takes_a_picture_is_refused_in_words() -> None:
    """The nearest without a picture is named: less than what is wanted."""
    with pytest.raises(NotModelledError, match=r"take a picture.*modelled: flux\.1-dev"):
        load_pipeline("black-forest-labs/FLUX.1-Kontext-dev")


def _read_configs(name: str) -> dict[str, dict[str, Any]]:
    return {key: dict(part.config) for key, part in load_pipeline(name).components.items()}


def test_configs_of_a_checkpoint_match() -> None:
    """A fine-tuned model has its base's sizes; another width is told, with its field."""
    configs = _read_configs("stable-diffusion-xl")
    index = {"_class_name": "StableDiffusionXLPipeline"}

    matched = match_pipeline(index, configs)

    assert matched.name == "stable-diffusion-xl"
    configs["unet"]["cross_attention_dim"] = 1024
    with pytest.raises(NotModelledError, match="unet's cross_attention_dim"):
        match_pipeline(index, configs)


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"components": {"vae": {}}}, {"passes": {"decode": {"events": [1]}}}],
)
def test_a_broken_recording_is_refused(change: dict[str, Any]) -> None:
    """What is no whole recording says so."""
    document = {
        "format": 1, "class": "FluxPipeline", "diffusers": "0", "transformers": "0", "torch": "0",
        "pixel_step": 16, "frame_step": 0, "max_tokens": 1, "fixed_tokens": 0, "encoders": {},
        "components": {}, "passes": {}, "inputs": {}, **change,
    }  # fmt: skip
    with pytest.raises(InvalidInputError):
        read_pipeline(document)


@pytest.mark.parametrize(
    ("word", "name"),
    [("sdxl", "stable-diffusion-xl"), ("FLUX", "flux.1-dev"), ("sd1.5", "stable-diffusion-1.5")],
)
def test_what_people_call_a_pipeline_is_its_name(word: str, name: str) -> None:
    """`sdxl` was no name of a pipeline, nor near one."""
    assert is_pipeline(word)
    assert load_pipeline(word) == load_pipeline(name)


def test_every_short_name_is_of_a_shipped_pipeline() -> None:
    """None points nowhere, and none hides one that is shipped."""
    names = list_pipeline_names()

    assert set(SHORT_NAMES.values()) <= set(names)
    assert not set(SHORT_NAMES) & set(names)
