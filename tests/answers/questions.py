"""What is asked: values that a record keeps and a comparison asks again."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Json = dict[str, Any]

TOGETHER, IN_ORDER, RUN = "together", "in order", "RUN"
SEED = 20_261_123
REFRESHED_S = 2.5
"""The service reads keys, models and corrections anew each second, beside its answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request, or one command where ``argv`` says its words."""

    group: str
    method: str = "GET"
    path: str = ""
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    argv: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    when: str = TOGETHER
    pause_s: float = 0.0
    """How long what was stored before is left to be read by the service's own refresh."""
    captures: Mapping[str, str] = field(default_factory=dict)
    """Names of what later questions say as <<name>>, with the pattern that finds each."""

    def as_json(self) -> Json:
        """Return it as a record keeps it, without what is empty."""
        kept = {name: value for name, value in asdict(self).items() if value}
        return kept if self.body is None else kept | {"body": self.body}

    @property
    def label(self) -> str:
        """Say what is asked in one line."""
        said = " ".join(self.argv) if self.argv else f"{self.method} {self.path}"
        return f"{said} {self.body[:300]}" if self.body else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the service has, as it told itself before the first question."""

    models: Sequence[str]
    aliases: Sequence[str]
    gpus: Sequence[str]
    document: Json


def get(group: str, path: str, **more: Any) -> Question:  # noqa: ANN401
    """Return a question without a body."""
    return Question(group=group, path=path, **more)


def post(group: str, path: str, body: object, **more: Any) -> Question:  # noqa: ANN401
    """Return a question with a JSON body."""
    return Question(group=group, method="POST", path=path, body=json.dumps(body), **more)


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


def rng_of(name: str) -> random.Random:
    """Return the chance of one kind of questions, the same every time."""
    return random.Random(f"{SEED}/{name}")  # noqa: S311


def known_of(document: Json, models: Sequence[Json], gpus: Sequence[Json]) -> Known:
    """Return what the service has from three of its answers."""
    return Known(
        models=[model["name"] for model in models],
        aliases=[alias for model in models for alias in model["aliases"]],
        gpus=[gpu["name"] for gpu in gpus],
        document=document,
    )
