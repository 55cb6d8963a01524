"""``python -m deploy.release.packaging``: build, install alone, run what the containers run.

It needs a package index. Exit 1 where something is missing, too much, or does not run.
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

from deploy.release.packaging.containers import ROOT, Container, containers, image
from deploy.release.packaging.install import Installed, build, install
from deploy.release.packaging.nobody import Nobody, servers, until
from tests.bench.servers import free_port

PORT = "8000"
QUESTION = {"model": "llama-2-7b", "gpu": "A100-SXM4-80GB", "workload": {"task": "train", "sequence_length": 2048}}
_LINK = re.compile(r'(?:src|href)="(/[^"#?]+\.(?:js|css|svg))[^"]*"')
_LOADED = "import sys, service.app; print(sorted({'torch', 'numpy', 'transformers'} & set(sys.modules)))"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do all of it and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release.packaging", description=__doc__)
    parser.add_argument(
        "--python", default=sys.executable, help="makes the environment; the images' user must be able to run it"
    )
    options = parser.parse_args(arguments)
    shown = Table("what", "found", title="Packages and containers")
    try:
        with tempfile.TemporaryDirectory(prefix="headroom-packaging-") as place:
            Path(place).chmod(0o755)
            for what, found in check(Path(place), python=options.python):
                shown.add_row(what, found)
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        Console().print(shown)
    return 0


def check(place: Path, *, python: str) -> Iterator[tuple[str, str]]:
    """Yield what was looked at and found; raise RuntimeError at the first that is not as it must be."""
    wheel, source = build(place / "dist")
    yield "wheel, source distribution", f"{wheel.stat().st_size / 1e6:.1f} MB, {source.stat().st_size / 1e6:.1f} MB"
    installed = install(wheel, place / "wheel", python=python)
    if excesses := installed.excesses():
        raise RuntimeError("\n".join(excesses))
    yield "packages of an API", str(len(installed.packages))
    yield "their size", f"{installed.num_bytes / 1e6:.0f} MB"
    loaded = _said(installed, "python", "-c", _LOADED)
    _must(loaded == "[]", f"the API loads {loaded}")
    from_source = install(source, place / "source", python=python)
    _must(_said(from_source, "headroom", "version") != "", "the source distribution does not run")
    yield "the source distribution", "installs and runs"
    api = image(ROOT / "deploy" / "images" / "api.Dockerfile")
    contained = install(wheel, place / "image", python=python, extras=api.extras)
    yield f"packages of the image, {api.extras}", f"{len(contained.packages)}, {contained.num_bytes / 1e6:.0f} MB"
    yield from run_containers(place, contained, user=api.user)


def run_containers(place: Path, installed: Installed, *, user: str) -> Iterator[tuple[str, str]]:
    """Run what the compose file runs that needs no torch, as its user, in an empty directory that he cannot write to."""
    empty = place / "empty"
    empty.mkdir(mode=0o555)
    nobody = Nobody(user=user, directory=empty)
    made = containers({"POSTGRES_PASSWORD": "unused"})
    with ExitStack() as stack:
        database_url, redis_url = stack.enter_context(servers(_own(place / "servers")))
        urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
        log, port = place / "containers.log", str(free_port())

        def environment(container: Container) -> dict[str, str]:
            told = {**container.environment, **urls}
            return {**told, "PATH": f"{installed.programs}:{os.defpath}", "HOME": "/nonexistent"}

        migrate, api, reconcile = made["migrate"], made["api"], made["reconcile"]
        _must(nobody.run(_found(installed, migrate.argv), environment(migrate), log) == 0, _tail(log))
        yield "migrate", " ".join(migrate.argv)
        _must(nobody.run(_found(installed, api.argv), environment(api), log) != 0, "the API starts without a key")
        yield "api without a key", "refuses to start"
        key = _said(installed, "headroom", "keys", "create", "me", "--scopes", "admin", "--json", **urls)
        argv = [*_found(installed, api.argv), "--port", port]
        stack.enter_context(nobody.running(argv, environment(api), log))
        stack.enter_context(nobody.running(_found(installed, reconcile.argv), environment(reconcile), log))
        check = [word.replace(f":{PORT}/", f":{port}/") for word in _found(installed, api.healthcheck)]
        until(lambda: nobody.run(check, environment(api), log) == 0, f"the health check of api succeeds; {_tail(log)}")
        yield "api, its health check", f"{' '.join(api.argv)}: healthy as {nobody.user}"
        yield "reconcile", " ".join(reconcile.argv)
        yield "answers and pages", _answers(f"http://127.0.0.1:{port}", json.loads(key)[0]["key"])
        left = [str(path) for path in empty.iterdir()]
        _must(not left, f"written into the working directory: {left}")


def _answers(url: str, key: str) -> str:
    """Ask for an answer, then for every page and all that pages load."""
    body = json.dumps(QUESTION).encode()
    answer = json.loads(_get(f"{url}/v1/fit", key, body))
    _must(answer["verdict"] in {"fits", "tight", "does_not_fit"}, str(answer))
    document = json.loads(_get(f"{url}/docs/openapi.json", key))
    pages = ["/", "/clusters", "/measurements", "/accuracy", "/docs"]
    files = sorted({link for page in pages for link in _LINK.findall(_get(url + page, key).decode())})
    _must(bool(files), "the pages load nothing: were their files left out?")
    for path in files:
        _get(url + path, key)
    return f"{answer['verdict']}; {len(document['paths'])} paths; {len(pages)} pages with {len(files)} files"


def _get(url: str, key: str, body: bytes | None = None) -> bytes:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - a loopback address
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
        content: bytes = answer.read()
        return content


def _found(installed: Installed, argv: Sequence[str]) -> list[str]:
    """Return a command with its program where the image's PATH would find it."""
    return [str(installed.programs / argv[0]), *argv[1:]]


def _said(installed: Installed, program: str, *arguments: str, **environment: str) -> str:
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(  # noqa: S603 - our own programs
            [installed.programs / program, *arguments],
            cwd=empty,
            env={"PATH": os.defpath, "HOME": empty, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
    _must(done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stderr}")
    return done.stdout.strip()


def _own(directory: Path) -> Path:
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    return directory


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] if log.exists() else ""


def _must(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - read as a sentence
    if not holds:
        raise RuntimeError(otherwise)


if __name__ == "__main__":
    sys.exit(main())
