"""Bearer tokens of an OpenID Connect issuer (RFC 7519, RFC 9068).

Only asymmetric signatures count: a token that says ``none`` or ``HS256`` is refused before any key
is looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from service.access.keys import ISSUER_PREFIX, Principal, Scope, expand_scopes
from service.base.errors import UnauthorizedError

ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
LEEWAY_S = 30.0
"""Accepted difference between the clocks of the issuer and of this machine."""
_MIN_RSA_BITS = 2048  # RFC 7518, sec. 3.3
_MAX_TOKEN_CHARS = 16_384
_MAX_NAME_CHARS = 200
_REQUIRED = ("exp", "iss", "aud", "sub")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Trusted issuer, audience and the mapping of claims to scopes."""

    issuer: str
    audience: str
    scopes_claim: str
    scopes: Mapping[str, Scope]
    rate: str | None = None
    quota: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A public key of the issuer.

    ``algorithm`` is the only one that the key may be used with, where the issuer says so.
    """

    key: Any
    algorithm: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySet:
    """The signing keys of an issuer by their ids."""

    by_id: Mapping[str, SigningKey] = field(default_factory=dict)

    def find(self, key_id: str | None) -> SigningKey | None:
        """Return the key with this id.

        A token without an id means the only key there is.
        """
        if key_id is None:
            return next(iter(self.by_id.values())) if len(self.by_id) == 1 else None
        return self.by_id.get(key_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Unverified header of a token."""

    algorithm: str
    key_id: str | None


def read_header(text: str) -> Header:
    """Read the header of a token before it is verified.

    Raises UnauthorizedError for a header that no key could make valid.
    """
    if len(text) > _MAX_TOKEN_CHARS:
        raise _make_refusal(f"it is longer than {_MAX_TOKEN_CHARS} characters")
    try:
        header = jwt.get_unverified_header(text)
    except jwt.InvalidTokenError:
        raise _make_refusal(
            "its header cannot be read or asks for what is not understood here"
        ) from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _make_refusal(
            f"its algorithm is {str(algorithm)[:20]!r}; allowed are {', '.join(sorted(ALGORITHMS))}"
        )
    if "crit" in header:
        raise _make_refusal("its header has 'crit', which is not understood here")
    return Header(algorithm=algorithm, key_id=key_id if isinstance(key_id, str) else None)


def read_keys(document: object) -> KeySet:
    """Return the signing keys of a JWK set (RFC 7517).

    Raises ValueError where the set has none that may be used.
    """
    entries = document.get("keys") if isinstance(document, dict) else None
    usable_keys = dict(_list_usable_keys(entries if isinstance(entries, list) else []))
    if not usable_keys:
        message = (
            "the key set has no public key for signatures of 2048 RSA bits, an elliptic or an "
            "Edwards curve"
        )
        raise ValueError(message)
    return KeySet(by_id=usable_keys)


def authenticate_token(text: str, keys: KeySet, rules: TokenRules) -> tuple[Principal, float]:
    """Return the principal of a token and the end of its validity.

    The end is in seconds since 1970. Raises UnauthorizedError with the reason.
    """
    header = read_header(text)
    signing = keys.find(header.key_id)
    if signing is None:
        raise _make_refusal("the issuer has no key of its 'kid'")
    if signing.algorithm not in {None, header.algorithm}:
        raise _make_refusal(f"its key is for {signing.algorithm}, not for {header.algorithm}")
    claims = _decode_claims(text, signing, header, rules)
    return _build_principal(claims, rules), _read_end(claims["exp"])


def _decode_claims(
    text: str, signing: SigningKey, header: Header, rules: TokenRules
) -> Mapping[str, Any]:
    try:
        return jwt.decode(
            text,
            key=signing.key,
            algorithms=[header.algorithm],
            issuer=rules.issuer,
            audience=rules.audience,
            leeway=LEEWAY_S,
            options={"require": list(_REQUIRED), "strict_aud": False},
        )
    except jwt.ExpiredSignatureError:
        raise _make_refusal("it has expired") from None
    except jwt.ImmatureSignatureError:
        raise _make_refusal("it is not valid yet") from None
    except jwt.InvalidAudienceError:
        raise _make_refusal(f"it is not made out for {rules.audience!r}") from None
    except jwt.InvalidIssuerError:
        raise _make_refusal(f"it is not from {rules.issuer!r}") from None
    except jwt.MissingRequiredClaimError as error:
        raise _make_refusal(f"it has no {error.claim!r}") from None
    # A key of another kind than the algorithm is one of these too, as is a signature of the wrong
    # length.
    except (jwt.PyJWTError, TypeError, ValueError):
        raise _make_refusal("its signature or its claims are not right") from None


def _read_end(expiry: float) -> float:
    try:
        return float(expiry) + LEEWAY_S
    except OverflowError:
        raise _make_refusal("its 'exp' is no time") from None


def _build_principal(claims: Mapping[str, Any], rules: TokenRules) -> Principal:
    subject, name = str(claims["sub"]), claims.get("preferred_username")
    if not subject.isprintable():
        raise _make_refusal("its 'sub' holds what cannot be printed, nor stored")
    display_name = (
        f"{name} ({subject})" if isinstance(name, str) and name not in {"", subject} else subject
    )
    return Principal(
        # Printable, since it is written down.
        name=f"{ISSUER_PREFIX}{''.join(character if character.isprintable() else '?' for character in display_name)[:_MAX_NAME_CHARS]}",  # noqa: E501
        scopes=expand_scopes(
            rules.scopes[word]
            for word in _get_claim_values(claims, rules.scopes_claim)
            if word in rules.scopes
        ),
        subject=f"{rules.issuer} {subject}",
        rate=rules.rate,
        quota=rules.quota,
    )


def _get_claim_values(claims: Mapping[str, Any], path: str) -> list[str]:
    """Return the values of a claim as a list.

    A claim is a list, or text with spaces (RFC 8693, sec. 4.2); ``a.b`` is the member b of a.
    """
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return value.split()
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _list_usable_keys(entries: list[Any]) -> list[tuple[str, SigningKey]]:
    usable_keys: list[tuple[str, SigningKey]] = []
    for number, entry in enumerate(entries):
        if (
            not isinstance(entry, dict)
            or entry.get("use", "sig") != "sig"
            or entry.get("kty") not in {"RSA", "EC", "OKP"}
        ):
            continue
        algorithm = entry.get("alg")
        if algorithm is not None and algorithm not in ALGORITHMS:
            continue
        try:
            key = jwt.PyJWK.from_dict(entry).key
        except (jwt.PyJWTError, TypeError, ValueError):
            continue
        if not hasattr(key, "public_bytes") or (
            isinstance(key, RSAPublicKey) and key.key_size < _MIN_RSA_BITS
        ):
            continue
        usable_keys.append(
            (str(entry.get("kid", number)), SigningKey(key=key, algorithm=algorithm))
        )
    return usable_keys


def _make_refusal(reason: str) -> UnauthorizedError:
    return UnauthorizedError(f"the token is not accepted: {reason}")
