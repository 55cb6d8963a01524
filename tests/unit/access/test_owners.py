"""Who may change what somebody made."""

import pytest

from service.access.keys import LOCAL, Principal, Scope
from service.access.owners import Owner, make_owner, may_change
from service.api.http.auth import LOCAL_USER

PLAN = frozenset({Scope.READ, Scope.PLAN})


def a_key(name: str, key_id: str = "1", scopes: frozenset[Scope] = PLAN) -> Principal:
    """Build the holder of a key."""
    return Principal(name=name, key_id=key_id, scopes=scopes)


def a_token(subject: str) -> Principal:
    """Build the holder of a token, all of whom call themselves alike."""
    return Principal(name="oidc:ann", subject=subject, scopes=PLAN)


@pytest.mark.parametrize(
    ("maker", "changer", "allowed"),
    [
        (a_key("slurm"), a_key("slurm"), True),
        (a_key("slurm"), a_key("slurm", "its successor"), True),
        (a_key("slurm"), a_key("other", "2"), False),
        (a_key("slurm"), a_key("operator", "2", frozenset({Scope.ADMIN})), True),
        (a_key("slurm"), a_token("slurm"), False),
        (a_token("issuer ann"), a_token("issuer ann"), True),
        (a_token("issuer ann"), a_token("issuer bob"), False),
        (LOCAL_USER, LOCAL_USER, True),
        (LOCAL_USER, a_key(LOCAL), False),
    ],
)
def test_a_key_its_successor_and_operators_change_what_it_made(
    maker: Principal, changer: Principal, *, allowed: bool
) -> None:
    """Another key does not, nor another subject who calls himself the same."""
    assert may_change(changer, make_owner(maker)) is allowed


def test_what_has_no_owner_is_everybodys() -> None:
    """It is older than owners, and stays as it was."""
    assert may_change(a_key("anybody else"), None)


def test_nobody_owns_nothing() -> None:
    """A caller without key and scopes changes nothing, not even what one of its name made."""
    nobody = Principal(name="nobody", scopes=frozenset())

    assert not may_change(nobody, Owner(name="nobody"))
