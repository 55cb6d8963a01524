"""A client and a server of other versions: what is said where one does not understand the other."""

from collections.abc import Callable

import httpx
import pytest

from service.base import server_versions
from service.base.errors import ServiceError
from service.base.server_versions import explain_refusal, get_own_version, note_version
from service.cli.http import ask
from service.client.errors import ProblemError, UnknownAnswerError
from service.terminal.errors import describe_error
from tests.unit.client.builders import scene

NEWER = {"headroom-version": "9.9.9"}
BOTH = f"the server is version 9.9.9 and this client {get_own_version()}: upgrade the client"
UNKNOWN_FIELD = "workload.x: unknown field 'x'. Did you mean 'y'?"


def refuse(status: int, detail: str, headers: dict[str, str]) -> httpx.Response:
    """Return a refusal of a server that says its version, or does not."""
    return httpx.Response(status, json={"status": status, "detail": detail}, headers=headers)


def raise_by_client(response: httpx.Response) -> str:
    """Return what the client of Python raises."""
    with pytest.raises(ProblemError) as caught:
        scene(response).headroom.version()
    assert caught.value.members["detail"] == caught.value.detail
    return caught.value.detail


def raise_by_command(response: httpx.Response) -> str:
    """Return what a command prints."""
    transport = httpx.MockTransport(lambda _: response)
    with (
        httpx.Client(base_url="http://server", transport=transport) as client,
        pytest.raises(ServiceError) as caught,
    ):
        ask(client, "GET", "/version")
    return describe_error(caught.value)


@pytest.mark.parametrize("tell", [raise_by_client, raise_by_command])
@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (422, UNKNOWN_FIELD),
        (422, "workload.engine: unknown value 'nim'."),
        (422, "workload.steps: required and missing"),
        (404, "nothing lives at /v1/pipelines/fit; /docs lists every path"),
        (405, "POST is not allowed here; allowed: GET"),
    ],
)
def test_what_a_server_does_not_know_is_told_with_both_versions(
    tell: Callable[[httpx.Response], str], status: int, detail: str
) -> None:
    """In the words of the server, and then which of the two is to be replaced."""
    said = tell(refuse(status, detail, NEWER))

    assert said.startswith(f"{detail}; {BOTH}")


@pytest.mark.parametrize("tell", [raise_by_client, raise_by_command])
@pytest.mark.parametrize(
    ("detail", "headers"),
    [
        (UNKNOWN_FIELD, {"headroom-version": get_own_version()}),
        ("no model is named 'lama'", NEWER),
    ],
)
def test_versions_are_not_blamed_for_other_refusals(
    tell: Callable[[httpx.Response], str], detail: str, headers: dict[str, str]
) -> None:
    """A slip is a slip where both are alike, and a name nobody has is missing in any version."""
    assert tell(refuse(422, detail, headers)) == detail


def test_a_server_that_says_no_version_is_to_be_upgraded() -> None:
    """Those before this header."""
    assert explain_refusal(422, UNKNOWN_FIELD, None).endswith(": upgrade the server")


@pytest.mark.parametrize(
    ("server", "client", "advice"),
    [
        ("0.9.1", "0.10.0", "upgrade the server"),
        ("0.10.0", "0.9.1", "upgrade the client"),
        ("1.0", "0.9.9", "upgrade the client"),
        ("1.0.0", "1.0", "what one does not know the other may"),
        ("0.1.0.dev3", "0.1.0", "what one does not know the other may"),
        ("unknown", "0.1.0", "what one does not know the other may"),
        ("9" * 5000, "0.1.0", "upgrade the client"),
    ],
)
def test_the_older_side_is_to_be_upgraded(
    monkeypatch: pytest.MonkeyPatch, server: str, client: str, advice: str
) -> None:
    """By the numbers of their releases."""
    monkeypatch.setattr(server_versions, "get_own_version", lambda: client)

    assert explain_refusal(422, UNKNOWN_FIELD, server).endswith(f": {advice}")


def test_an_answer_that_a_client_cannot_read_is_told_with_both_versions() -> None:
    """A later server may answer with words that this client has not learnt."""
    with pytest.raises(
        UnknownAnswerError, match=r"does not know: .*; the server is version 9\.9\.9"
    ):
        scene(httpx.Response(200, json={"name": 5}, headers=NEWER)).headroom.version()


def test_a_command_that_misses_a_field_of_an_answer_names_both_versions() -> None:
    """An earlier server answers with fewer fields than a table shows."""
    note_version("9.9.9")

    said = describe_error(KeyError("step_time"))
    note_version(get_own_version())

    assert f"KeyError: 'step_time' (HEADROOM_DEBUG=1 shows where); {BOTH}" in said
    assert "version" not in describe_error(KeyError("step_time"))
