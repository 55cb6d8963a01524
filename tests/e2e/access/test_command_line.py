"""`headroom keys` and the start of a server that strangers can reach, as an operator types them."""

import json
import os
import pwd
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx
import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.__main__ import main
from service.access.keys import Scope
from service.terminal.arguments import UsageError
from tests.e2e.access.conftest import ask, make_key, until_known
from tests.running.forked import run_forked
from tests.waiting import eventually


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command returned and printed."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Answer]


@pytest.fixture
def headroom(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs one command with nothing else in its settings."""

    def run(environment: Mapping[str, str], *arguments: str) -> Answer:
        capsys.readouterr()
        with monkeypatch.context() as changes:
            for name, value in {"HOME": "/nonexistent", **environment}.items():
                changes.setenv(name, value)
            try:
                code = main(arguments)
            except UsageError as error:
                code = int(str(error.code))
        printed = capsys.readouterr()
        return Answer(returncode=code, stdout=printed.out, stderr=printed.err)

    return run


def test_the_first_key_needs_the_database_alone(
    address: str, database_url: str, headroom: Command
) -> None:
    """Whoever may open the database makes a key that the server lets in, sees it listed and revokes
    it by how it begins.
    """
    environment = {"DATABASE_URL": database_url}
    made = json.loads(
        headroom(
            environment, "keys", "create", "ops", "--scopes", "admin", "--for", "1d", "--json"
        ).stdout,
    )[0]
    until_known(address, made["key"])
    assert (
        ask(address, "GET", "/v1/keys", made["key"]).json()["items"][0]["created_by"]
        == "command line"
    )

    changes = ask(address, "GET", "/v1/audit", made["key"]).json()["items"]
    account = pwd.getpwuid(os.getuid()).pw_name
    assert [(change["principal"], change["operation"], change["status"]) for change in changes] == [
        (f"command line: {account}", "createKey", 201)
    ]

    listed = headroom(environment, "keys", "list").stdout
    assert made["prefix"] in listed
    assert made["key"] not in listed
    assert "revoked" in headroom(environment, "keys", "revoke", made["prefix"]).stdout
    eventually(
        lambda: ask(address, "GET", "/v1/keys", made["key"]).status_code == httpx.codes.UNAUTHORIZED
    )


def test_a_server_makes_keys_for_its_admins(
    address: str, sessions: sessionmaker[Session], headroom: Command
) -> None:
    """With HEADROOM_API_KEY in the environment the same commands go over HTTP; a lesser key is told
    what it lacks.
    """
    admin, reader = make_key(sessions, Scope.ADMIN), make_key(sessions, Scope.READ)
    until_known(address, admin)
    until_known(address, reader)
    as_admin = {"HEADROOM_URL": address, "HEADROOM_API_KEY": admin}
    key = headroom(as_admin, "keys", "create", "grafana").stdout.splitlines()[0]
    until_known(address, key)

    assert ask(address, "GET", "/v1/measurements", key).status_code == httpx.codes.OK
    assert "grafana" in headroom(as_admin, "keys", "list").stdout
    assert headroom(as_admin, "keys", "revoke", key).returncode == 0
    assert (
        "'admin'"
        in headroom({**as_admin, "HEADROOM_API_KEY": reader}, "keys", "create", "other").stderr
    )
    assert "A valid key" not in headroom({"HEADROOM_URL": address}, "models", "list").stdout


def test_words_of_keys_are_checked_before_anything_is_asked(headroom: Command) -> None:
    """A scope, a limit or a lifetime that is none is told with what is right, and nothing is needed
    for it.
    """
    for arguments, told in (
        (("--scopes", "reed"), "'read'"),
        (("--rate", "often"), "600/minute"),
        (("--for", "soon"), "90s, 30m, 8h or 2d"),
    ):
        answer = headroom({}, "keys", "create", "a", *arguments)
        assert answer.returncode == 2
        assert told in answer.stderr


def start(environment: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run one command as a process, which may stay."""
    return run_forked("service", *arguments, env={"HOME": "/nonexistent", **environment})


def test_a_server_for_holders_of_keys_needs_a_key(database_url: str) -> None:
    """On an address that others can reach the server refuses to start without any key, and to be
    local.
    """
    environment = {"DATABASE_URL": database_url}
    without = start(environment, "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - it is refused
    local = start(environment, "serve", "--host", "0.0.0.0", "--port", "0", "--access", "local")  # noqa: S104 - the same

    assert (without.returncode, local.returncode) == (2, 2)
    assert "headroom keys create" in without.stderr
    assert "--access keys" in local.stderr
