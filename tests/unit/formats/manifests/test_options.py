"""What an installation calls things: each format takes its options, and refuses the others."""

from dataclasses import replace
from typing import Any

import pytest
from kubernetes_validate import validate

from service.estimator.values.layout import Layout
from service.formats.manifests.registry import FORMATS, render_format
from service.formats.renderings.job import FormatOptions, Job
from tests.unit.formats.manifests.samples import CHAT, SAMPLES, list_samples
from tests.unit.formats.renderings.builders import a_job

RACK = "cloud.provider.com/topology-rack"
ISLANDS = a_job(layout=Layout(tensor_parallel=16, data_parallel=2))
ONE_ISLAND = a_job(layout=Layout(tensor_parallel=16))


def _render(word: str, job: Job, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - of any type
    document: Any = render_format(word, replace(job, options=FormatOptions(**options))).document
    items: list[dict[str, Any]] = document["items"]
    return items


def _explain(word: str, job: Job, **options: Any) -> str:  # noqa: ANN401 - as above
    return render_format(word, replace(job, options=FormatOptions(**options))).reason or ""


@pytest.mark.parametrize("word", FORMATS)
def test_a_format_says_which_options_it_takes(word: str) -> None:
    """An option that has no effect is refused with those that have one."""
    row = FORMATS[word]
    (name, job) = next((name, SAMPLES[name]) for other, name, _ in list_samples() if other == word)
    foreign = {"queue": "a", "topology": RACK, "gate": True, "namespace": "a", "name": "aa"}

    for option, value in foreign.items():
        refused = f"{word} takes no {option}: " in _explain(word, job, **{option: value})
        assert refused is (option not in row.options), (name, option)


@pytest.mark.parametrize(
    "word", [word for word, row in FORMATS.items() if "namespace" in row.options]
)
def test_all_objects_are_in_the_namespace(word: str) -> None:
    """A Service that a pod looks for as well."""
    name = next(name for other, name, _ in list_samples() if other == word)

    items = _render(word, SAMPLES[name], namespace="team-a")

    assert {item["metadata"]["namespace"] for item in items} == {"team-a"}


def test_a_name_is_that_of_every_object_and_address() -> None:
    """The first pod's address has it too; a script and dstack take it as it is."""
    service, job = _render("kubernetes", SAMPLES["accelerate"], name="mine")[-2:]
    named = replace(SAMPLES["one node"], options=FormatOptions(name="mine"))
    run: Any = render_format("dstack", named).document

    command = job["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    assert (service["metadata"]["name"], job["metadata"]["name"], run["name"]) == ("mine",) * 3
    assert "HEAD_ADDRESS=mine-0.mine; " in command
    assert "#SBATCH --job-name=mine\n" in str(render_format("slurm", named).document)


def test_a_queue_is_where_its_scheduler_reads_it() -> None:
    """Kueue's label, KAI's, and the field of Volcano."""
    *_, queued = _render("kueue", SAMPLES["two nodes"], queue="team-a")
    *_, kai = _render("kai", SAMPLES["one node"], queue="team-a")
    *_, volcano = _render("volcano", SAMPLES["two nodes"], queue="team-a")

    assert queued["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team-a"}
    assert kai["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"
    assert volcano["spec"]["queue"] == "team-a"


@pytest.mark.parametrize(
    ("word", "name", "suspended"),
    [
        ("jobset", "two nodes", True),
        ("trainjob", "two nodes", True),
        ("rayjob", "named job", True),
        ("rayservice", "named server", False),
        ("lws", "server", False),
    ],
)
def test_kueue_admits_other_kinds_as_well(word: str, name: str, *, suspended: bool) -> None:
    """By its label, where a queue is said; what ends waits suspended."""
    *_, queued = _render(word, SAMPLES[name], queue="team-a")
    *_, plain = _render(word, SAMPLES[name])

    assert queued["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team-a"}
    assert queued["spec"].get("suspend", False) is suspended
    assert queued["spec"] == ({"suspend": True} if suspended else {}) | plain["spec"]
    assert "labels" not in plain["metadata"]


def test_a_gate_holds_a_suspended_job() -> None:
    """By the name of who takes it away; Kueue has it for a Job, not for a Deployment."""
    *_, job = _render("kueue", SAMPLES["two nodes"], gate=True)

    assert job["metadata"]["annotations"] == {
        "kueue.x-k8s.io/admission-gated-by": "headroom.dev/fit"
    }
    assert job["spec"]["suspend"]
    validate(job, "1.37", strict=True)
    assert "a gate holds a job that ends, and this is a Deployment" in _explain(
        "kueue", SAMPLES["server"], gate=True
    )


@pytest.mark.parametrize(
    ("job", "annotations"),
    [
        (SAMPLES["two nodes"], {"podset-preferred-topology": RACK}),
        (ISLANDS, {"podset-slice-required-topology": RACK, "podset-slice-size": "2"}),
        (ONE_ISLAND, {"podset-required-topology": RACK}),
    ],
)
def test_tensor_parallel_nodes_are_in_one_domain(job: Job, annotations: dict[str, str]) -> None:
    """A slice for each group of them; a job without such is near together where there is room."""
    *_, workload = _render("kueue", job, topology=RACK)

    assert workload["spec"]["template"]["metadata"]["annotations"] == {
        f"kueue.x-k8s.io/{name}": value for name, value in annotations.items()
    }
    validate(workload, "1.37", strict=True)


def test_a_replica_on_several_nodes_is_one_group_of_pods() -> None:
    """Leader and workers have the same, as Kueue asks of a LeaderWorkerSet."""
    *_, workload = _render("kueue", SAMPLES["large replicas"], topology=RACK)
    group = workload["spec"]["leaderWorkerTemplate"]
    templates = [group["leaderTemplate"], group["workerTemplate"]]

    assert [template["metadata"]["annotations"] for template in templates] == [
        {
            "kueue.x-k8s.io/podset-group-name": "llama-2-70b-serve",
            "kueue.x-k8s.io/podset-required-topology": RACK,
        }
    ] * 2


def test_a_topology_that_holds_nothing_together_is_refused() -> None:
    """A replica on one node has no other."""
    job = a_job(CHAT, Layout(data_parallel=3))

    assert "each replica of this is on one node" in _explain("kueue", job, topology=RACK)
