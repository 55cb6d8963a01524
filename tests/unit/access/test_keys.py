"""Keys are long, told apart by their prefix, and checked without a word about how wrong a wrong one
is.
"""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.access.keys import (
    NOBODY,
    SECRET_BYTES,
    Scope,
    check_name,
    compute_digest,
    create_token,
    expand_scopes,
    parse_prefix,
    verify_key,
)
from service.access.limits import Limit, parse_limit
from service.api.http.auth import ANYBODY as OPEN_USER
from service.api.http.auth import LOCAL_USER


def test_a_key_has_256_random_bits() -> None:
    """The part behind the prefix is as long as it is said to be, and no two are alike."""
    tokens = [create_token() for _ in range(50)]

    secret = tokens[0].text.removeprefix(f"hr_{tokens[0].prefix}_")
    assert len(base64.urlsafe_b64decode(secret + "=")) == SECRET_BYTES == 32
    assert len({token.text for token in tokens}) == len({token.prefix for token in tokens}) == 50


def test_a_key_is_found_by_its_prefix_and_known_by_its_digest() -> None:
    """What is stored finds and checks the key, and does not hold it."""
    token = create_token()

    assert parse_prefix(token.text) == token.prefix
    assert verify_key(token.text, token.digest)
    assert token.digest == compute_digest(token.text)
    assert token.text.encode() not in token.digest


@given(st.integers(min_value=0, max_value=58), st.characters(min_codepoint=33, max_codepoint=126))
def test_no_other_text_is_the_key(position: int, character: str) -> None:
    """One other character anywhere is another key."""
    token = create_token()
    other = token.text[:position] + character + token.text[position + 1 :]

    assert verify_key(other, token.digest) == (other == token.text)


def test_nobodys_digest_matches_nothing() -> None:
    """Where no key is stored, none is right."""
    assert not verify_key(create_token().text, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hr_",
        "Bearer",
        "hr_0123456789ab_short",
        "xx_0123456789ab_" + "a" * 43,
        "hr_0123456789AB_" + "a" * 43,
    ],
)
def test_what_cannot_be_a_key_has_no_prefix(text: str) -> None:
    """Nothing is looked up for a text of another form."""
    assert parse_prefix(text) is None


@pytest.mark.parametrize("name", ["a", "slurm-scheduler", "team vision", "locale", "a" * 80])
def test_a_key_is_named_as_somebody_likes(name: str) -> None:
    """Printable ASCII, spaces in between."""
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", " a", "a\n", "a\0b", "é", "a" * 81])
def test_what_is_no_name_names_no_key(name: str) -> None:
    """Whatever makes the key: over HTTP or in the database itself."""
    with pytest.raises(ValueError, match="1 to 80 printable ASCII"):
        check_name(name)


@pytest.mark.parametrize(
    "name",
    [LOCAL_USER.name, OPEN_USER.name, NOBODY, "Local", "command line", "oidc:bob", "OIDC:bob"],
)
def test_no_key_is_named_like_one_who_has_none(name: str) -> None:
    """In the log of changes nobody is taken for somebody else."""
    with pytest.raises(ValueError, match="use another name"):
        check_name(name)


def test_scopes_imply_each_other() -> None:
    """An admin may do all, whoever may plan or measure may look, and nothing allows nothing."""
    assert expand_scopes([Scope.ADMIN]) == frozenset(Scope)
    assert expand_scopes([Scope.PLAN]) == {Scope.PLAN, Scope.READ}
    assert expand_scopes([Scope.MEASURE]) == {Scope.MEASURE, Scope.READ}
    assert expand_scopes([Scope.READ]) == {Scope.READ}
    assert expand_scopes([]) == frozenset()


def test_limits_are_read_from_words() -> None:
    """A limit is a number per time, and anything else is told what is right."""
    assert parse_limit("600/minute") == Limit(amount=600, seconds=60)
    for text in ("0/minute", "600", "600/week", "-1/day", "1/day "):
        with pytest.raises(ValueError, match="600/minute"):
            parse_limit(text)
