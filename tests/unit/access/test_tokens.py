"""Tokens of an issuer: which are let in, for what, and why the others are not."""

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from service.access.keys import Principal, Scope, create_token, is_jwt
from service.access.tokens import TokenRules, authenticate_token, read_header, read_keys
from service.base.errors import UnauthorizedError
from tests.issuers import AUDIENCE, Issuer, jwk, private_key

ISSUER = Issuer(url="https://issuer.test")
RULES = TokenRules(
    issuer=ISSUER.url,
    audience=AUDIENCE,
    scopes_claim="scope",
    scopes={"headroom:read": Scope.READ, "boss": Scope.ADMIN},
)


def let_in(token: str, *keys: dict[str, object], rules: TokenRules = RULES) -> Principal:
    """Return who a token stands for."""
    return authenticate_token(token, read_keys({"keys": list(keys or (jwk("rsa-1"),))}), rules)[0]


def refusal(token: str, *keys: dict[str, object]) -> str:
    """Return why a token is not let in."""
    with pytest.raises(UnauthorizedError) as caught:
        let_in(token, *keys)
    return caught.value.detail


def forged(header: dict[str, Any]) -> str:
    """Return a token without a signature, or with one that its public key made."""
    parts = (
        {"typ": "JWT", **header},
        {"iss": ISSUER.url, "aud": AUDIENCE, "sub": "u-1", "exp": 9_999_999_999},
    )
    encoded = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
    ]
    return ".".join([*encoded, ""])


@pytest.mark.parametrize("key_id", ["rsa-1", "ec-1", "ed-1"])
def test_a_right_token_is_let_in(key_id: str) -> None:
    """By RSA, an elliptic curve or an Edwards curve, named by its subject and the name that goes
    with it.
    """
    token = ISSUER.token(key_id, preferred_username="ada")

    principal = let_in(token, jwk("rsa-1"), jwk("ec-1"), jwk("ed-1"))

    assert principal == Principal(
        name="oidc:ada (u-1)", scopes=frozenset({Scope.READ}), subject=f"{ISSUER.url} u-1"
    )


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1_000_000_000}, "it has expired"),
        ({"nbf": 9_999_999_999}, "it is not valid yet"),
        ({"aud": "other"}, "it is not made out for 'headroom'"),
        ({"aud": ["other", "another"]}, "it is not made out for 'headroom'"),
        ({"iss": "https://evil.test"}, "it is not from 'https://issuer.test'"),
        ({"iss": "https://issuer.test/"}, "it is not from 'https://issuer.test'"),
        ({"exp": None}, "it has no 'exp'"),
        ({"aud": None}, "it has no 'aud'"),
        ({"sub": None}, "it has no 'sub'"),
        ({"exp": "tomorrow"}, "its signature or its claims"),
    ],
)
def test_a_wrong_claim_is_told(claims: dict[str, Any], reason: str) -> None:
    """Whoever was let in yesterday learns what has changed."""
    assert reason in refusal(ISSUER.token(**claims))


def test_clocks_may_differ_a_little() -> None:
    """A token that ended ten seconds ago is one of an issuer whose clock is slow."""
    token = ISSUER.token(
        exp=jwt.decode(ISSUER.token(), options={"verify_signature": False})["iat"] - 10
    )

    assert let_in(token).name == "oidc:u-1"


def test_no_signature_is_no_signature() -> None:
    """``none`` is refused before any key is looked at, as is a secret of the public key's bytes."""
    public = (
        private_key("rsa-1")
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    signing, _ = forged({"alg": "HS256", "kid": "rsa-1"}).rsplit(".", 1)
    hmac_key = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = (
        base64.urlsafe_b64encode(hmac_key.sign(signing.encode(), public)).rstrip(b"=").decode()
    )

    for token in (
        forged({"alg": "none"}),
        forged({"alg": "None"}),
        f"{signing}.{signature}",
        forged({"kid": "rsa-1"}),
        forged({"alg": ["RS256"], "kid": "rsa-1"}),
        forged({"alg": {"RS256": 1}, "kid": "rsa-1"}),
        forged({"alg": 256, "kid": "rsa-1"}),
    ):
        assert "its algorithm is" in refusal(token)


@pytest.mark.parametrize(
    "header",
    [
        *({"alg": ["RS256"]}, {"alg": {"RS256": 1}}, {"alg": 5}, {"alg": None}, {}),
        *({"alg": "RS256", "kid": ["rsa-1"]}, {"alg": "RS256", "kid": 5}),
        *({"alg": "RS256", "b64": False}, {"alg": "HS256", "jwk": {"kty": "oct", "k": "AA"}}),
        *([1], "RS256", None),
    ],
)
def test_an_odd_header_is_refused(header: object) -> None:
    """Its values are of any type, and so is the header."""
    encoded = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()

    assert "its header cannot" in (told := refusal(f"{encoded}.e30.AA")) or "algorithm" in told


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"RS256","x":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"a":' * 2000,
        b'{"alg":"RS256","x":' + b"9" * 5000 + b"}",
        b"\xff\xfe",
    ],
)
def test_a_header_beyond_what_is_read_is_refused(header: bytes) -> None:
    """However deep it is nested, and however long its numbers are."""
    encoded = base64.urlsafe_b64encode(header).rstrip(b"=").decode()

    assert "its header cannot be read" in refusal(f"{encoded}.e30.AA")


