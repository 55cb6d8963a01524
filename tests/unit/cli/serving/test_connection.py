"""What a client may take of a connection: time, bytes, headers, and how many there are."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest

from service.cli.serving.bounds import KEEP_ALIVE_S, Bounds
from tests.unit.cli.serving.wire import POST, Server, settle

HEAD = b"GET / HTTP/1.1\r\nHost: h\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
SMALL = Bounds(connections=2, body_s=20.0, body_bytes_per_s=100, linger_bytes=1000, stall_bytes=10)


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in a loop of its own."""

    @wraps(test)
    def run(**values: object) -> None:
        asyncio.run(test(**values))  # type: ignore[arg-type]  # an async function's

    return run


@in_loop
async def test_a_head_that_drips_is_408() -> None:
    """However often a byte comes."""
    server = Server()
    connection, wire = server.connect()
    for part in (HEAD, b"A: 1\r\n", b"B: 2\r\n", b"C: 3\r\n"):
        connection.data_received(part)
        server.clock.pass_s(4)

    assert wire.sent.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"connection: close" in wire.sent
    assert server.asked == []


@in_loop
async def test_a_connection_without_a_request_is_closed_in_silence() -> None:
    """A browser keeps some ready, and has asked nothing."""
    server = Server()
    _, wire = server.connect()

    server.clock.pass_s(13)

    assert (wire.sent, wire.is_closed) == (b"", True)


@in_loop
async def test_a_body_that_drips_is_408_and_a_slow_one_is_read() -> None:
    """A body needs an average of some bytes a second after its first 20 s."""
    server = Server(SMALL)
    slow, slow_wire = server.connect()
    dripping, dripping_wire = server.connect()
    slow.data_received(POST % (b"", 3000, b""))
    dripping.data_received(POST % (b"", 3000, b""))
    await settle()
    for _ in range(30):
        slow.data_received(b"x" * 100)
        dripping.data_received(b"x")
        server.clock.pass_s(1)
        await settle()

    assert slow_wire.sent.startswith(b"HTTP/1.1 200 OK")
    assert dripping_wire.sent.startswith(b"HTTP/1.1 408 ")


@in_loop
async def test_a_server_that_does_not_read_blames_nobody() -> None:
    """A body waits while its question waits for a turn."""
    server = Server(SMALL)
    connection, wire = server.connect()
    connection.data_received(POST % (b"held", 200_000, b""))
    connection.data_received(b"x" * 100_000)
    await settle()
    server.clock.pass_s(300)
    server.holding.set()
    await settle()

    assert wire.sent.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "parts",
    [
        (HEAD, b"X: " + b"a" * 40_000, b"a" * 40_000),
        (HEAD + b"X: " + b"a" * 70_000 + b"\r\n\r\n",),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",),
        (HEAD + b"".join(b"X-%d: a\r\n" % number for number in range(100)) + b"\r\n",),
    ],
)
@in_loop
async def test_a_head_beyond_its_bounds_is_431(parts: tuple[bytes, ...]) -> None:
    """Whether it comes at once or in pieces, in one header or in many."""
    server = Server()
    connection, wire = server.connect()
    for part in parts:
        connection.data_received(part)
    await settle()

    assert wire.sent.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert server.asked == []


@in_loop
async def test_what_comes_behind_chunks_is_bounded_and_no_header() -> None:
    """An extension of a chunk and a trailer are read over, and not for ever."""
    server = Server()
    (short, wire), (long, long_wire) = server.connect(), server.connect()
    short.data_received(CHUNKED + b"2;a=b\r\nhi\r\n0\r\nX-API-Key: k\r\n\r\n")
    long.data_received(CHUNKED + b"2;")
    long.data_received(b"a" * 70_000)
    await settle()

    assert wire.sent.startswith(b"HTTP/1.1 200 OK")
    assert b"x-api-key" not in dict(short.cycle.scope["headers"])
    assert long_wire.sent.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        HEAD + b"Content-Length: 2, 2\r\n\r\nhi",
        HEAD + b"Content-Length: +2\r\n\r\nhi",
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HEAD + b"X: a\r\n b\r\n\r\n",
        HEAD + b"X : a\r\n\r\n",
        HEAD + b"X: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\nHost: h\n\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: h\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
    ],
)
@in_loop
async def test_what_two_servers_would_read_differently_is_refused(request_bytes: bytes) -> None:
    """Smuggling: two lengths, two codings, folded lines, two hosts, lines that end otherwise,
    versions that nobody speaks.
    """
    server = Server()
    connection, wire = server.connect()

    connection.data_received(request_bytes + HEAD + b"\r\n")
    await settle()

    assert wire.sent.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert wire.sent.count(b"content-type: application/problem+json") == 1
    assert server.asked == []


