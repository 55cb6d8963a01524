"""What is sent again, and what is not."""

import httpx
import pytest

from service.client.errors import ServerError, TooManyRequestsError, UnreachableError
from service.client.retrying import Retries, retry_after_s
from service.client.stored import Until
from tests.unit.client.builders import problem, scene, version


@pytest.mark.parametrize(
    "fault",
    [httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut")],
)
def test_a_question_is_asked_again_after_any_fault(fault: httpx.TransportError) -> None:
    """A question changes nothing, so that it does not matter whether the server had heard it."""
    found = scene(
        fault, problem(503, "unavailable"), problem(502, "x"), problem(504, "x"), version()
    )

    assert found.headroom.version().version == "1"
    assert found.pauses == [0.25, 0.5, 1.0, 2.0]


def test_a_limit_is_waited_for_as_long_as_the_server_says() -> None:
    """Retry-After is a floor under the pause."""
    found = scene(problem(429, "too-many-requests", headers={"retry-after": "7"}), version())

    found.headroom.version()

    assert found.pauses == [7.0]


def test_a_long_limit_is_told_and_not_waited_for() -> None:
    """Whoever calls can plan better than a client that sleeps for an hour."""
    found = scene(problem(429, "too-many-requests", headers={"retry-after": "3600"}))

    with pytest.raises(TooManyRequestsError) as caught:
        found.headroom.version()
    assert (caught.value.retry_after_s, found.pauses) == (3600.0, [])


def test_a_change_without_a_key_is_not_sent_twice() -> None:
    """Nobody knows whether a cluster was stored before the connection broke or the gateway gave
    up.
    """
    for answer, error in (
        (httpx.ReadTimeout("slow"), UnreachableError),
        (problem(502, "x"), ServerError),
    ):
        found = scene(answer)

        with pytest.raises(error):
            found.headroom.clusters.create({"name": "a", "pools": []})
        assert len(found.script.asked) == 1


def test_a_change_that_was_not_heard_is_sent_again() -> None:
    """A connection that was refused carried nothing, and 429 says that nothing was done."""
    found = scene(
        httpx.ConnectError("refused"),
        problem(429, "too-many-requests"),
        problem(409, "cluster-exists"),
    )

    with pytest.raises(Exception, match="cluster-exists it is"):
        found.headroom.clusters.create({"name": "a", "pools": []})
    assert len(found.script.asked) == 3


def test_every_try_of_a_keyed_change_has_the_same_key() -> None:
    """The key is made once for a call: the server recognises the second try, and two calls are
    two.
    """
    found = scene(
        httpx.ReadTimeout("slow"), problem(409, "gpus-not-free"), problem(409, "gpus-not-free")
    )
    for _ in range(2):
        with pytest.raises(Exception, match="gpus-not-free"):
            found.headroom.reservations("a").create(
                "me", until=Until(seconds=60), gpus=[{"pool": "p", "num_gpus": 1}]
            )
    first, again, other = (request.headers["idempotency-key"] for request in found.script.asked)

    assert first == again != other


def test_the_last_fault_is_told() -> None:
    """After the last try the caller hears what happened, and that nothing was done where that is
    known.
    """
    found = scene(httpx.ConnectError("refused"), httpx.ConnectError("refused"), attempts=2)

    with pytest.raises(UnreachableError, match="was not reached: refused"):
        found.headroom.version()


def test_retry_after_may_be_a_date() -> None:
    """A date in the past is now; what is no number and no date says nothing."""
    asked = {
        text: retry_after_s(httpx.Response(429, headers={"retry-after": text}))
        for text in ("12", "Thu, 01 Jan 1970 00:00:00 GMT")
    }

    assert asked == {"12": 12.0, "Thu, 01 Jan 1970 00:00:00 GMT": 0.0}
    assert retry_after_s(httpx.Response(429, headers={"retry-after": "soon"})) is None


def test_a_policy_that_never_sends_is_refused() -> None:
    """The message quotes the numbers."""
    with pytest.raises(ValueError, match="attempts is 0"):
        Retries(attempts=0)
