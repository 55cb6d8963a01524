"""Commands of containers: ``docker run``, compose files and Kubernetes' manifests."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.documents import read_document
from service.formats.launches.values.settings import Settings

DOCKER = Grammar(
    flags=frozenset(
        {
            *("d", "detach", "i", "interactive", "t", "tty", "it", "ti", "dit", "itd", "rm"),
            *(
                "privileged",
                "init",
                "P",
                "publish_all",
                "q",
                "quiet",
                "read_only",
                "no_healthcheck",
            ),
            *("oom_kill_disable", "sig_proxy", "disable_content_trust"),
        }
    ),
    short={"e": "env", "p": "publish", "v": "volume", "w": "workdir", "u": "user", "m": "memory"},
)
"""Options of ``docker run``; those without a value are docker's own
(``cli/command/container/opts.go``)."""
_ENTRY_POINTS: Mapping[str, tuple[str, ...]] = {
    "vllm-openai": ("vllm", "serve"),
    "llama.cpp": ("llama-server",),
    "text-generation-inference": ("text-generation-launcher",),
}
"""Entry points of engines' images, by the last part of their names.

vLLM, ``docker/Dockerfile``; llama.cpp, ``.devops/cuda.Dockerfile``, target server.
"""
_MAX_TAG = 128
"""Characters of an image's tag (the OCI distribution specification, pulling manifests)."""
_VERSION = re.compile(r"v?(\d+\.\d+(?:\.\d+)?)")
_CONTAINERS = ("spec.containers", "spec.template.spec.containers")
_SERVICE = re.compile(r"services\.([^.]+)\.(image|command|entrypoint)")
_SEPARATOR = re.compile(r"^---\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Words that a container runs, and its image's version."""

    tokens: tuple[str, ...]
    version: str = ""


def read_container(image: str, arguments: Sequence[str], entrypoint: Sequence[str]) -> Container:
    """Return what an image runs after its entry point."""
    path, _, tag = image.partition("@")[0].rpartition(":")
    if not path or "/" in tag:
        path, tag = image.partition("@")[0], ""
    match = _VERSION.search(tag[:_MAX_TAG])
    entry = tuple(entrypoint) or _ENTRY_POINTS.get(path.rpartition("/")[2], ())
    repeats = tuple(arguments[: len(entry)]) == entry
    tokens = tuple(arguments) if repeats else (*entry, *arguments)
    return Container(tokens=tokens, version="" if match is None else match[1])


def is_manifest(settings: Settings) -> bool:
    """Return whether a document is Kubernetes', or of compose."""
    is_object = "apiVersion" in settings and "kind" in settings
    return is_object or any(_SERVICE.fullmatch(name) for name in settings)


def split_documents(text: str) -> list[str]:
    """Return the documents of a YAML stream."""
    return [part for part in _SEPARATOR.split(text) if part.strip()]


def list_containers(name: str, text: str) -> Iterator[Container]:
    """Yield the containers of a manifest that run something."""
    for part in split_documents(text):
        for container in _list_specifications(read_document(name, part)):
            image, command = str(container.get("image", "")), container.get("command")
            # Kubernetes' ``command`` is an entry point, that of compose is not.
            is_pod = "name" in container
            entry = _list_texts(command if is_pod else container.get("entrypoint"))
            arguments = _list_texts(container.get("args") if is_pod else command)
            result = read_container(image, arguments, entry)
            if result.tokens:
                yield result


def _list_specifications(settings: Settings) -> Iterator[Mapping[str, object]]:
    for path in _CONTAINERS:
        setting = settings.take(path)
        if setting is not None and isinstance(setting.value, list):
            yield from (entry for entry in setting.value if isinstance(entry, Mapping))
    services: dict[str, dict[str, object]] = {}
    for path, setting in settings.take_all().items():
        match = _SERVICE.fullmatch(path)
        if match is not None:
            services.setdefault(match[1], {})[match[2]] = setting.value
    yield from services.values()


def _list_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [str(entry) for entry in value] if isinstance(value, list) else []
