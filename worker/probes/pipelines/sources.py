"""Pipelines as their own files describe them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.pipelines.drives import DRIVES as FIRST_DRIVES
from worker.probes.pipelines.drives import Drive
from worker.probes.pipelines.later_drives import LATER_DRIVES

DRIVES = {**FIRST_DRIVES, **LATER_DRIVES}
_OPTIONS = ("expand_timesteps", "is_distilled")
"""Arguments of constructors that change a call, as ``model_index.json`` has them."""
_LATENT_PIXELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A pipeline's class, and each component's library, class and config."""

    class_name: str
    components: Mapping[str, tuple[str, str, Mapping[str, Any]]]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def drive(self) -> Drive:
        """The class's calls; raises Refusal for an unknown one."""
        drive = DRIVES.get(self.class_name)
        if drive is None:
            message = f"pipelines of {self.class_name} are not recorded; {', '.join(DRIVES)} are"
            raise Refusal(FailureKind.UNSUPPORTED, message)
        pixels = self.components.get("vae", ("", "", {}))[2].get("scale_factor_spatial")
        if drive.frame_step and pixels == 2 * _LATENT_PIXELS == 2 * drive.latent_pixels:
            # The VAE of Wan 2.2's 5B halves each side once more.
            return replace(drive, pixel_step=2 * drive.pixel_step, latent_pixels=pixels)
        return drive


def read_source(document: Mapping[str, Any]) -> Source:
    """Return the source of a ``model_index.json`` with ``configs`` by component.

    Raises Refusal where a component has no config.
    """
    index, configs = document["model_index"], document["configs"]
    components = {}
    for name, entry in index.items():
        is_component = isinstance(entry, list) and len(entry) == 2 and entry[0] is not None  # noqa: PLR2004 - library and class
        if not is_component or name.startswith(("tokenizer", "scheduler", "feature_extractor")):
            continue
        if name == "safety_checker":
            continue
        if name not in configs:
            message = f"model_index.json names {name}, whose config.json is not among the configs"
            raise Refusal(FailureKind.UNSUPPORTED, message)
        components[name] = (entry[0], entry[1], configs[name])
    options = {name: index[name] for name in _OPTIONS if name in index}
    return Source(class_name=index["_class_name"], components=components, options=options)
