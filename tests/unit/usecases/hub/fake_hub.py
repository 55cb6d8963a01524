"""A hub of a few files behind a transport, which remembers every request."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from service.base.errors import ServiceError
from service.usecases.hub.addresses import GuardedTransport, HubPolicy
from service.usecases.hub.hub import Hub
from service.usecases.hub.values import HubReference

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PUBLIC = "8.8.8.8"
TOKEN = "hf_verysecrettoken"  # noqa: S105 - of a hub that is not there
MODEL = HubReference(repository="org/name")
SECRET = HubReference(repository="org/name", token=TOKEN)
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "torch_dtype": "bfloat16",
}
PARAMETERS = 2 * 128 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64


def make_safetensors(**tensors: int) -> bytes:
    """Return the header of a file of bf16 vectors of so many elements, and a little data."""
    header, at = {}, 0
    for name, size in tensors.items():
        offsets = [at, at + 2 * size]
        header[name] = {"dtype": "BF16", "shape": [size], "data_offsets": offsets}
        at += 2 * size
    body = json.dumps(header).encode()
    return len(body).to_bytes(8, "little") + body + bytes(100)


def make_wide_safetensors() -> bytes:
    """Return a header whose tensor has more dimensions than can be multiplied in time."""
    tensor = {"dtype": "BF16", "shape": [2**60] * 1_000, "data_offsets": [0, 2]}
    body = json.dumps({"a": tensor}).encode()
    return len(body).to_bytes(8, "little") + body


def make_repository(**files: bytes | Mapping[str, object]) -> dict[str, bytes]:
    """Return the files of a model; ``__`` in a name is a dot, ``_0_`` a dash."""
    found = {"config__json": CONFIG, "model__safetensors": make_safetensors(all=PARAMETERS)}
    return {
        name.replace("__", "."): value if isinstance(value, bytes) else json.dumps(value).encode()
        for name, value in {**found, **files}.items()
    }


@dataclass
class FakeHub:
    """A hub whose files are asked for over a transport."""

    files: dict[str, bytes] = field(default_factory=make_repository)
    respond: Callable[[httpx.Request], httpx.Response | None] = lambda _request: None
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    policy: HubPolicy = field(default_factory=HubPolicy)
    requests: list[httpx.Request] = field(default_factory=list)
    """As they went over the wire: the host of each is an address."""

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer as the hub does, with a body that is not read yet."""
        self.requests.append(request)
        answer = self._answer(request)
        stream = httpx.ByteStream(answer.content)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        own = self.respond(request)
        if own is not None:
            return own
        if "/api/models/" in request.url.path:
            names = [{"rfilename": name} for name in self.files]
            return httpx.Response(200, json={"sha": COMMIT, "siblings": names})
        name = request.url.path.partition(f"/resolve/{COMMIT}/")[2]
        if name not in self.files:
            return httpx.Response(404, headers={"x-error-code": "EntryNotFound"})
        content, span = self.files[name], request.headers.get("range")
        if span is None:
            return httpx.Response(200, content=content)
        first, _, last = span.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1]
        return httpx.Response(206 if part else 416, content=part)

    def resolve(self, host: str, _port: int) -> tuple[str, ...]:
        """Return the addresses of a host, one of the internet where none were given."""
        return self.addresses.get(host, (PUBLIC,))

    def make(self) -> Hub:
        """Return a reader of this hub that is guarded as a real one is."""
        inner = httpx.MockTransport(self.handle)
        guarded = GuardedTransport(self.policy, resolve=self.resolve, inner=inner)
        return Hub(self.policy, transport=guarded)

    @property
    def tokens(self) -> list[str | None]:
        """The token of each request."""
        return [request.headers.get("authorization") for request in self.requests]

    @property
    def hosts(self) -> list[str]:
        """The name of the host of each request."""
        return [request.headers["host"] for request in self.requests]


def redirect(host: str, *, status: int = 302, scheme: str = "https") -> Any:  # noqa: ANN401 - a responder
    """Return a responder that sends requests for weights to another host."""

    def respond(request: httpx.Request) -> httpx.Response | None:
        if request.headers["host"] == host or not request.url.path.endswith(".safetensors"):
            return None
        target = f"{scheme}://{host}{request.url.path}?signature=secretsignature"
        return httpx.Response(status, headers={"location": target})

    return respond


def read_refusal(fake: FakeHub, reference: HubReference = MODEL) -> ServiceError:
    """Return what a model is refused with; it never holds the token."""
    with pytest.raises(ServiceError) as refused:
        fake.make().fetch(reference)
    text = f"{refused.value!r} {refused.value.detail} {refused.value.extra}"
    assert TOKEN not in text
    assert "secretsignature" not in text
    return refused.value
