"""Pipelines as their own files describe them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.pipelines.drives import DRIVES, Drive


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A pipeline's class, and each component's library, class and config."""

    class_name: str
    components: Mapping[str, tuple[str, str, Mapping[str, Any]]]

    @property
    def drive(self) -> Drive:
        """The class's calls; raises Refusal for an unknown one."""
        drive = DRIVES.get(self.class_name)
        if drive is None:
            message = f"pipelines of {self.class_name} are not recorded; {', '.join(DRIVES)} are"
            raise Refusal(FailureKind.UNSUPPORTED, message)
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
    return Source(class_name=index["_class_name"], components=components)
