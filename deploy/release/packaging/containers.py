"""What containers run, read from the images and from docker-compose.yml: the very commands, to be run without an engine."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The end of a Dockerfile: who runs what, with which environment."""

    extras: str
    """As pip takes them: ``[oidc,telemetry]``."""
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What a service of the compose file runs, and how it tells that it is well."""

    argv: tuple[str, ...]
    healthcheck: tuple[str, ...]
    environment: Mapping[str, str]


def image(path: Path) -> Image:
    """Return what the last stage of a Dockerfile says."""
    text = path.read_text().replace("\\\n", " ")
    last = text.rpartition("\nFROM ")[2]

    def said(word: str) -> str:
        return str(re.findall(rf"^{word} (.+)$", last, re.MULTILINE)[-1])

    pairs = (pair.split("=", 1) for line in re.findall(r"^ENV (.+)$", last, re.MULTILINE) for pair in line.split())
    return Image(
        extras=re.findall(r'install [^\n]*"\.(\[[a-z,]+\])"', text)[0],
        user=said("USER"),
        entrypoint=tuple(json.loads(said("ENTRYPOINT"))),
        command=tuple(json.loads(said("CMD"))),
        environment=dict(pairs),
    )


def containers(variables: Mapping[str, str]) -> dict[str, Container]:
    """Return our services of the compose file, with what it interpolates."""
    services = compose(variables)["services"]
    return {name: _container(service) for name, service in services.items() if "deploy/images" in json.dumps(service)}


def compose(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the compose file as compose reads it where these variables are set; one that it demands must be among them."""

    def value(found: re.Match[str]) -> str:
        name, how, rest = found.groups()
        return variables.get(name) or (rest if how == "-" else variables[name])

    document: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(value, (ROOT / "docker-compose.yml").read_text()))
    return document


def _container(service: Mapping[str, Any]) -> Container:
    built = image(ROOT / service["build"]["dockerfile"])
    check: Sequence[str] = service.get("healthcheck", {}).get("test", ["NONE"])
    return Container(
        argv=(*built.entrypoint, *(str(word) for word in service.get("command", built.command))),
        healthcheck=tuple(check[1:]),
        environment={**built.environment, **{name: str(value) for name, value in service["environment"].items()}},
    )
