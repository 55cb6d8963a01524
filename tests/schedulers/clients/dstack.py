"""dstack's own server and client, which ask Headroom about runs and take what it renders."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.cli.submissions.dstack import Dstack
from service.formats.manifests.registry import render_format
from service.formats.renderings.job import NVIDIA
from tests.schedulers.clients.entries import make_entry
from tests.schedulers.clients.environments import install_client, make_environment
from tests.schedulers.clients.questions import FITS, SENTENCE, TOO_LARGE, report
from tests.schedulers.headroom import await_answer, find_port, list_decisions, serve
from tests.schedulers.recording import compare_shapes, record
from tests.unit.formats.manifests.samples import SAMPLES

_SAMPLE = Path("tests/unit/api/resources/hooks/samples/dstack_0_22_apply.json")
_PACKAGE = "dstack[server]==0.22.5"


def check_dstack() -> Iterator[str]:
    """Yield what dstack does otherwise than Headroom answers."""
    programs = install_client(_PACKAGE)
    with serve((FITS, TOO_LARGE)) as url, record(url) as (door, bodies):
        for mode in ("refuse", "change"):
            with _start(programs, f"{door}/v1/hooks/dstack/{mode}"):
                for fault in _check_policy(mode):
                    yield f"{fault} {list_decisions(url, 'dstack')}"
    for fault in compare_shapes(bodies[0], json.loads(_SAMPLE.read_text())):
        yield f"dstack, what it sends: {fault}"
    with _start(programs, "http://127.0.0.1:9/v1/hooks/dstack/refuse"):
        done = _apply(FITS, "silence")
        report("dstack, nobody answers", done.stdout)
        if done.returncode == 0:
            yield "dstack runs without its plugin, which docs/howto/hooks.md denies"
    with _start(programs, None):
        for number, (name, job) in enumerate(SAMPLES.items()):
            document: Any = render_format("dstack", job).document
            # Without its image, a run has dstack's own, which is NVIDIA's alone.
            if document is not None and job.vendor == NVIDIA:
                yield from _submit(f"s{number}", name, document)


@contextmanager
def _start(programs: Path, policy: str | None) -> Iterator[None]:
    """Run a server that asks a policy, and let its client be found."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as home:
        settings = Path(home) / ".dstack" / "server"
        settings.mkdir(parents=True)
        plugins = [] if policy is None else ["rest_plugin"]
        (settings / "config.yml").write_text(
            json.dumps({"projects": [{"name": "main", "backends": []}], "plugins": plugins})
        )
        os.environ.update(make_environment(programs, HOME=home, CHECKPOINT="/models/a"))
        os.environ["DSTACK_PLUGIN_SERVICE_URI"] = policy or ""
        url = f"http://127.0.0.1:{find_port()}"
        command = ["dstack", "server", "--host", "127.0.0.1", "--port", url.rpartition(":")[2]]
        with (Path(home) / "log").open("wb") as log:
            process = subprocess.Popen([*command, "--yes"], stdout=log, stderr=log)
        try:
            await_answer(f"{url}/healthcheck")
            yield
        finally:
            process.terminate()
            process.wait()
            os.environ.clear()
            os.environ.update(before)


def _check_policy(mode: str) -> Iterator[str]:
    fits = _apply(FITS, "fits")
    report(f"dstack, {mode}, it fits", fits.stdout)
    if fits.returncode:
        yield f"dstack, {mode}: what fits is refused: {fits.stdout}"
    done = _apply(TOO_LARGE, "large")
    report(f"dstack, {mode}, it does not", done.stdout)
    if mode == "refuse" and done.returncode == 0:
        yield f"dstack, {mode}: what does not fit is taken: {done.stdout}"
    elif mode == "refuse" and SENTENCE not in done.stdout:
        yield f"dstack, {mode}: what does not fit is refused for another reason: {done.stdout}"
    if mode == "change" and done.returncode:
        yield f"dstack, {mode}: what would be changed is refused: {done.stdout}"
    elif mode == "change":
        run = json.loads(_run("dstack", "run", "get", "large", "--json").stdout)
        count = run["run_spec"]["configuration"]["resources"]["gpu"]["count"]
        if count != {"min": 2, "max": 2}:
            yield f"dstack, {mode}: it got {count}: {done.stdout}"


def _apply(question: str, name: str) -> "subprocess.CompletedProcess[str]":
    configuration = {
        "type": "task",
        "name": name,
        "env": {"HEADROOM_QUESTION": question},
        "commands": ["torchrun train.py"],
        "resources": {"gpu": "A100:80GB:1"},
    }
    words = ("dstack", "apply", "--yes", "--detach", "--file=-")
    return _run(*words, text=json.dumps(configuration))


def _run(*command: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def _submit(submission_id: str, name: str, document: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a rendered run that headroom submits."""
    # Its server looks images up in their registry.
    plain = {key: value for key, value in document.items() if key != "image"}
    scheduler = Dstack()
    entry = make_entry(submission_id, scheduler, plain)
    before = scheduler.find(entry)
    job = scheduler.submit(entry)
    after = scheduler.find(replace(entry, job=job))
    report(f"dstack, {name}", after)
    if not before.is_certain or before.job is not None or after.job != entry.mark:
        yield f"dstack, {name}: {before}, then {after}"
