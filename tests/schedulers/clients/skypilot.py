"""SkyPilot's own policy client, which asks Headroom about tasks."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from service.formats.manifests.registry import render_format
from tests.schedulers.clients.environments import install_client, make_environment
from tests.schedulers.clients.questions import FITS, SENTENCE, TOO_LARGE, report
from tests.schedulers.headroom import list_decisions, serve
from tests.schedulers.recording import compare_shapes, record
from tests.unit.formats.manifests.samples import SAMPLES

_SAMPLE = Path("tests/unit/api/resources/hooks/samples/skypilot_0_14_client.json")
_PACKAGE = "skypilot==0.14.1"
_CATALOG = {
    "accelerators.csv": "AcceleratorName,Clouds\nA100-80GB,[]\n",
    "metadata.csv": "GPU,Manufacturer,MemoryGB\nA100-80GB,NVIDIA,80\n",
}
"""In place of its catalogue, which it fetches: a name that it does not know is kept as it is."""
_APPLY = """
import json, sys
import sky
from sky.server.requests.request_names import AdminPolicyRequestName
from sky.utils import admin_policy_utils

def apply(document):
    task = sky.Task.from_yaml_config(document)
    with sky.Dag() as dag:
        dag.add(task)
    name = AdminPolicyRequestName.CLUSTER_LAUNCH
    changed, _ = admin_policy_utils.apply(dag, name, at_client_side=True)
    return changed.tasks[0].to_yaml_config()

for document in json.load(sys.stdin):
    try:
        answer = {"task": apply(document)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))
"""


def check_skypilot() -> Iterator[str]:
    """Yield what SkyPilot does otherwise than Headroom answers."""
    programs = install_client(_PACKAGE)
    with (
        tempfile.TemporaryDirectory() as home,
        serve((FITS, TOO_LARGE)) as url,
        record(url) as door,
    ):
        folder = Path(home) / ".sky" / "catalogs" / "v8" / "common"
        folder.mkdir(parents=True)
        for name, text in _CATALOG.items():
            (folder / name).write_text(text)
        sky = _Client(programs=programs, home=home)
        yield from _check_tasks(sky)
        address, bodies = door
        for fault in _check_policy(sky, address):
            yield f"{fault} {list_decisions(url, 'skypilot')}"
    # It says the options of a request and its configuration where it launches alone.
    for fault in compare_shapes(_read(bodies[0]), _read(_SAMPLE.read_text())):
        yield f"skypilot, what it sends: {fault}"


def _read(text: str) -> dict[str, Any]:
    """Return a question of SkyPilot's, with its task's resources and variables."""
    document: dict[str, Any] = json.loads(text)
    task = yaml.safe_load(document["task"])
    document["task"] = {name: task[name] for name in ("resources", "envs", "run", "num_nodes")}
    return document | {"skypilot_config": yaml.safe_load(document["skypilot_config"])}


class _Client:
    """SkyPilot in a home of its own."""

    def __init__(self, *, programs: Path, home: str) -> None:
        self.programs, self.home = programs, Path(home)

    def set_policy(self, url: str) -> None:
        """Name the policy that is asked."""
        (self.home / ".sky" / "config.yaml").write_text(yaml.safe_dump({"admin_policy": url}))

    def apply(self, *tasks: dict[str, Any]) -> list[dict[str, Any]]:
        """Return each ``task`` as it would be launched, or the ``error`` that refuses it."""
        done = subprocess.run(
            [str(self.programs / "python"), "-c", _APPLY],
            input=json.dumps(tasks),
            capture_output=True,
            text=True,
            check=True,
            env=make_environment(
                self.programs, HOME=str(self.home), SKYPILOT_DISABLE_USAGE_COLLECTION="1"
            ),
        )
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert len(answers) == len(tasks), done.stderr
        return answers


def _check_tasks(sky: _Client) -> Iterator[str]:
    """Yield rendered tasks that SkyPilot does not take."""
    documents: dict[str, Any] = {
        name: render_format("skypilot", job).document for name, job in SAMPLES.items()
    }
    for document in documents.values():
        for variable in document.get("envs", {}):
            document["envs"][variable] = document["envs"][variable] or "x"
    documents["a field that there is not"] = {"nodes": 1}
    documents["a variable that nobody says"] = {"envs": {"CHECKPOINT": None}, "run": "true"}
    answers = sky.apply(*documents.values())
    for name, answer in zip(documents, answers, strict=True):
        report(f"skypilot, {name}", answer.get("error", "taken"))
        if ("error" in answer) != (name not in SAMPLES):
            yield f"skypilot, {name}: {answer}"


def _check_policy(sky: _Client, url: str) -> Iterator[str]:
    """Yield what a policy does otherwise with a task."""
    for mode, question, expected in (
        ("refuse", FITS, 1),
        ("warn", TOO_LARGE, 1),
        ("change", TOO_LARGE, 2),
        ("refuse", TOO_LARGE, None),
    ):
        sky.set_policy(f"{url}/v1/hooks/skypilot/{mode}")
        [answer] = sky.apply(
            {
                "resources": {"accelerators": "A100-80GB:1"},
                "envs": {"HEADROOM_QUESTION": question},
                "run": "torchrun train.py",
            }
        )
        given = answer.get("task", {}).get("resources", {}).get("accelerators")
        report(f"skypilot, {mode}", given or answer["error"])
        if given != (None if expected is None else {"A100-80GB": expected}):
            yield f"skypilot, {mode}: {answer}"
        if expected is None and SENTENCE not in answer["error"]:
            yield f"skypilot, {mode}: says {answer}"
    sky.set_policy("http://127.0.0.1:9/v1/hooks/skypilot/refuse")
    [answer] = sky.apply({"run": "true"})
    report("skypilot, nobody answers", answer)
    if "error" not in answer:
        yield "skypilot launches without its policy, which docs/howto/hooks.md denies"
