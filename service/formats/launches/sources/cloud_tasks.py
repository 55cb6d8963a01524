"""Tasks of SkyPilot and configurations of dstack: what they run.

SkyPilot 0.14, ``sky/task.py``, ``sky/resources.py`` and ``sky/skylet/constants.py``; dstack 0.22,
``core/models/configurations.py``, ``resources.py`` and ``runner/internal/executor``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from service.formats.launches.sources.containers import Container, Pod, read_container
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Settings

_Json = Mapping[str, object]
_SHELL = ("bash", "-c")
_TYPES = frozenset({"task", "service", "dev-environment"})
_TASK_KEYS = ("workdir", "setup", "num_nodes", "file_mounts", "envs", "resources", "service")
_CHOICES = ("any_of", "ordered")
_DOCKER = "docker:"
_RANGE = re.compile(r"(\d*)\.\.(\d*)")
_MEMORY = re.compile(r"\d{0,9}(?:\.\d{0,9})?\s{0,3}[gmt]i?b", re.IGNORECASE)
_VENDORS = frozenset({"nvidia", "amd", "intel", "google", "tpu", "tenstorrent"})
_MAX_DIGITS = 5
_MAX_OFFERS = 32
"""Of a task, whose script is read once for each."""
_PRODUCT = "nvidia.com/gpu.product"
_Offer = tuple[str | None, int | None]
"""A GPU's name and how many of it a node has; None for what is not said."""


def is_cloud_task(settings: Settings) -> bool:
    """Return whether a document is SkyPilot's task or a configuration of dstack."""
    names = {name.split(".")[0] for name in settings}
    kind = settings.peek("type")
    is_dstack = kind is not None and kind.value in _TYPES and "commands" in names
    return is_dstack or ("run" in names and not names.isdisjoint(_TASK_KEYS))


def list_cloud_tasks(document: _Json) -> list[Container]:
    """Return what a task runs, once for each GPU of a choice.

    Another document runs nothing.
    """
    run = document.get("run")
    if isinstance(run, str) and not document.keys().isdisjoint(_TASK_KEYS):
        return list(_iter_sky(document, run))
    commands = document.get("commands")
    if document.get("type") in _TYPES and isinstance(commands, list):
        return list(_iter_dstack(document, "\n".join(map(str, commands))))
    return []


def _iter_sky(document: _Json, run: str) -> Iterator[Container]:
    resources = _get_object(document, "resources")
    offers = list(_iter_accelerators(resources))
    nodes = document.get("num_nodes") or 1
    variables = {"SKYPILOT_NUM_NODES": str(nodes), "SKYPILOT_NODE_RANK": "0"}
    if (count := _find_count(offers)) is not None:
        variables["SKYPILOT_NUM_GPUS_PER_NODE"] = str(count)
    image = str(resources.get("image_id", ""))
    container = _make_container(run, image.removeprefix(_DOCKER), document.get("envs"), variables)
    yield from _place(container, offers, is_single=nodes == 1)


def _iter_accelerators(resources: _Json) -> Iterator[_Offer]:
    """Yield the GPUs of a task, by name and number.

    They are ``A100:8``, ``{A100: 8}``, lists of them, and choices of resources.
    """
    value = resources.get("accelerators")
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, Mapping):
            yield from ((str(name), _read_count(count)) for name, count in item.items())
        elif isinstance(item, str) and item:
            name, _, count = item.partition(":")
            yield name.strip(), _read_count(count.strip() or 1)
    for choice in _CHOICES:
        offers = resources.get(choice)
        for offer in offers if isinstance(offers, list) else []:
            if isinstance(offer, Mapping):
                yield from _iter_accelerators(offer)


def _iter_dstack(document: _Json, commands: str) -> Iterator[Container]:
    offers = list(_iter_gpus(_get_object(document, "resources").get("gpu")))
    nodes = document.get("nodes") or 1
    variables = {"DSTACK_NODES_NUM": str(nodes), "DSTACK_NODE_RANK": "0"}
    if (count := _find_count(offers)) is not None and isinstance(nodes, int):
        variables |= {"DSTACK_GPUS_PER_NODE": str(count), "DSTACK_GPUS_NUM": str(count * nodes)}
    image = str(document.get("image") or "")
    container = _make_container(commands, image, document.get("env"), variables)
    yield from _place(container, offers, is_single=nodes == 1)


def _iter_gpus(gpu: object) -> Iterator[_Offer]:
    """Yield the GPUs of a configuration, by name and number.

    They are ``H100:80GB:8``, ``24GB``, ``2`` or an object of the same. Of a range of numbers
    none is known.
    """
    if isinstance(gpu, Mapping):
        count = gpu.get("count", 1)
        if isinstance(count, Mapping):
            count = count.get("min") if count.get("min") == count.get("max") else None
        named = gpu.get("name")
        listed = named if isinstance(named, list) else [named]
        yield from ((None if name is None else str(name), _read_count(count)) for name in listed)
    elif isinstance(gpu, str | int):
        names: list[str] = []
        number: int | None = 1
        for part in str(gpu).split(":"):
            bounds = _RANGE.fullmatch(part)
            if bounds is not None or part.isdecimal():
                number = None if bounds else _read_count(part)
            elif not _MEMORY.search(part) and part.casefold() not in _VENDORS:
                names += [name.strip() for name in part.split(",")]
        yield from ((name or None, number) for name in names or [""])


def _find_count(offers: list[_Offer]) -> int | None:
    """Return how many GPUs a node has, None where offers differ."""
    counts = {count for _, count in offers}
    return counts.pop() if len(counts) == 1 else None


def _make_container(text: str, image: str, env: object, variables: Mapping[str, str]) -> Container:
    """Return the text's shell with the variables that it names."""
    named = {name: value for name, value in variables.items() if name in text}
    version = read_container(image, (), ()).version if image else ""
    environment = _list_variables(env) | named
    return Container(tokens=(*_SHELL, text), version=version, environment=environment)


def _place(container: Container, offers: list[_Offer], *, is_single: bool) -> Iterator[Container]:
    """Yield a container on each GPU that it may get.

    Raises LaunchFormatError where those are more than a choice.
    """
    if len(offers) > _MAX_OFFERS:
        message = f"{len(offers):,} GPUs to choose from; a task names {_MAX_OFFERS} at most"
        raise LaunchFormatError(message)
    for name, number in offers or [(None, None)]:
        limits = {} if number is None else {"nvidia.com/gpu": number}
        pod = Pod(
            container={"resources": {"limits": limits}},
            spec={} if name is None else {"nodeSelector": {_PRODUCT: name}},
            is_single=is_single,
        )
        yield replace(container, pod=pod)


def _read_count(value: object) -> int | None:
    """Return a whole number of GPUs; a share of one is none."""
    text = str(1 if value is None else value).rstrip("+")
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def _list_variables(value: object) -> dict[str, str]:
    """Return variables with a value, of an object or of ``NAME=value``."""
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items() if text is not None}
    pairs = [str(text).partition("=") for text in value] if isinstance(value, list) else []
    return {name: text for name, equals, text in pairs if equals}


def _get_object(part: _Json, name: str) -> _Json:
    value = part.get(name)
    return value if isinstance(value, Mapping) else {}
