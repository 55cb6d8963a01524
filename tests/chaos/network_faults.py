"""Faults of the network between hosts."""

import random
from collections.abc import Callable
from functools import partial

from tests.chaos.network import CLIENTS, SERVERS, Host, Link, Network

LONGEST_DELAY_S = 0.4
MOST_LOST_SHARE = 0.3

CUT = Link(is_cut=True)


def _cut_from_servers(_dice: random.Random, network: Network, host: Host) -> str:
    _set_both(network, host, SERVERS, CUT)
    return "partition from the servers"


def _cut_from_clients(_dice: random.Random, network: Network, host: Host) -> str:
    _set_both(network, host, CLIENTS, CUT)
    return "partition from clients"


def _cut_off(_dice: random.Random, network: Network, host: Host) -> str:
    for address in (SERVERS, CLIENTS):
        _set_both(network, host, address, CUT)
    return "partition from everybody"


def _deafen(_dice: random.Random, network: Network, host: Host) -> str:
    """Let through what the host sends, and drop what answers it."""
    network.set_link(SERVERS, host.address, CUT)
    return "partition of one direction"


def _delay(dice: random.Random, network: Network, host: Host) -> str:
    for address in (SERVERS, CLIENTS):
        delay_s = dice.uniform(0.0, LONGEST_DELAY_S)
        _set_both(network, host, address, Link(delay_s=delay_s))
    return "delay and another order"


def _lose(dice: random.Random, network: Network, host: Host) -> str:
    for address in (SERVERS, CLIENTS):
        _set_both(network, host, address, Link(lost_share=dice.uniform(0.0, MOST_LOST_SHARE)))
    return "loss"


NetworkFault = Callable[[random.Random, Network, Host], str]
NETWORK_FAULTS: tuple[NetworkFault, ...] = (
    _cut_from_servers,
    _cut_from_clients,
    _cut_off,
    _deafen,
    _delay,
    _lose,
)
"""Each returns what it did."""


def strike_network(
    dice: random.Random, network: Network
) -> tuple[str, Host, Callable[[], None]] | None:
    """Let one host have a fault; return what, where, and what ends it.

    Returns None where that host has one.
    """
    host, fault = dice.choice(network.hosts), dice.choice(NETWORK_FAULTS)
    if network.is_faulty(host):
        return None
    return fault(dice, network, host), host, partial(network.mend, host)


def _set_both(network: Network, host: Host, address: str, link: Link) -> None:
    network.set_link(host.address, address, link)
    network.set_link(address, host.address, link)
