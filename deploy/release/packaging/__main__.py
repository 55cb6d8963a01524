"""Test of the packages and containers: ``python -m deploy.release.packaging``.

It builds, installs into an empty environment, and runs the very commands of the containers. It
needs a package index. Exit 1 where something is missing, too much, or does not run.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from deploy.release.packaging.containers import ROOT, Container, list_containers, read_image
from deploy.release.packaging.install import MAX_THIN_PACKAGES, Installation, build, install
from deploy.release.packaging.nobody import UnprivilegedRunner, run_servers, wait_until
from tests.bench.servers import find_free_port

PORT = "8000"
QUESTION = {
    "model": "llama-2-7b",
    "gpu": "A100-SXM4-80GB",
    "workload": {"task": "train", "sequence_length": 2048},
}
_LISTS = (("gpus", "--json"), ("families", "--json"), ("models", "--offline", "--json"))
_LINK = re.compile(r'(?:src|href)="(/[^"#?]+\.(?:js|css|svg))[^"]*"')
_LOADED = (
    "import sys, headroom.app; print(sorted({'torch', 'numpy', 'transformers'} & set(sys.modules)))"
)
_FRONT = (
    "import importlib.util as u; from headroom import AsyncHeadroom, Headroom; "
    "from headroom.models import TrainRequest; Headroom(); AsyncHeadroom(); "
    "print([n for n in ('service', 'worker', 'migrations', 'deploy') if u.find_spec(n)])"
)
"""What people import, and the names of ours that must not be taken from others."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks and print their results."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release.packaging", description=__doc__)
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="makes the environment; the images' user must be able to run it",
    )
    options = parser.parse_args(arguments)
    table = Table("what", "found", title="Packages and containers")
    try:
        with tempfile.TemporaryDirectory(prefix="headroom-packaging-") as directory:
            Path(directory).chmod(0o755)
            for what, value in check(Path(directory), python=options.python):
                table.add_row(what, value)
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        Console().print(table)
    return 0


def check(directory: Path, *, python: str) -> Iterator[tuple[str, str]]:
    """Yield each check and its result.

    Raises RuntimeError at the first that fails.
    """
    wheel, source = build(directory / "dist")
    yield (
        "wheel, source distribution",
        f"{wheel.stat().st_size / 1e6:.1f} MB, {source.stat().st_size / 1e6:.1f} MB",
    )
    yield from check_thin(install(wheel, directory / "thin", python=python))
    installed = install(wheel, directory / "wheel", python=python, extras="[server]")
    if excesses := installed.list_excesses():
        raise RuntimeError("\n".join(excesses))
    yield "packages of an API", str(len(installed.packages))
    yield "their size", f"{installed.num_bytes / 1e6:.0f} MB"
    loaded = _run_installed(installed, "python", "-c", _LOADED)
    _require(loaded == "[]", f"the API loads {loaded}")
    from_source = install(source, directory / "source", python=python)
    _require(
        _run_installed(from_source, "python", "-c", _FRONT) == "[]",
        "the source distribution does not run",
    )
    yield "the source distribution", "installs and runs"
    api = read_image(ROOT / "deploy" / "images" / "api.Dockerfile")
    contained = install(wheel, directory / "image", python=python, extras=api.extras)
    yield (
        f"packages of the image, {api.extras}",
        f"{len(contained.packages)}, {contained.num_bytes / 1e6:.0f} MB",
    )
    yield from run_containers(directory, contained, user=api.user)


def check_thin(installed: Installation) -> Iterator[tuple[str, str]]:
    """Yield what the package alone can do: the client, and the command line without a server."""
    excess = len(installed.packages) - MAX_THIN_PACKAGES
    _require(excess <= 0, f"{excess} packages too many: {', '.join(installed.packages)}")
    yield "packages without an extra", str(len(installed.packages))
    names = _run_installed(installed, "python", "-c", _FRONT)
    _require(names == "[]", f"the wheel takes names that are others': {names}")
    question = ("gpt2", "--gpu", "L4", "--task", "train", "--sequence-length", "128", "--json")
    answer = json.loads(_run_installed(installed, "headroom", "fit", *question))
    listed = [json.loads(_run_installed(installed, "headroom", *words)) for words in _LISTS]
    _require(all(listed), "a list is empty")
    yield "offline, without an extra", f"fit: {answer['verdict']}; lists: {len(listed)}"


