"""A fake OpenID Connect issuer on loopback.

A test makes, rotates and takes away its keys.
"""

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
def private_key(key_id: str) -> Any:  # noqa: ANN401 - cryptography has no common name for private keys
    """Return the private key of an id.

    The beginning of the id is its kind: ``rsa``, ``small``, ``ec`` or ``ed``.
    """
    kinds: dict[str, Callable[[], Any]] = {
        "rsa": lambda: new_rsa_key(_PUBLIC_EXPONENT, 2048),
        "small": lambda: new_rsa_key(_PUBLIC_EXPONENT, 1024),  # noqa: S505 - to see it refused
        "ec": lambda: new_ec_key(SECP256R1()),
        "ed": Ed25519PrivateKey.generate,
    }
    return kinds[key_id.partition("-")[0]]()


def get_algorithm(key_id: str) -> str:
    """Return what a key of this id signs with."""
    return {"rsa": "RS256", "small": "RS256", "ec": "ES256", "ed": "EdDSA"}[
        key_id.partition("-")[0]
    ]


def jwk(key_id: str, **members: object) -> dict[str, object]:
    """Return the public half of a key as an issuer lists it."""
    algorithm = get_default_algorithms()[get_algorithm(key_id)]
    public_members = algorithm.to_jwk(private_key(key_id).public_key(), as_dict=True)
    return {**public_members, "kid": key_id, "use": "sig", "alg": get_algorithm(key_id), **members}


@dataclass(slots=True)
class Issuer:
    """Answers of an issuer; they wait while ``hold`` is not set."""

    url: str = ""
    keys: list[dict[str, object]] = field(default_factory=lambda: [jwk("rsa-1")])
    discovery: dict[str, object] = field(default_factory=dict)
    requested_paths: list[str] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    def document(self, path: str) -> dict[str, object] | None:
        """Return what lives at a path."""
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | self.discovery
        return {"keys": self.keys} if path == "/keys" else None

    def token(
        self, key_id: str = "rsa-1", *, headers: dict[str, Any] | None = None, **claims: object
    ) -> str:
        """Sign a token that is valid for a minute, with changed claims.

        ``None`` leaves a claim out.
        """
        now = int(time.time())
        all_claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "u-1",
            "exp": now + 60,
            "iat": now,
            "scope": "headroom:read",
        } | claims
        present_claims = {name: value for name, value in all_claims.items() if value is not None}
        return jwt.encode(
            present_claims,
            private_key(key_id),
            get_algorithm(key_id),
            headers={"kid": key_id, **(headers or {})},
        )


@contextmanager
def serving_issuer() -> Iterator[Issuer]:
    """Serve an issuer on a free port of loopback."""
    issuer = Issuer()
    issuer.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requested_paths.append(self.path)
            issuer.hold.wait(30)
            document = issuer.document(self.path)
            self.send_response(200 if document is not None else 404)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield issuer
        issuer.hold.set()
        server.shutdown()
        thread.join()
