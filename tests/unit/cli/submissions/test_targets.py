"""Where a scheduler was when its job was submitted, every later call of its client asks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from service.cli.submissions.clients import Output
from service.cli.submissions.journal import Entry, Journal
from service.cli.submissions.registry import SCHEDULERS

ENTRY = Entry(
    id="s1",
    scheduler="any",
    server="http://headroom",
    cluster="c",
    holder="ann",
    payload="",
    placement={},
    lease_s=900,
    owner="ann",
)
OBJECT = {"kind": "Job", "metadata": {"name": "a"}}
DOCUMENTS: Mapping[str, Any] = {
    "slurm": "#!/bin/sh\n",
    "kubernetes": {"kind": "List", "items": [OBJECT]},
    "ray": {"job": {"entrypoint": "a", "files": {}, "env_vars": {}}},
    "skypilot": {"run": "true"},
    "dstack": {"env": []},
}
ANSWERS = {
    "squeue": "1|RUNNING",
    "sbatch": "1",
    "ray job status": "a -- Status for job 'a': RUNNING",
    "sky api status": "[]",
    "sky jobs queue": json.dumps([{"job_id": 1, "job_name": ENTRY.mark, "status": "RUNNING"}]),
    "dstack run get": json.dumps({"status": "running"}),
}
HERE = {"KUBECONFIG": "/kube/a:/kube/b"}
FLAGS = ("--context=dev", "--namespace=ml")


@dataclass(kw_only=True)
class Clients:
    """Clients whose defaults change: they are of whatever ``default`` says."""

    default: str = "dev"
    calls: list[tuple[tuple[str, ...], Mapping[str, str]]] = field(default_factory=list)

    def run(
        self, command: Sequence[str], _text: str = "", variables: Mapping[str, str] | None = None
    ) -> Output:
        """Answer, and remember what was asked."""
        if command[:2] == ("kubectl", "config"):
            return self._view()
        if command[:2] == ("dstack", "ps"):
            return Output(code=0, out=json.dumps({"project": self.default, "runs": []}), err="")
        self.calls.append((tuple(command), variables or {}))
        printed = [text for words, text in ANSWERS.items() if " ".join(command).startswith(words)]
        return Output(code=0, out="".join(printed), err="")

    def _view(self) -> Output:
        if not self.default:
            error = "error: current-context must exist in order to minify"
            return Output(code=1, out="", err=error)
        context = {"namespace": "ml"} if self.default == "dev" else {}
        view = {"current-context": self.default, "contexts": [{"context": context}]}
        return Output(code=0, out=json.dumps(view), err="")


@pytest.fixture(name="clients")
def install_clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    """Put them in place of all clients."""
    clients = Clients()
    for word in SCHEDULERS:
        monkeypatch.setattr(f"service.cli.submissions.{word}.run_client", clients.run)
    return clients


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("slurm", "--comment=headroom-submission:s1 headroom-question="),
        ("ray", '"env_vars": {"HEADROOM_QUESTION_DIGEST": "'),
        ("skypilot", '"envs": {"HEADROOM_QUESTION_DIGEST": "'),
        ("dstack", '"env": {"HEADROOM_QUESTION_DIGEST": "'),
        ("kubernetes", '"headroom.dev/question": "{\\"model\\": \\"gpt2\\"}"'),
    ],
)
def test_a_job_carries_its_question(clients: Clients, word: str, place: str) -> None:
    """Where its nodes or the wrapper of its command look for it; Kubernetes' webhook answers it."""
    scheduler, digest = SCHEDULERS[word], "9a0364b9e99bb480dd25e1f0284c8555"
    entry = replace(ENTRY, question={"model": "gpt2"}, digest=digest)
    entry = replace(entry, payload=scheduler.prepare(DOCUMENTS[word], entry))

    scheduler.submit(entry)

    sent = [entry.payload, *(word for command, _ in clients.calls for word in command)]
    expected = place if word == "kubernetes" else f"{place}{digest}"
    assert any(expected in text for text in sent)


@pytest.mark.parametrize(
    ("word", "flags", "variables"),
    [
        ("slurm", ("--user=1000",), {}),
        ("kubernetes", FLAGS, HERE),
        ("ray", (), {"RAY_API_SERVER_ADDRESS": "http://ray:8265", "RAY_ADDRESS": ""}),
        ("skypilot", (), {"SKYPILOT_API_SERVER_ENDPOINT": "http://sky"}),
        ("dstack", (), {"DSTACK_PROJECT": "dev"}),
    ],
)
def test_cron_asks_where_the_job_was_submitted(
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    flags: tuple[str, ...],
    variables: dict[str, str],
) -> None:
    """Neither another default nor an environment without variables hides a job that runs."""
    scheduler = SCHEDULERS[word]
    monkeypatch.setattr("os.getuid", lambda: 1000)
    monkeypatch.setenv("KUBECONFIG", HERE["KUBECONFIG"])
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://ray:8265")
    monkeypatch.setenv("SKYPILOT_API_SERVER_ENDPOINT", "http://sky")
    entry = replace(ENTRY, target=scheduler.locate())
    entry = replace(entry, payload=scheduler.prepare(DOCUMENTS[word], entry))
    for name in ("KUBECONFIG", "RAY_API_SERVER_ADDRESS", "SKYPILOT_API_SERVER_ENDPOINT"):
        monkeypatch.delenv(name)
    clients.default = "prod"
    monkeypatch.setattr("os.getuid", lambda: 0)
    scheduler.submit(entry)

    scheduler.find(replace(entry, sent_at=1.0))

    looks = [call for call in clients.calls if call[0][0] != "sbatch"]
    assert len(looks) >= (1 if word == "slurm" else 2)
    for command, given in looks:
        assert (set(flags) <= set(command), given) == (True, variables)


def test_a_namespace_of_objects_is_theirs(clients: Clients) -> None:
    """Kubectl refuses objects that are of another one than it is told."""
    kubernetes, item = (
        SCHEDULERS["kubernetes"],
        OBJECT | {"metadata": {"name": "a", "namespace": "b"}},
    )
    entry = replace(ENTRY, target=kubernetes.locate())

    kubernetes.find(replace(entry, payload=kubernetes.prepare(item, entry)))

    assert [word for word in clients.calls[0][0] if word.startswith("--")][:2] == [
        "--context=dev",
        "--filename=-",
    ]


def test_a_pod_has_no_context(clients: Clients) -> None:
    """There kubectl speaks to the cluster that it is in."""
    clients.default = ""

    assert SCHEDULERS["kubernetes"].locate() == {}


def test_an_entry_of_an_earlier_version(clients: Clients, tmp_path: Path) -> None:
    """It is read, its job is called as it was, and its client asks the default as it did."""
    journal = Journal(folder=tmp_path)
    journal.write(replace(ENTRY, owner="", payload=json.dumps({"items": [OBJECT]})))
    path = tmp_path / "s1.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({key: fields[key] for key in fields.keys() - {"owner", "target"}}))

    entry = journal.read("s1")

    assert entry is not None
    SCHEDULERS["kubernetes"].find(entry)
    assert (entry.mark, dict(entry.target)) == ("headroom-s1", {})
    assert clients.calls[0][0][:3] == ("kubectl", "get", "--filename=-")
