"""A small storm over two hosts whose network parts, delays and loses, and that network itself."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from service.db.session import make_engine, make_sessions
from service.embedded.children import Child
from service.runtime.variables import parse_psycopg_url
from tests.chaos.hosts import run_hosts
from tests.chaos.invariants import count_executions, find_violations
from tests.chaos.network import (
    CLIENTS,
    DEVICE_PREFIX,
    SERVERS,
    Host,
    Link,
    explain_no_network,
    run_network,
)
from tests.chaos.network_faults import CUT
from tests.chaos.storm import SETTINGS, Pace, run_storm
from tests.running.folders import make_folder
from tests.running.forked import ForkedProgram

_WHY_NOT = explain_no_network()
pytestmark = pytest.mark.skipif(bool(_WHY_NOT), reason=f"no network of its own: {_WHY_NOT}")
SEED = 5
NUM_JOBS = 6
LEASE_S = 2.0
OF_NETWORK = {
    "partition from the servers",
    "partition from clients",
    "partition from everybody",
    "partition of one direction",
    "delay and another order",
    "loss",
}
ECHO_PORT = 7007
LINK_NEWS = 1
"""RTMGRP_LINK of rtnetlink(7): devices that come and go."""
DEADLINE_S = 60.0
_ECHO = f"""
import socket
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("0.0.0.0", {ECHO_PORT}))
print(flush=True)
while True:
    here.sendto(*here.recvfrom(99))
"""


def launch_fork(child: Child) -> "subprocess.Popen[bytes]":
    """Start a part on its host, in a session of its own, with its modules loaded."""
    assert isinstance(child.program, tuple)
    _nsenter, network, _python, _option, *words = child.program
    with child.log_file.open("ab") as output:
        return ForkedProgram(
            "tests.chaos.entering",
            network.removeprefix("--net="),
            *words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(child.environment),
            start_new_session=True,
        )


def test_nothing_is_lost_where_the_network_between_hosts_fails() -> None:
    """Two replicas, reconcilers and workers; every job ends right, and once."""
    settings = {**SETTINGS, "HEADROOM_LEASE_S": f"{LEASE_S:g}"}
    with ExitStack() as stack:
        # The path of a socket holds 107 bytes.
        root = stack.enter_context(make_folder())
        rig = stack.enter_context(
            run_hosts(
                root,
                settings=settings,
                num_hosts=2,
                num_workers=1,
                launch=launch_fork,
                has_clocks=False,
            )
        )
        engine = make_engine(
            parse_psycopg_url("DATABASE_URL", rig.database_url), application_name="headroom-test"
        )
        stack.callback(engine.dispose)
        sessions = make_sessions(engine)

        happened = run_storm(
            rig,
            sessions,
            seed=SEED,
            num_jobs=NUM_JOBS,
            lease_s=LEASE_S,
            show=lambda *_: None,
            pace=Pace(between_faults_s=1.5, longest_s=600.0),
        )
        found = [*happened.violations, *find_violations(sessions, happened.jobs)]
        executions = count_executions(sessions)

    struck = {fault.what for fault in happened.strikes}
    assert found == []
    assert len(happened.jobs) == NUM_JOBS
    # A job that is cancelled while it waits never begins.
    assert executions >= sum(job.cancelled is None for job in happened.jobs)
    assert struck & OF_NETWORK, f"no fault of the network among {struck}"
    assert struck - OF_NETWORK, "faults of the network alone"


def test_nobody_else_sees_its_devices() -> None:
    """A browser on this machine, which listens for such news, stays where it is."""
    news = b""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as listener:
        listener.bind((0, LINK_NEWS))
        with run_network(1):
            names = [name for _, name in socket.if_nameindex()]
        with suppress(BlockingIOError):
            while True:
                news += listener.recv(1 << 16, socket.MSG_DONTWAIT)

    assert [name for name in names if name.startswith(DEVICE_PREFIX)]
    assert DEVICE_PREFIX.encode() not in news
    assert names != [name for _, name in socket.if_nameindex()]


class Caller:
    """Socket at an address outside, which a host's program echoes."""

    def __init__(self, address: str, host: Host, replies: list[str]) -> None:
        """Keep all replies in one list, by when they came."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self._socket.settimeout(DEADLINE_S)
        self._target, self._replies = (host.address, ECHO_PORT), replies

    def send(self, word: str) -> None:
        """Send a word."""
        self._socket.sendto(word.encode(), self._target)

    def hear(self, word: str) -> None:
        """Wait for the reply that is a word."""
        while word not in self._replies:
            self._replies.append(self._socket.recv(99).decode())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


@contextmanager
def echoing(host: Host) -> Iterator[None]:
    """Run a program on a host that sends back what it gets."""
    command = host.enter((sys.executable, "-S", "-c", _ECHO))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        yield
        program.kill()


@pytest.mark.parametrize("link", [CUT, Link(lost_share=1.0), Link(delay_s=0.2)])
@pytest.mark.parametrize("is_outward", [False, True])
def test_a_link_fails_in_one_direction_and_for_one_address(link: Link, *, is_outward: bool) -> None:
    """What is cut or lost never comes, what is late comes after what was sent later."""
    replies: list[str] = []
    with ExitStack() as stack:
        network = stack.enter_context(run_network(1))
        (host,) = network.hosts
        stack.enter_context(echoing(host))
        servers, clients = (Caller(address, host, replies) for address in (SERVERS, CLIENTS))
        stack.callback(servers.close)
        stack.callback(clients.close)
        ends = (host.address, SERVERS) if is_outward else (SERVERS, host.address)
        network.set_link(*ends, link)

        servers.send("first")
        clients.send("second")
        clients.hear("second")
        if link.delay_s:
            servers.hear("first")
        network.mend(host)
        servers.send("third")
        servers.hear("third")

    assert replies == ["second", *(["first"] if link.delay_s else []), "third"]
