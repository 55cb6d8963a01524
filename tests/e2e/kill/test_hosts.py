"""Network of a storm's hosts: it fails where and how a fault says."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.chaos.network import CLIENTS, SERVERS, Host, Link, explain_no_network, run_network
from tests.chaos.network_faults import CUT

_WHY_NOT = explain_no_network()
pytestmark = pytest.mark.skipif(bool(_WHY_NOT), reason=f"no network of its own: {_WHY_NOT}")
ECHO_PORT = 7007
DEADLINE_S = 60.0
_ECHO = f"""
import socket
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("0.0.0.0", {ECHO_PORT}))
print(flush=True)
while True:
    here.sendto(*here.recvfrom(99))
"""


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
