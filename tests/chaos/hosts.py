"""A Headroom on several hosts, between which the network fails and whose clocks jump.

Each host has a replica of the API, a reconcile loop and workers; Postgres and Redis are on another,
and clients on a third.
"""

import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from service.embedded.datadir import DataDir, own_data_dir
from service.embedded.events import NULL_LOG
from service.embedded.postgres import NAME, make_postgres_child
from tests.chaos.clocks import Clock, make_clocks
from tests.chaos.network import SERVERS, SUBNET, Host, Network, run_network
from tests.chaos.parts import Launch, Part, launch_fresh
from tests.chaos.rig import (
    WORKER,
    Rig,
    build_environment,
    keep_rig,
    make_part,
    make_redis_part,
)

_API_PORT = 8000


@contextmanager
def run_hosts(
    root: Path,
    *,
    settings: Mapping[str, str],
    num_hosts: int,
    num_workers: int,
    launch: Launch = launch_fresh,
    has_clocks: bool = True,
) -> Iterator[Rig]:
    """Run so many hosts with so many workers each for the length of a block.

    Without clocks, which forks cannot have, no host's time jumps.
    """
    with own_data_dir(root, NULL_LOG) as data, run_network(num_hosts) as network:
        names = tuple(host.name for host in network.hosts) if has_clocks else ()
        clocks = make_clocks(data.log_file("clocks").parent, names) if names else {}
        rig = _build_rig(data, network, settings, num_workers, launch, clocks)
        with keep_rig(rig):
            yield rig


def _build_rig(
    data: DataDir,
    network: Network,
    settings: Mapping[str, str],
    num_workers: int,
    launch: Launch,
    clocks: Mapping[str, Clock],
) -> Rig:
    postgres, database_url = _make_postgres(data)
    redis, redis_url = _make_redis(data)
    urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HEADROOM_ACCESS": "open"}
    environment = build_environment({**settings, **urls})

    hosts = network.hosts

    def make(host: Host, name: str, *arguments: str) -> Part:
        program = host.enter((sys.executable, "-m", *arguments))
        clock = clocks.get(host.name)
        variables = environment if clock is None else {**environment, **clock.list_variables()}
        return make_part(data, f"{host.name}-{name}", program, variables, launch=launch)

    return Rig(
        postgres=postgres,
        redis=redis,
        apis=tuple(
            make(host, "api", "service", "serve", "--host", host.address, "--port", str(_API_PORT))
            for host in hosts
        ),
        reconcilers=tuple(make(host, "reconcile", "service", "reconcile") for host in hosts),
        workers=tuple(
            make(host, f"worker-{number}", *WORKER)
            for host in hosts
            for number in range(num_workers)
        ),
        url=",".join(f"http://{host.address}:{_API_PORT}" for host in hosts),
        database_url=database_url,
        redis_url=redis_url,
        logs=data.log_file("api").parent,
        network=network,
        clocks=clocks,
    )


def _make_postgres(data: DataDir) -> tuple[Part, str]:
    """Make a Postgres that the hosts reach, and return its URL."""
    child, port = make_postgres_child(data, NULL_LOG), _find_free_port(SERVERS)
    assert isinstance(child.program, tuple)
    settings = {"listen_addresses": SERVERS, "port": str(port)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (data.postgres / "pg_hba.conf").open("a") as file:
        file.write(f"host all all {SUBNET}.0/24 trust\n")
    url = f"postgresql://{NAME}@{SERVERS}:{port}/{NAME}"
    return Part(replace(child, program=(*child.program, *options))), url


def _make_redis(data: DataDir) -> tuple[Part, str]:
    """Make a Redis that the hosts reach, and return its URL."""
    part, port = make_redis_part(data), _find_free_port(SERVERS)
    assert isinstance(part.child.program, tuple)
    options = ("--port", str(port), "--bind", SERVERS, "--protected-mode", "no")
    child = replace(part.child, program=(*part.child.program, *options))
    return Part(child), f"redis://{SERVERS}:{port}/0"


def _find_free_port(address: str) -> int:
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])
