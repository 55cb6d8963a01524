"""What the client raises where neither the server nor the network is to blame: its own errors, and
never a key.
"""

import gzip
from collections.abc import Callable
from types import MappingProxyType

import httpx
import pytest

from service.client.errors import OffendingValue, ProblemError, UnknownAnswerError
from service.client.generated.models import MeasurementAnswer
from service.client.headroom import Headroom
from service.client.measuring import Job
from service.client.retrying import Retries
from service.client.transport import Transport
from tests.unit.client.builders import Scene, Script, measurement, problem, scene, version

TRAIN = MappingProxyType({"task": "train", "sequence_length": 64})


@pytest.mark.parametrize("key", ["hr_secret\nx", "hr_sécret", "hr secret", "\n"])
def test_a_key_that_no_header_carries_is_refused_without_saying_it(key: str) -> None:
    """At once, before anything is sent, and in words that may stand in a log."""
    with pytest.raises(ValueError, match="the key ") as told:
        Headroom("http://headroom.test", api_key=key)
    assert "cret" not in str(told.value)


def test_the_end_of_a_file_is_no_part_of_a_key() -> None:
    """A key is read out of a file, or of a secret of a cluster, more often than not."""
    script = Script(iter([version()]))
    with Headroom(
        "http://headroom.test", api_key=" hr_k\r\n", http=httpx.MockTransport(script)
    ) as headroom:
        headroom.version()

    assert script.asked[0].headers["authorization"] == "Bearer hr_k"


@pytest.mark.parametrize(
    "fault",
    [
        httpx.LocalProtocolError("Illegal header value"),
        UnicodeEncodeError("ascii", "é", 0, 1, "no ASCII"),
    ],
)
def test_what_no_request_carries_is_not_tried_again(fault: Exception) -> None:
    """The server was not even asked, and would not be at the next try."""
    found = scene(fault)

    with pytest.raises(ValueError, match="no request can carry that"):
        found.headroom.version()
    assert found.pauses == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda found: found.headroom.models.read(""),
        lambda found: found.headroom.clusters.read(".."),
        lambda found: found.headroom.measurement(""),
        lambda found: found.headroom.reservations("").read("r"),
    ],
)
def test_a_name_that_is_none_is_refused(ask: Callable[[Scene], object]) -> None:
    """It would ask for the list, or for something else."""
    found = scene()

    with pytest.raises(ValueError, match="no name or id"):
        ask(found)
    assert found.script.asked == []


@pytest.mark.parametrize(
    ("errors", "read"),
    [
        (None, ()),
        ([], ()),
        (["too long"], (OffendingValue(field="", message="too long"),)),
        ("too long", (OffendingValue(field="", message="too long"),)),
        (
            [{"detail": "too long", "pointer": "#/a"}],
            (OffendingValue(field="", message="too long"),),
        ),
    ],
)
def test_errors_of_a_problem_document_of_somebody_else_are_read(
    errors: object, read: tuple[OffendingValue, ...]
) -> None:
    """A proxy has problem documents too, and RFC 9457 leaves their members to it."""
    found = scene(problem(400, "about:blank", errors=errors))

    with pytest.raises(ProblemError) as caught:
        found.headroom.version()
    assert caught.value.errors == read


def garbled() -> httpx.Response:
    """Return an answer that says of itself that it is packed, which it is not."""
    return httpx.Response(
        200,
        headers={"content-encoding": "gzip"},
        stream=httpx.ByteStream(gzip.compress(b"{}")[::-1]),
    )


def test_an_answer_that_cannot_be_unpacked_is_told() -> None:
    """As every other answer that this client cannot read, also in the middle of a stream."""
    with pytest.raises(UnknownAnswerError, match="cannot be read"):
        scene(garbled()).headroom.version()

    client = httpx.Client(
        base_url="http://headroom.test", transport=httpx.MockTransport(Script(iter([garbled()])))
    )
    job = Job(Transport(client, Retries(attempts=1)), MeasurementAnswer.from_dict(measurement()))
    with pytest.raises(UnknownAnswerError, match="cannot be read"):
        job.wait()