@pytest.mark.parametrize(
    ("claims", "reason"),
    [({"exp": 10**400}, "'exp' is no time"), ({"sub": "a\ud800"}, "cannot be printed")],
)
def test_a_claim_that_nothing_holds_is_refused(claims: dict[str, Any], reason: str) -> None:
    """A time beyond any clock, a name beyond any text."""
    assert reason in refusal(ISSUER.token(**claims))


def test_a_signature_of_another_key_is_refused() -> None:
    """Even when the token names the right one, and when a key of another kind is named."""
    assert "its signature" in refusal(ISSUER.token("rsa-2", headers={"kid": "rsa-1"}))
    assert "its key is for ES256" in refusal(
        ISSUER.token("rsa-1", headers={"kid": "ec-1"}), jwk("ec-1")
    )
    assert "its signature" in refusal(
        ISSUER.token("rsa-1", headers={"kid": "ec-1"}), jwk("ec-1", alg=None)
    )
    assert "no key of its 'kid'" in refusal(ISSUER.token("rsa-2"))


def test_a_changed_claim_is_refused() -> None:
    """The signature covers everything."""
    head, _, tail = ISSUER.token().split(".")
    other = ISSUER.token(scope="boss").split(".")[1]

    assert "its signature" in refusal(f"{head}.{other}.{tail}")


def test_a_header_that_must_be_understood_is_refused() -> None:
    """RFC 7515, section 4.1.11: whoever does not know an extension must not go on."""
    assert "not understood here" in refusal(ISSUER.token(headers={"crit": ["exp"]}))


def test_what_is_no_token_is_refused() -> None:
    """Long, empty or broken text is told in words."""
    for text in ("a.b.c", "..", "x" * 20_000 + "..", "é.é.é"):
        assert "the token is not accepted" in refusal(text)
    assert read_header(ISSUER.token()).key_id == "rsa-1"


def test_keys_that_cannot_be_trusted_are_left_out() -> None:
    """Small RSA keys, secrets, keys for encryption; a set of nothing else is refused."""
    for bad in (
        jwk("small-1"),
        {"kty": "oct", "k": "c2VjcmV0"},
        jwk("rsa-1", use="enc"),
        jwk("rsa-1", alg="HS256"),
        {},
    ):
        with pytest.raises(ValueError, match="no public key"):
            read_keys({"keys": [bad]})
    assert set(read_keys({"keys": [jwk("small-1"), jwk("ec-1")]}).by_id) == {"ec-1"}


def test_scopes_come_from_the_claim_that_is_set() -> None:
    """Words in a text, in a list, in a member of an object; what has no meaning here means
    nothing.
    """
    for path, claims in (
        ("scope", {"scope": "openid boss"}),
        ("roles", {"roles": ["boss", 7]}),
        ("realm_access.roles", {"realm_access": {"roles": ["boss"]}}),
        ("https://a.b/roles", {"https://a.b/roles": ["boss"]}),
    ):
        rules = TokenRules(
            issuer=ISSUER.url, audience=AUDIENCE, scopes_claim=path, scopes={"boss": Scope.ADMIN}
        )

        assert let_in(ISSUER.token(**claims), rules=rules).has_scope(Scope.ADMIN), path
        assert (
            let_in(ISSUER.token(scope="openid", roles=None), rules=rules).scopes == frozenset()
        ), path


def test_a_name_that_is_written_down_is_printable() -> None:
    """Nobody writes a line of his own into the log of changes, or calls himself by a key's name."""
    assert let_in(ISSUER.token(preferred_username="a\nb\x00")).name == "oidc:a?b? (u-1)"


def test_a_key_of_ours_is_no_token() -> None:
    """Keys have no dots."""
    assert not is_jwt(create_token().text)
    assert is_jwt(ISSUER.token())
