"""Recorded pipelines of diffusers that a release ships, by name."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from service.base.errors import UnknownModelError
from service.base.gzip_json import decode_gzip_json
from service.estimator.pipelines.decoding import read_pipeline
from service.estimator.pipelines.recording import RecordedPipeline
from service.estimator.values.errors import NotModelledError

_FOLDER = Path(__file__).parent
_SUFFIX = ".json.gz"
_HUB_IDS: Mapping[str, str] = {
    "black-forest-labs/flux.1-dev": "flux.1-dev",
    "black-forest-labs/flux.1-krea-dev": "flux.1-dev",
    "black-forest-labs/flux.1-schnell": "flux.1-schnell",
    "black-forest-labs/flux.2-dev": "flux.2-dev",
    "black-forest-labs/flux.2-klein-9b": "flux.2-klein-9b",
    "black-forest-labs/flux.2-klein-base-9b": "flux.2-klein-9b",
    "black-forest-labs/flux.2-klein-4b": "flux.2-klein-4b",
    "black-forest-labs/flux.2-klein-base-4b": "flux.2-klein-4b",
    "compvis/stable-diffusion-v1-4": "stable-diffusion-1.5",
    "hunyuanvideo-community/hunyuanvideo": "hunyuanvideo",
    "tencent/hunyuanvideo": "hunyuanvideo",
    "lightricks/ltx-video": "ltx-video-0.9",
    "lykon/dreamshaper-7": "stable-diffusion-1.5",
    "qwen/qwen-image": "qwen-image",
    "qwen/qwen-image-2512": "qwen-image",
    "rundiffusion/juggernaut-xl-v9": "stable-diffusion-xl",
    "runwayml/stable-diffusion-v1-5": "stable-diffusion-1.5",
    "sg161222/realvisxl_v4.0": "stable-diffusion-xl",
    "sg161222/realvisxl_v5.0": "stable-diffusion-xl",
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "stable-diffusion-1.5",
    "stabilityai/sdxl-turbo": "stable-diffusion-xl",
    "stabilityai/stable-diffusion-3.5-large": "stable-diffusion-3.5-large",
    "stabilityai/stable-diffusion-3.5-large-turbo": "stable-diffusion-3.5-large",
    "stabilityai/stable-diffusion-3.5-medium": "stable-diffusion-3.5-medium",
    "stabilityai/stable-diffusion-xl-base-1.0": "stable-diffusion-xl",
    "tongyi-mai/z-image": "z-image",
    "tongyi-mai/z-image-turbo": "z-image",
    "wan-ai/wan2.1-t2v-1.3b": "wan2.1-t2v-1.3b",
    "wan-ai/wan2.1-t2v-1.3b-diffusers": "wan2.1-t2v-1.3b",
    "wan-ai/wan2.1-t2v-14b": "wan2.1-t2v-14b",
    "wan-ai/wan2.1-t2v-14b-diffusers": "wan2.1-t2v-14b",
    "wan-ai/wan2.2-t2v-a14b": "wan2.2-t2v-a14b",
    "wan-ai/wan2.2-t2v-a14b-diffusers": "wan2.2-t2v-a14b",
    "wan-ai/wan2.2-ti2v-5b": "wan2.2-ti2v-5b",
    "wan-ai/wan2.2-ti2v-5b-diffusers": "wan2.2-ti2v-5b",
}
"""Names on the Hugging Face hub, folded, of pipelines with these configs.

Models that are fine-tuned or distilled from one have its sizes.
"""

_NEAREST: Mapping[str, str] = {
    "black-forest-labs/flux.1-fill-dev": "flux.1-dev",
    "black-forest-labs/flux.1-kontext-dev": "flux.1-dev",
    "qwen/qwen-image-edit": "qwen-image",
    "qwen/qwen-image-edit-2509": "qwen-image",
    "qwen/qwen-image-edit-2511": "qwen-image",
    "wan-ai/wan2.1-i2v-14b-480p-diffusers": "wan2.1-t2v-14b",
    "wan-ai/wan2.1-i2v-14b-720p-diffusers": "wan2.1-t2v-14b",
    "wan-ai/wan2.2-i2v-a14b-diffusers": "wan2.2-t2v-a14b",
}
"""Names on the hub, folded, of pipelines that take a picture, with those that take none."""
SHORT_NAMES: Mapping[str, str] = {
    "flux": "flux.1-dev",
    "flux-dev": "flux.1-dev",
    "flux-schnell": "flux.1-schnell",
    "hunyuan-video": "hunyuanvideo",
    "ltx-video": "ltx-video-0.9",
    "sd-1.5": "stable-diffusion-1.5",
    "sd1.5": "stable-diffusion-1.5",
    "sd3.5-large": "stable-diffusion-3.5-large",
    "sd3.5-medium": "stable-diffusion-3.5-medium",
    "sdxl": "stable-diffusion-xl",
    "stable-diffusion-v1-5": "stable-diffusion-1.5",
    "stable-diffusion-xl-base-1.0": "stable-diffusion-xl",
    "wan2.1": "wan2.1-t2v-14b",
    "wan2.2": "wan2.2-t2v-a14b",
}
"""What people call pipelines, with the shipped one that it means."""


@cache
def list_pipeline_names() -> tuple[str, ...]:
    """Return the names of the shipped pipelines."""
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in _FOLDER.glob(f"*{_SUFFIX}")))


def list_hub_ids(name: str) -> tuple[str, ...]:
    """Return the names that a shipped pipeline has on the hub, folded."""
    return tuple(hub for hub, shipped in _HUB_IDS.items() if shipped == name)


def is_pipeline(name: str) -> bool:
    """Return whether a shipped pipeline has this name."""
    folded = name.casefold()
    return _get_shipped_name(folded) in list_pipeline_names()


def load_pipeline(name: str) -> RecordedPipeline:
    """Return a shipped pipeline by its name, or the hub's.

    Raises UnknownModelError with the nearest names, and NotModelledError for a pipeline that takes
    a picture.
    """
    folded = name.casefold()
    if folded in _NEAREST:
        message = f"calls of {name}, which take a picture: its tokens and its encoding come on top"
        raise NotModelledError(message, field="pipeline", modelled=[_NEAREST[folded]])
    shipped = _get_shipped_name(folded)
    names = list_pipeline_names()
    if shipped not in names:
        near = get_close_matches(shipped, names, n=3, cutoff=0.4)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        message = f"Pipeline {name!r} is not shipped.{hint} Shipped: {', '.join(names)}."
        raise UnknownModelError(message, errors=[{"field": "pipeline", "message": message}])
    return _load(shipped)


def _get_shipped_name(folded: str) -> str:
    return _HUB_IDS.get(folded) or SHORT_NAMES.get(folded, folded)


@cache
def _load(name: str) -> RecordedPipeline:
    return read_pipeline(decode_gzip_json((_FOLDER / f"{name}{_SUFFIX}").read_bytes()), name)
