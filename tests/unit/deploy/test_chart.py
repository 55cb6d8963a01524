"""The Helm chart, rendered by Helm's own engine: valid for Kubernetes, and nothing may do more than
it needs.
"""

import json
import re
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from service.catalog.gpus import find_gpus
from service.cli.command_table import COMMANDS, build_parser
from service.db.tables.core import MeasureJobRow
from service.runtime.variables import VARIABLES
from tests.unit.deploy.releases import (
    CHART,
    EVERYTHING,
    GPU,
    MINIMAL,
    ROOT,
    SETS,
    load_helm,
    of_kind,
    pods,
    rendered,
)

OLDEST, NEWEST = "1.30", "1.37"
"""The oldest Kubernetes that Chart.yaml lets in, and the newest whose schemas are at hand."""
ELSEWHERE = {
    "ScaledJob",
    "ServiceMonitor",
    "PrometheusRule",
    "Issuer",
    "Certificate",
    "AdmissionCheck",
}
"""Kinds that other operators bring; the oldest fields of theirs are all that the chart uses."""


@pytest.fixture(scope="module", name="releases")
def render_all() -> dict[str, list[dict[str, Any]]]:
    """Return the manifests of every set of values."""
    return {name: rendered(values) for name, values in SETS.items()}


def test_helm_finds_nothing_to_complain_of() -> None:
    """Lint with the least that must be said; that there is no icon is all it has to say."""
    report = load_helm().lint(CHART, MINIMAL, strict=True)

    assert report["errors"] == []
    assert [message["error"] for message in report["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", SETS)
def test_every_manifest_is_valid_for_kubernetes(
    releases: dict[str, list[dict[str, Any]]], name: str, version: str
) -> None:
    """By the schemas of the oldest and the newest release, without a field that they do not
    know.
    """
    for manifest in releases[name]:
        if manifest["kind"] not in ELSEWHERE:
            validate(manifest, version, strict=True)

    assert OLDEST in (CHART / "Chart.yaml").read_text()


def test_an_image_can_be_held_by_its_digest() -> None:
    """It stands in the place of the tag, for the image that it is of."""
    digest = f"sha256:{'a' * 64}"
    image = {"registry": "r.example", "tag": "1", "digests": {"headroom-api": digest}}
    release = rendered({**MINIMAL, "image": image})
    used = {c["image"] for _, pod in pods(release) for c in pod["containers"]}

    assert f"r.example/headroom-api@{digest}" in used
    assert not any("headroom-api:" in name for name in used)


@pytest.mark.parametrize("name", SETS)
def test_a_pod_may_do_little(releases: dict[str, list[dict[str, Any]]], name: str) -> None:
    """Nobody's root, a root that cannot be written to, no capability, a limit of memory, and no
    token of the cluster but for the controller, whose work is there.
    """
    made = list(pods(releases[name]))

    assert made
    for maker, pod in made:
        assert pod["securityContext"]["runAsNonRoot"] is True, maker
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, maker
        asks_cluster = maker.endswith("-kueue")
        assert pod["automountServiceAccountToken"] is asks_cluster, maker
        assert pod["enableServiceLinks"] is False, maker
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, maker
        assert maker.endswith("-test") or container["resources"]["limits"]["memory"], maker
        mounts = {mount["name"]: mount for mount in container.get("volumeMounts", [])}
        assert set(mounts) == {volume["name"] for volume in pod.get("volumes", [])}, maker
        assert all(
            "emptyDir" in volume or mounts[volume["name"]]["readOnly"]
            for volume in pod.get("volumes", [])
        ), maker


@pytest.mark.parametrize("name", SETS)
def test_commands_and_variables_are_ours(
    releases: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """What a pod is started with is a command of `headroom`, and what it is told are settings that
    exist.
    """
    known = {"HEADROOM_API_KEY", "NODE_NAME", *(variable for variable, _ in VARIABLES.values())}
    for maker, pod in pods(releases[name]):
        (container,) = pod["containers"]
        if "args" in container:
            command, *arguments = container["args"]
            assert command in COMMANDS, maker
            assert build_parser(command).parse_args(arguments), maker
            assert {each["name"] for each in container["env"]} <= known, maker


def test_passwords_come_from_secrets_alone(releases: dict[str, list[dict[str, Any]]]) -> None:
    """No URL is in a manifest, and a release without a name of the database's secret is refused in
    words.
    """
    assert "://" not in json.dumps(
        [list(pods(manifests)) for manifests in releases.values()]
    ).replace("http://rel", "")
    with pytest.raises(load_helm().HelmError, match=r"existingSecret|database"):
        rendered({})


def test_selectors_find_their_own_pods_only(releases: dict[str, list[dict[str, Any]]]) -> None:
    """A service reaches the API alone, and no two controllers claim the same pods."""
    manifests = releases["bare"] + [
        each for each in releases["everything"] if each["kind"] == "Service"
    ]
    controllers = of_kind(manifests, "Deployment") + of_kind(manifests, "DaemonSet")
    selectors = [each["spec"]["selector"]["matchLabels"] for each in controllers]
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in controllers]

    def found(selector: dict[str, str]) -> list[int]:
        return [number for number, own in enumerate(labels) if selector.items() <= own.items()]

    assert [found(selector) for selector in selectors] == [
        [number] for number in range(len(selectors))
    ]
    # That of another namespace finds what others run there.
    for service in (
        each for each in of_kind(manifests, "Service") if "namespace" not in each["metadata"]
    ):
        component = service["metadata"]["labels"]["app.kubernetes.io/component"]
        assert [
            controllers[number]["metadata"]["name"] for number in found(service["spec"]["selector"])
        ] == [f"rel-headroom-{component}"]


def test_migrations_come_before_everything(releases: dict[str, list[dict[str, Any]]]) -> None:
    """A hook that needs nothing of the release, since nothing of it is there yet."""
    (job,) = of_kind(releases["minimal"], "Job")
    pod = job["spec"]["template"]["spec"]

    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert pod["containers"][0]["args"] == ["migrate"]
    assert "serviceAccountName" not in pod
    assert of_kind(releases["bare"], "Job") == []


def test_a_queue_of_a_gpu_is_scaled_by_the_rows_that_wait_for_it(
    releases: dict[str, list[dict[str, Any]]],
) -> None:
    """One job of KEDA's per kind of GPU, which takes one GPU, leaves when nothing is queued, and is
    counted by its rows.
    """
    jobs = of_kind(releases["everything"], "ScaledJob")
    columns = set(MeasureJobRow.__table__.columns.keys())

    assert [each["spec"]["maxReplicaCount"] for each in jobs] == [4, 1]
    for each, asked in zip(jobs, EVERYTHING["gpuWorkers"], strict=True):
        (container,) = each["spec"]["jobTargetRef"]["template"]["spec"]["containers"]
        (trigger,) = each["spec"]["triggers"]
        assert container["args"] == ["worker", "--device", "cuda", "--burst"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
        assert find_gpus(asked["gpu"])[0].name == asked["gpu"]
        assert f"gpu = '{asked['gpu']}'" in trigger["metadata"]["query"]
        assert set(re.findall(r"(\w+) (?:=|IS)", trigger["metadata"]["query"])) <= columns
        assert trigger["metadata"]["connectionFromEnv"] in {
            variable["name"] for variable in container["env"]
        }
    assert (
        jobs[1]["spec"]["jobTargetRef"]["template"]["spec"]["containers"][0]["resources"]["limits"][
            "memory"
        ]
        == "128Gi"
    )


def test_without_keda_a_queue_has_workers_that_stay(
    releases: dict[str, list[dict[str, Any]]],
) -> None:
    """A deployment of as many as there are GPUs."""
    gpu = next(
        each
        for each in of_kind(releases["bare"], "Deployment")
        if "a100" in each["metadata"]["name"]
    )

    assert gpu["spec"]["replicas"] == GPU["maxReplicas"]
    assert gpu["spec"]["template"]["spec"]["containers"][0]["args"] == [
        "worker",
        "--device",
        "cuda",
    ]


@pytest.mark.parametrize(
    ("copied", "source"), [("grafana", "grafana/dashboards"), ("prometheus", "prometheus")]
)
def test_the_chart_carries_the_dashboards_and_rules_of_the_project(
    copied: str, source: str
) -> None:
    """Helm reads nothing outside of a chart, so they are copies: `cp` them anew after a change."""
    kept = {path.name: path.read_text() for path in (CHART / "files" / copied).iterdir()}
    originals = {
        path.name: path.read_text()
        for path in (ROOT / "deploy" / source).iterdir()
        if path.name in kept or path.suffix == ".json"
    }

    assert kept
    assert kept == originals


def test_dashboards_and_rules_are_in_the_release(releases: dict[str, list[dict[str, Any]]]) -> None:
    """Each dashboard as Grafana's sidecar finds it, and every alert, with what is Prometheus' own
    left as it is.
    """
    manifests = releases["everything"]
    boards = [
        each
        for each in of_kind(manifests, "ConfigMap")
        if "grafana_dashboard" in each["metadata"]["labels"]
    ]
    (rules,) = of_kind(manifests, "PrometheusRule")

    assert len(boards) == len(list((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json")))
    assert all(json.loads(text)["title"] for each in boards for text in each["data"].values())
    assert rules["spec"] == yaml.safe_load(
        (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"databse": {}}, "databse"),
        ({"api": {"access": "local"}}, "access"),
        ({"gpuWorkers": [{"gpu": "A100' OR '1'='1", "maxReplicas": 1}]}, "gpu"),
        ({"gpuWorkers": [{"gpu": "A100-SXM4-80GB"}]}, "maxReplicas"),
        ({"settings": {"DATABASE_URL": "postgresql://…"}}, "DATABASE_URL"),
        ({"settings": {"HEADROOM_ACCESS": "open"}}, "HEADROOM_ACCESS"),
    ],
)
def test_values_that_cannot_be_are_refused(values: dict[str, Any], words: str) -> None:
    """By the schema, before anything is rendered: what is misspelt, and what would end up in a
    query.
    """
    with load_helm().Chart.load(CHART) as chart, pytest.raises(load_helm().HelmError, match=words):
        chart.validate_schema({**MINIMAL, **values})