def run_containers(
    directory: Path, installed: Installation, *, user: str
) -> Iterator[tuple[str, str]]:
    """Run the commands of the compose file that need no torch.

    They run as its user, in an empty directory that he cannot write to.
    """
    empty = directory / "empty"
    empty.mkdir(mode=0o555)
    runner = UnprivilegedRunner(user=user, directory=empty)
    services = list_containers({"POSTGRES_PASSWORD": "unused"})
    with ExitStack() as stack:
        database_url, redis_url = stack.enter_context(
            run_servers(_make_writable_directory(directory / "servers"))
        )
        urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
        log, port = directory / "containers.log", str(find_free_port())

        def build_environment(container: Container) -> dict[str, str]:
            variables = {**container.environment, **urls}
            return {
                **variables,
                "PATH": f"{installed.programs}:{os.defpath}",
                "HOME": "/nonexistent",
            }

        migrate, api, reconcile = services["migrate"], services["api"], services["reconcile"]
        _require(
            runner.run(_resolve_command(installed, migrate.argv), build_environment(migrate), log)
            == 0,
            _read_tail(log),
        )
        yield "migrate", " ".join(migrate.argv)
        _require(
            runner.run(_resolve_command(installed, api.argv), build_environment(api), log) != 0,
            "the API starts without a key",
        )
        yield "api without a key", "refuses to start"
        key = _run_installed(
            installed, "headroom", "keys", "create", "me", "--scopes", "admin", "--json", **urls
        )
        argv = [*_resolve_command(installed, api.argv), "--port", port]
        stack.enter_context(runner.running(argv, build_environment(api), log))
        stack.enter_context(
            runner.running(
                _resolve_command(installed, reconcile.argv), build_environment(reconcile), log
            ),
        )
        health_check = [
            word.replace(f":{PORT}/", f":{port}/")
            for word in _resolve_command(installed, api.healthcheck)
        ]
        wait_until(
            lambda: runner.run(health_check, build_environment(api), log) == 0,
            f"the health check of api succeeds; {_read_tail(log)}",
        )
        yield "api, its health check", f"{' '.join(api.argv)}: healthy as {runner.user}"
        yield "reconcile", " ".join(reconcile.argv)
        yield (
            "answers and pages",
            _check_answers(f"http://127.0.0.1:{port}", json.loads(key)[0]["key"]),
        )
        written = [str(path) for path in empty.iterdir()]
        _require(not written, f"written into the working directory: {written}")


def _check_answers(url: str, key: str) -> str:
    """Request an answer, then every page and all that pages load."""
    body = json.dumps(QUESTION).encode()
    answer = json.loads(_get(f"{url}/v1/fit", key, body))
    _require(answer["verdict"] in {"fits", "tight", "does_not_fit"}, str(answer))
    document = json.loads(_get(f"{url}/docs/openapi.json", key))
    pages = ["/", "/clusters", "/measurements", "/accuracy", "/docs"]
    files = sorted(
        {link for page in pages for link in _LINK.findall(_get(url + page, key).decode())}
    )
    _require(bool(files), "the pages load nothing: were their files left out?")
    for path in files:
        _get(url + path, key)
    return (
        f"{answer['verdict']}; {len(document['paths'])} paths; {len(pages)} pages with "
        f"{len(files)} files"
    )


def _get(url: str, key: str, body: bytes | None = None) -> bytes:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - a loopback address
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
        content: bytes = answer.read()
        return content


def _resolve_command(installed: Installation, argv: Sequence[str]) -> list[str]:
    """Return a command with its program's path in the installation.

    The image's PATH would find it there.
    """
    return [str(installed.programs / argv[0]), *argv[1:]]


def _run_installed(
    installed: Installation, program: str, *arguments: str, **environment: str
) -> str:
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(  # noqa: S603 - our own programs
            [installed.programs / program, *arguments],
            cwd=empty,
            env={"PATH": os.defpath, "HOME": empty, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
    _require(done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stderr}")
    return done.stdout.strip()


def _make_writable_directory(directory: Path) -> Path:
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    return directory


def _read_tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] if log.exists() else ""


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - read as a sentence
    if not holds:
        raise RuntimeError(otherwise)


if __name__ == "__main__":
    sys.exit(main())
