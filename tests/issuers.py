"""An OpenID Connect issuer on loopback, whose keys a test makes, rotates and takes away."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as new_ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as new_rsa_key
from jwt.algorithms import get_default_algorithms

AUDIENCE = "headroom"
_PUBLIC_EXPONENT = 65_537


@cache
def private_key(key_id: str) -> Any:  # noqa: ANN401  # cryptography has no common name for private keys
    """Return the private key of an id, of the kind that its beginning says: ``rsa``, ``small``, ``ec`` or ``ed``."""
    kinds: dict[str, Callable[[], Any]] = {
        "rsa": lambda: new_rsa_key(_PUBLIC_EXPONENT, 2048),
        "small": lambda: new_rsa_key(_PUBLIC_EXPONENT, 1024),  # noqa: S505 - to see it refused
        "ec": lambda: new_ec_key(SECP256R1()),
        "ed": Ed25519PrivateKey.generate,
    }
    return kinds[key_id.partition("-")[0]]()


def algorithm_of(key_id: str) -> str:
    """Return what a key of this id signs with."""
    return {"rsa": "RS256", "small": "RS256", "ec": "ES256", "ed": "EdDSA"}[key_id.partition("-")[0]]


def jwk(key_id: str, **members: object) -> dict[str, object]:
    """Return the public half of a key as an issuer lists it."""
    algorithm = get_default_algorithms()[algorithm_of(key_id)]
    shown = algorithm.to_jwk(private_key(key_id).public_key(), as_dict=True)
    return {**shown, "kid": key_id, "use": "sig", "alg": algorithm_of(key_id), **members}


@dataclass(slots=True)
class Issuer:
    """What an issuer answers; ``hold`` keeps its answers back while it is not set."""

    url: str = ""
    keys: list[dict[str, object]] = field(default_factory=lambda: [jwk("rsa-1")])
    discovery: dict[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    def document(self, path: str) -> dict[str, object] | None:
        """Return what lives at a path."""
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | self.discovery
        return {"keys": self.keys} if path == "/keys" else None

    def token(self, key_id: str = "rsa-1", *, headers: dict[str, Any] | None = None, **claims: object) -> str:
        """Sign a token that is right for a minute, but for what is said otherwise; ``None`` leaves a claim out."""
        now = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "sub": "u-1", "exp": now + 60, "iat": now, "scope": "headroom:read"} | claims
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, private_key(key_id), algorithm_of(key_id), headers={"kid": key_id, **(headers or {})})


@contextmanager
def serving_issuer() -> Iterator[Issuer]:
    """Serve an issuer on a free port of loopback."""
    issuer = Issuer()
    issuer.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.hold.wait(30)
            found = issuer.document(self.path)
            self.send_response(200 if found is not None else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield issuer
        issuer.hold.set()
        server.shutdown()
        thread.join()
