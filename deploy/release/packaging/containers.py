"""The containers' commands, from the images and docker-compose.yml.

They are the very commands, to be run without a container engine.
"""

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
    """The end of a Dockerfile: user, commands and environment."""

    extras: str
    """As pip takes them: ``[oidc,telemetry]``."""
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Command and health check of a service of the compose file."""

    argv: tuple[str, ...]
    healthcheck: tuple[str, ...]
    environment: Mapping[str, str]


def read_image(path: Path) -> Image:
    """Read the last stage of a Dockerfile."""
    text = path.read_text().replace("\\\n", " ")
    last = text.rpartition("\nFROM ")[2]

    def read_last(word: str) -> str:
        return str(re.findall(rf"^{word} (.+)$", last, re.MULTILINE)[-1])

    pairs = (
        pair.split("=", 1)
        for line in re.findall(r"^ENV (.+)$", last, re.MULTILINE)
        for pair in line.split()
    )
    return Image(
        extras=re.findall(r'install [^\n]*"\.(\[[a-z,]+\])"', text)[0],
        user=read_last("USER"),
        entrypoint=tuple(json.loads(read_last("ENTRYPOINT"))),
        command=tuple(json.loads(read_last("CMD"))),
        environment=dict(pairs),
    )


def list_containers(variables: Mapping[str, str]) -> dict[str, Container]:
    """Return our services of the compose file, interpolated."""
    services = read_compose(variables)["services"]
    return {
        name: _build_container(service)
        for name, service in services.items()
        if "deploy/images" in json.dumps(service)
    }


def read_compose(variables: Mapping[str, str]) -> dict[str, Any]:
    """Read the compose file as compose does with these variables.

    A variable that it demands must be among them.
    """

    def interpolate(variable: re.Match[str]) -> str:
        name, operator, default = variable.groups()
        return variables.get(name) or (default if operator == "-" else variables[name])

    document: dict[str, Any] = yaml.safe_load(
        _VARIABLE.sub(interpolate, (ROOT / "docker-compose.yml").read_text())
    )
    return document


def _build_container(service: Mapping[str, Any]) -> Container:
    built = read_image(ROOT / service["build"]["dockerfile"])
    check: Sequence[str] = service.get("healthcheck", {}).get("test", ["NONE"])
    return Container(
        argv=(*built.entrypoint, *(str(word) for word in service.get("command", built.command))),
        healthcheck=tuple(check[1:]),
        environment={
            **built.environment,
            **{name: str(value) for name, value in service["environment"].items()},
        },
    )