@in_loop
async def test_a_balancer_that_speaks_1_0_is_answered_without_a_host() -> None:
    """HAProxy asks so by itself, and RFC 9112, sec. 3.2 asks for a Host of 1.1 alone."""
    server = Server()
    connection, wire = server.connect()

    connection.data_received(b"GET / HTTP/1.0\r\n\r\n")
    await settle()

    assert wire.sent.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "request_bytes",
    [
        CHUNKED + b"zz\r\nhi\r\n0\r\n\r\n",
        CHUNKED + b"fffffffffffffffff\r\nhi",
        HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ],
)
@in_loop
async def test_a_body_without_an_end_ends_the_connection(request_bytes: bytes) -> None:
    """Its request was handed on, and learns that nobody is there."""
    server = Server()
    connection, wire = server.connect()

    connection.data_received(request_bytes)
    await settle()

    assert wire.sent.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert wire.sent.count(b"HTTP/1.1 200") == 0
    assert server.num_left == 1


@pytest.mark.parametrize("header", [b"", b"Connection: close\r\n"])
@in_loop
async def test_who_sends_too_much_reads_why(header: bytes) -> None:
    """The rest of the body is read over, so that no reset overtakes the answer."""
    server = Server()
    connection, wire = server.connect()
    connection.data_received(POST % (b"large", 500_000, header))
    await settle()
    was_closed = wire.is_closed
    connection.data_received(b"x" * 250_000)
    connection.data_received(b"x" * 250_000)
    await settle()

    assert wire.sent.startswith(b"HTTP/1.1 413 ")
    assert not was_closed
    assert wire.is_closed is bool(header)


@in_loop
async def test_the_rest_of_a_body_is_read_over_within_bounds() -> None:
    """Neither more than some bytes nor longer than some time; then the connection is closed."""
    server = Server(SMALL)
    (much, much_wire), (late, late_wire) = server.connect(), server.connect()
    for connection in (much, late):
        connection.data_received(POST % (b"large", 500_000, b""))
    await settle()
    much.data_received(b"x" * 1001)
    for _ in range(7):
        late.data_received(b"x")
        server.clock.pass_s(4)

    assert (much_wire.is_closed, late_wire.is_closed) == (True, False)
    server.clock.pass_s(4)
    assert late_wire.is_closed


@in_loop
async def test_a_connection_that_is_done_is_closed() -> None:
    """Also one whose body came after its answer."""
    server = Server()
    connection, wire = server.connect()
    connection.data_received(POST % (b"large", 4, b""))
    await settle()
    connection.data_received(b"xxxx")

    server.clock.pass_s(KEEP_ALIVE_S + 3)

    assert wire.is_closed


@in_loop
async def test_of_many_waiting_connections_the_oldest_makes_room() -> None:
    """It is one of the address that has most, so that a crowd turns out itself."""
    server = Server(Bounds(connections=3))
    _, friend = server.connect("10.0.0.9")
    wires = []
    for _ in range(3):
        server.clock.pass_s(1)
        wires.append(server.connect("10.6.6.6")[1])

    assert [wire.is_aborted for wire in (friend, *wires)] == [False, True, False, False]


@in_loop
async def test_where_all_are_answered_the_next_is_told_to_come_again() -> None:
    """Nobody who has asked is turned out for somebody who has not."""
    server = Server(Bounds(connections=1))
    connection, wire = server.connect()
    connection.data_received(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n")
    await settle()

    _, late = server.connect()

    assert late.sent.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"retry-after: 1\r\n" in late.sent
    assert (late.is_closed, wire.is_closed) == (True, False)


@in_loop
async def test_who_does_not_read_his_answer_is_cut_off() -> None:
    """Who reads a little of it in each minute is not."""
    server = Server(SMALL)
    (_, slow), (_, still) = server.connect(), server.connect()
    slow.num_unsent_bytes = still.num_unsent_bytes = 1000
    slow.close()
    still.close()
    for _ in range(4):
        server.clock.pass_s(30)
        slow.num_unsent_bytes -= 10

    assert (slow.is_aborted, still.is_aborted) == (False, True)


@in_loop
async def test_requests_do_not_pile_up_behind_one() -> None:
    """A pipeline is short."""
    server = Server(Bounds(pipelined=3))
    connection, wire = server.connect()

    connection.data_received(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n" * 5)
    await settle()

    assert (wire.sent, wire.is_closed) == (b"", True)
    assert server.asked == ["/held"]
