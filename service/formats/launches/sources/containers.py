"""Commands of containers: ``docker run``, compose files and Kubernetes' manifests."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from service.formats.command_words import split_words
from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.container_gpus import (
    count_option,
    count_service,
    count_variable,
)
from service.formats.launches.sources.kubeflow import find_trainer, list_operator_variables
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

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
_TGI = ("text-generation-launcher",)
_ENTRY_POINTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("vllm-openai", "vllm-openai-rocm"), ("vllm", "serve")),
    "llama.cpp": ("llama-server",),
    "text-generation-inference": _TGI,
}
"""Entry points of engines' images for GPUs, by the last part of their names.

vLLM, ``docker/Dockerfile`` and ``Dockerfile.rocm``; llama.cpp, ``.devops/cuda.Dockerfile``, target
server.
"""
_OF_GOOGLE = re.compile(r"huggingface-text-generation-inference-cu\d+\.(\d+)-(\d+)\.")
"""Images of Google's registry, which are named for a release (Google-Cloud-Containers)."""
_SINGLE = frozenset({"Pod", "Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds whose pods are replicas, each a job of its own."""
_MAX_TAG = 128
"""Characters of an image's tag (the OCI distribution specification, pulling manifests)."""
_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)?)")
_ENGINES = ("vllm", "sglang", "llama.cpp", "tensorrt-llm", "text-generation-inference")
"""Engines whose images have their release as tag, by what the last part of the name holds."""
_TENSORRT_LLM = "tensorrt-llm/release"
_NVIDIA = "nvcr.io/nvidia/"
"""Registry whose images of other projects' engines have a month as tag, such as 25.09-py3."""
_SERVICE = re.compile(r"services\.([^.]+)\.(image|command|entrypoint)")
_SEPARATOR = re.compile(r"^---(?:[ \t]+#[^\r\n]*)?\s*$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"\$\(([A-Za-z_]\w*)\)")
"""How an argument of a container names a variable (Kubernetes, ``Container.args``)."""
_ATTACHED = re.compile(r"--env=|-e=?(?=\w)")
"""An option of ``docker run`` that has its variable in the same word."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_INTERPOLATION = re.compile(r"\$(?:\$|\{(\w+)(?::?-([^{}]*))?\}|([A-Za-z_]\w*))")
"""A variable of a compose file with its default, or ``$$`` for ``$`` (its specification)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A container of a manifest, and the specification of its pod.

    ``is_single`` says that one such pod is the whole job.
    """

    container: Mapping[str, object]
    spec: Mapping[str, object]
    is_single: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Words that a container runs, and its image's version."""

    tokens: tuple[str, ...]
    version: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    pod: Pod | None = None
    gpus: Setting | None = None
    """How many GPUs it is given, where that is said."""


def read_container(image: str, arguments: Sequence[str], entrypoint: Sequence[str]) -> Container:
    """Return what an image runs after its entry point."""
    path, _, tag = image.partition("@")[0].rpartition(":")
    if not path or "/" in tag:
        path, tag = image.partition("@")[0], ""
    last = path.rpartition("/")[2]
    entry = tuple(entrypoint) or _get_entry_point(last)
    repeats = tuple(arguments[: len(entry)]) == entry
    tokens = tuple(arguments) if repeats else (*entry, *arguments)
    built = _OF_GOOGLE.match(last[:_MAX_TAG])
    release = find_release(tag) if built is None else f"{built[1]}.{built[2]}"
    return Container(tokens=tokens, version=release if _is_engine(path) else "")


def _get_entry_point(image: str) -> tuple[str, ...]:
    """Return what an image starts, by the last part of its name."""
    return _TGI if _OF_GOOGLE.match(image[:_MAX_TAG]) else _ENTRY_POINTS.get(image, ())


def find_release(tag: str) -> str:
    """Return the release that a tag names, empty without one."""
    match = _VERSION.search(tag[:_MAX_TAG])
    return "" if match is None else match[1]


def _is_engine(path: str) -> bool:
    """Return whether an image's tag is its engine's release."""
    last = path.rpartition("/")[2]
    is_others = path.startswith(_NVIDIA) and "tensorrt" not in last
    is_named = any(engine in last for engine in _ENGINES) and not is_others
    return is_named or path.endswith(_TENSORRT_LLM)


def read_docker_run(
    settings: Settings, options: Sequence[str], remaining: Sequence[str], *, where: str
) -> Container:
    """Return what ``docker run`` runs: ``remaining`` are its image and words.

    Variables of the options stand before the words, as a shell assigns them; one without a value
    is the host's, which nobody says.
    """
    if not remaining:
        return Container(tokens=())
    entry = settings.take("entrypoint")
    entrypoint = [] if entry is None else str(entry.value).split()
    container = read_container(remaining[0], remaining[1:], entrypoint)
    assignments = [value for value in _list_variables(options) if _ASSIGNMENT.match(value)]
    if assignments:
        settings.take("env")
    variables = {name: value for name, _, value in (word.partition("=") for word in assignments)}
    gpus = count_option(options, where) or count_variable(variables, where)
    return replace(container, tokens=(*assignments, *container.tokens), gpus=gpus)


def _list_variables(options: Sequence[str]) -> Iterator[str]:
    for index, word in enumerate(options):
        attached = _ATTACHED.match(word)
        if attached is not None:
            yield word[attached.end() :]
        elif word in {"-e", "--env"}:
            yield from options[index + 1 : index + 2]


def is_manifest(settings: Settings) -> bool:
    """Return whether a document is Kubernetes', compose's, Ray Serve's or a chart's."""
    is_object = "apiVersion" in settings and "kind" in settings
    is_values = "applications" in settings or "servingEngineSpec.modelSpec" in settings
    return is_object or is_values or any(_SERVICE.fullmatch(name) for name in settings)


def split_documents(text: str) -> list[str]:
    """Return the documents of a YAML stream; comments alone are none."""
    return [part for part in _SEPARATOR.split(text) if _holds_anything(part)]


def _holds_anything(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("#") for line in lines)


def list_document_containers(name: str, document: Mapping[str, object]) -> Iterator[Container]:
    """Yield the containers of a document that run something."""
    services = document.get("services")
    if "kind" not in document and isinstance(services, Mapping):
        for service in services.values():
            if isinstance(service, Mapping):
                yield from _read_service(name, service)
        return
    variables = list_operator_variables(document)
    is_single = document.get("kind") in _SINGLE
    trainer = find_trainer(document)
    trained = {**trainer, "resources": trainer.get("resourcesPerNode")}
    for container, spec in ((trained, {}), *_list_pod_containers(document)):
        for result in _read_pod_container(container, variables):
            yield replace(result, pod=Pod(container=container, spec=spec, is_single=is_single))


def _list_pod_containers(
    value: object,
) -> Iterator[tuple[Mapping[str, object], Mapping[str, object]]]:
    """Yield the containers of every pod template below a value.

    Each comes with the specification of its pod.

    Jobs of several kinds, sets and services keep theirs at different depths.
    """
    if isinstance(value, list):
        for entry in value:
            yield from _list_pod_containers(entry)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "containers" and isinstance(inner, list):
                yield from ((entry, value) for entry in inner if isinstance(entry, Mapping))
            else:
                yield from _list_pod_containers(inner)


def _read_pod_container(
    container: Mapping[str, object], variables: Mapping[str, str]
) -> Iterator[Container]:
    """Yield what a pod's container runs, from its entry point ``command``.

    ``variables`` are its operator's, which win over those of the container.
    """
    listed = container.get("env")
    values = {
        str(entry.get("name")): str(entry["value"])
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(entry, Mapping) and "value" in entry
    }
    environment = {**values, **variables}
    entry, arguments = (
        [
            _ENVIRONMENT.sub(lambda match: environment.get(match[1], f"${{{match[1]}}}"), word)
            for word in _list_texts(container.get(key))
        ]
        for key in ("command", "args")
    )
    result = read_container(str(container.get("image", "")), arguments, entry)
    named = set(_ENVIRONMENT.findall(f"{container.get('command')} {container.get('args')}"))
    unused = {key: value for key, value in environment.items() if key not in named}
    if result.tokens:
        yield replace(result, environment=unused)


def _read_service(name: str, service: Mapping[str, object]) -> Iterator[Container]:
    """Yield what a compose service runs; ``command`` is no entry point."""
    entry = _expand_texts(name, service.get("entrypoint"))
    arguments = _expand_texts(name, service.get("command"))
    result = read_container(str(service.get("image", "")), arguments, entry)
    environment = _list_service_variables(service.get("environment"))
    requests = {key: _expand_inside(service.get(key)) for key in ("gpus", "deploy")}
    gpus = count_service(requests, name) or count_variable(environment, name)
    if result.tokens:
        yield replace(result, environment=environment, gpus=gpus)


def _list_service_variables(value: object) -> dict[str, str]:
    """Return a compose service's variables, but those that the host says."""
    if isinstance(value, Mapping):
        texts = [f"{name}={entry}" for name, entry in value.items() if entry is not None]
    else:
        texts = _list_texts(value)
    pairs = [_INTERPOLATION.sub(_interpolate, text).partition("=") for text in texts]
    return {name: entry for name, equals, entry in pairs if equals}


def _expand_texts(name: str, value: object) -> list[str]:
    """Return the words of a text or list, defaults in place."""
    if not isinstance(value, str):
        return [_INTERPOLATION.sub(_interpolate, text) for text in _list_texts(value)]
    try:
        return split_words(_INTERPOLATION.sub(_interpolate, value))
    except ValueError as error:
        message = f"a command cannot be cut into words: {error}"
        raise LaunchFormatError(message, where=name) from None


def _expand_inside(value: object) -> object:
    """Return a value with the variables of its texts in place."""
    if isinstance(value, Mapping):
        return {key: _expand_inside(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expand_inside(inner) for inner in value]
    return _INTERPOLATION.sub(_interpolate, value) if isinstance(value, str) else value


def _interpolate(match: re.Match[str]) -> str:
    """Return a variable's default, or what stands for what nobody knows."""
    name = match[1] or match[3]
    if name is None:
        return "$"
    return f"${{{name}}}" if match[2] is None else match[2]


def _list_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [str(entry) for entry in value] if isinstance(value, list) else []
