"""Hosts of the rig in network namespaces, and a network between them that fails.

The devices outside of hosts are in a namespace too: it is that of the thread that runs the network,
and of the threads and programs that it starts. Each host has a TUN device (tun(4)) whose packets
come to this process, which hands them on, drops them or holds them for a while: what a host sees of
that is what a bad switch does. It needs root.
"""

import fcntl
import heapq
import os
import random
import selectors
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

from tests.chaos.entering import NEW_NETWORK, call_libc

_TUN, _SET_INTERFACE, _IFF_TUN, _IFF_NO_PACKET_INFO = "/dev/net/tun", 0x400454CA, 0x1, 0x1000
_INTERFACE = struct.Struct("16sH22x")
_MAX_PACKET = 65_536
_SOURCE, _TARGET = slice(12, 16), slice(16, 20)
"""Of the addresses in a packet's header (RFC 791, 3.1)."""
SUBNET = "198.18.0"
"""Of benchmarks of networks (RFC 2544, appendix C.2.2): no real host has such an address."""
SERVERS, CLIENTS = f"{SUBNET}.1", f"{SUBNET}.2"
"""Addresses of what runs outside of the hosts."""
DEVICE_PREFIX = "hr-tun"
_TICK_S = 0.05
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One direction between two addresses: what becomes of its packets."""

    is_cut: bool = False
    lost_share: float = 0.0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A network namespace with one address."""

    name: str
    address: str
    namespace: str

    def enter(self, program: Sequence[str]) -> tuple[str, ...]:
        """Return the command that executes a program there."""
        return ("/usr/bin/nsenter", f"--net={self.namespace}", *program)


@dataclass(slots=True, kw_only=True)
class Network:
    """Hosts, and the state of each direction between addresses."""

    hosts: tuple[Host, ...]
    links: dict[tuple[bytes, bytes], Link] = field(default_factory=dict)

    def set_link(self, source: str, target: str, link: Link) -> None:
        """Set what becomes of packets from one address to another."""
        self.links[_pack(source), _pack(target)] = link

    def is_faulty(self, host: Host) -> bool:
        """Return whether packets of a host do not all get through at once."""
        address = _pack(host.address)
        return any(address in link for link in tuple(self.links))

    def mend(self, host: Host) -> None:
        """Let every packet of a host through again."""
        address = _pack(host.address)
        for link in tuple(self.links):
            if address in link:
                self.links.pop(link, None)

    def heal(self) -> None:
        """Let every packet through again."""
        self.links.clear()


def explain_no_network() -> str:
    """Return why this machine makes no such network, empty where it does."""
    if not all(map(shutil.which, ("ip", "/usr/bin/nsenter", "/usr/bin/unshare"))):
        return "ip, /usr/bin/nsenter and /usr/bin/unshare are not all here"
    try:
        os.close(os.open(_TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"{_TUN}: {error.strerror}"
    tried = subprocess.run(
        ("/usr/bin/unshare", "--net", "/bin/true"), capture_output=True, check=False
    )
    return tried.stderr.decode(errors="replace").strip()


@contextmanager
def run_network(num_hosts: int) -> Iterator[Network]:
    """Run a network of so many hosts for the length of a block; nothing of it is left."""
    with ExitStack() as stack:
        _leave_network(stack)
        _run("ip", "link", "set", "lo", "up")
        routes: dict[bytes, int] = {}
        here = _open_device(stack)
        _configure(here.name, (SERVERS, CLIENTS))
        routes |= {_pack(SERVERS): here.file, _pack(CLIENTS): here.file}
        hosts = []
        for number in range(num_hosts):
            pid, address = _hold_namespace(stack), f"{SUBNET}.{10 + number}"
            device = _open_device(stack)
            _run("ip", "link", "set", device.name, "netns", str(pid))
            namespace = f"/proc/{pid}/ns/net"
            enter = ("nsenter", f"--net={namespace}")
            _run(*enter, "ip", "link", "set", "lo", "up")
            _configure(device.name, (address,), enter)
            routes[_pack(address)] = device.file
            hosts.append(Host(name=f"host-{number}", address=address, namespace=namespace))
        network = Network(hosts=tuple(hosts))
        stack.enter_context(_keep_routing(network, routes))
        yield network


def _leave_network(stack: ExitStack) -> None:
    """Have this thread, and what it starts, in a network of its own until the stack ends.

    Devices of the machine's network would tell every browser on it that its network has changed.
    """
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, before)
    call_libc("unshare", NEW_NETWORK)
    stack.callback(call_libc, "setns", before, NEW_NETWORK)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    name: str
    file: int


def _open_device(stack: ExitStack) -> _Device:
    name = f"{DEVICE_PREFIX}{next(_numbers)}"
    file = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    stack.callback(os.close, file)
    fcntl.ioctl(
        file, _SET_INTERFACE, _INTERFACE.pack(name.encode(), _IFF_TUN | _IFF_NO_PACKET_INFO)
    )
    return _Device(name=name, file=file)


def _configure(name: str, addresses: Sequence[str], enter: Sequence[str] = ()) -> None:
    for address in addresses:
        _run(*enter, "ip", "addr", "add", f"{address}/24", "dev", name)
    _run(*enter, "ip", "link", "set", name, "up")


def _hold_namespace(stack: ExitStack) -> int:
    """Return a process with a network of its own, which ends with this one."""
    holder = stack.enter_context(
        subprocess.Popen(
            ("/usr/bin/unshare", "--net", "/bin/sh", "-c", "echo; read line"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder.pid


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _pack(address: str) -> bytes:
    return bytes(map(int, address.split(".")))


@contextmanager
def _keep_routing(network: Network, routes: dict[bytes, int]) -> Iterator[None]:
    ended = threading.Event()
    router = _Router(network=network, routes=routes, ended=ended)
    thread = threading.Thread(target=router.run, daemon=True, name="router")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(slots=True, kw_only=True)
class _Router:
    """Hands packets on from device to device."""

    network: Network
    routes: dict[bytes, int]
    ended: threading.Event
    _late: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=count)
    # Of which packets are lost: dice, not a secret.
    _dice: random.Random = field(default_factory=random.Random)

    def run(self) -> None:
        """Route until the end."""
        with selectors.DefaultSelector() as selector:
            for file in set(self.routes.values()):
                selector.register(file, selectors.EVENT_READ)
            while not self.ended.is_set():
                wait_s = self._late[0][0] - time.monotonic() if self._late else _TICK_S
                for key, _ in selector.select(max(0.0, min(wait_s, _TICK_S))):
                    self._take(key.fd)
                self._send_late()

    def _take(self, file: int) -> None:
        with suppress(BlockingIOError):
            while True:
                packet = os.read(file, _MAX_PACKET)
                target = self.routes.get(packet[_TARGET])
                # Version 6 asks for its neighbours, whom nobody has.
                if packet[0] >> 4 == 4 and target is not None:
                    self._route(packet, target)

    def _route(self, packet: bytes, target: int) -> None:
        link = self.network.links.get((packet[_SOURCE], packet[_TARGET]))
        if link is None:
            _write(target, packet)
        elif not link.is_cut and self._dice.random() >= link.lost_share:
            due = time.monotonic() + link.delay_s * self._dice.uniform(0.5, 1.5)
            heapq.heappush(self._late, (due, next(self._order), target, packet))

    def _send_late(self) -> None:
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(self._late)
            _write(target, packet)


def _write(file: int, packet: bytes) -> None:
    # A device that has no room drops it, as any other would.
    with suppress(BlockingIOError, OSError):
        os.write(file, packet)
