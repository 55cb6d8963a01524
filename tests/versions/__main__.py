"""Two versions of server and command line: ``python -m tests.versions WHEEL``.

The command line of each asks the server of the other, every command ends as
beside its own server, or says which side is to be upgraded. ``--write FILE`` keeps what the older
command line asked its own server, with the answers, for the tests.

A wheel of a commit: ``git archive COMMIT | tar -x -C OLD`` and ``pip wheel --no-deps OLD``.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.embedded.postgres import run_postgres
from tests.bench.servers import find_free_port, run_program
from tests.chaos.upgrade import install
from tests.versions.between import Exchange, keep_exchanges
from tests.versions.commands import CLUSTER, COMMANDS

Told = dict[str, Any]
_ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask all four pairs, and return 1 where a command ended otherwise than it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("wheel", type=Path, help="wheel of the older version")
    parser.add_argument("--write", type=Path, help="keep what the older version asked and answered")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headroom-versions-") as folder:
        former = Path(folder, "former")
        install(options.wheel, former)
        sides = {"older": (former, "headroom"), "today's": (_ROOT, "service")}
        found = {
            (client, server): _ask(sides[client], sides[server], Path(folder))
            for client, server in (
                ("older", "older"),
                ("today's", "today's"),
                ("older", "today's"),
                ("today's", "older"),
            )
        }
    if options.write:
        kept = "\n".join(json.dumps(exchange) for exchange in found["older", "older"][1])
        options.write.write_bytes(gzip.compress(kept.encode(), mtime=0))
    return 1 if _compare(found) else 0


def _ask(
    client: tuple[Path, str], server: tuple[Path, str], folder: Path
) -> tuple[list[Told], list[Exchange]]:
    """Return what the commands of one version told, and what they exchanged with a server."""
    cluster = folder / "cluster.json"
    cluster.write_text(json.dumps(CLUSTER))
    commands = [[word.replace("{cluster}", str(cluster)) for word in words] for words in COMMANDS]
    with run_version(*server) as port, keep_exchanges(port) as (url, exchanges):
        path, package = client
        ended = subprocess.run(
            (sys.executable, str(Path(__file__).with_name("run_commands.py")), package),
            input=json.dumps(commands),
            env={**os.environ, "PYTHONPATH": str(path), "HEADROOM_URL": url},
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in ended.stdout.splitlines()], list(exchanges)


@contextmanager
def run_version(path: Path, package: str) -> Iterator[int]:
    """Serve a version, on an empty database of its schema, and yield the port."""
    port = find_free_port()
    with (
        tempfile.TemporaryDirectory(prefix="headroom-") as data,
        run_postgres(Path(data)) as database_url,
    ):
        settings = {"PYTHONPATH": str(path), "DATABASE_URL": database_url}
        program = (sys.executable, "-m", package)
        subprocess.run((*program, "migrate"), env={**os.environ, **settings}, cwd=data, check=True)
        serve = [*program, "serve", "--port", str(port)]
        with run_program(serve, f"http://127.0.0.1:{port}/readyz", settings):
            yield port


def _compare(found: dict[tuple[str, str], tuple[list[Told], list[Exchange]]]) -> int:
    """Print the commands that end otherwise than beside their own server, and count them."""
    num_broken = 0
    for client, server in (("older", "today's"), ("today's", "older")):
        own, other = found[client, client][0], found[client, server][0]
        for beside_own, beside_other in zip(own, other, strict=True):
            if beside_own["code"] == beside_other["code"]:
                continue
            said = beside_other["err"].strip()
            is_told = "upgrade" in said
            num_broken += not is_told
            print(  # noqa: T201 - a program
                f"{client} {' '.join(beside_own['command'])} at {server} server: "
                f"{beside_other['code']} in place of {beside_own['code']}: {said}"
            )
        print(f"{client} command line at {server} server: {len(own)} commands")  # noqa: T201
    return num_broken


if __name__ == "__main__":
    sys.exit(main())
