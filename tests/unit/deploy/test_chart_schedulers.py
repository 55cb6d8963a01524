"""What the chart sets up in schedulers: webhook, certificate, controller for Kueue, collectors."""

from typing import Any

import pytest

from service.formats.submissions.pod_groups import KINDS
from service.kueue.resources import CHECKS, EVENTS, FLAVORS, GATED, LEASES, WORKLOADS
from tests.unit.deploy.releases import MINIMAL, SETS, load_helm, of_kind, pods, rendered


@pytest.fixture(scope="module", name="releases")
def render_all() -> dict[str, list[dict[str, Any]]]:
    """Return the manifests of every set of values."""
    return {name: rendered(values) for name, values in SETS.items()}


def test_nothing_of_schedulers_is_there_unless_asked_for(
    releases: dict[str, list[dict[str, Any]]],
) -> None:
    """No webhook, no role, no certificate."""
    kinds = {each["kind"] for each in releases["minimal"]}

    assert kinds.isdisjoint({"AdmissionCheck", "Certificate", "ClusterRole", "Issuer", "Role"})
    assert not [kind for kind in kinds if kind.endswith("WebhookConfiguration")]


@pytest.mark.parametrize(
    ("name", "kind", "mode"),
    [
        ("everything", "MutatingWebhookConfiguration", "change"),
        ("bare", "ValidatingWebhookConfiguration", "warn"),
    ],
)
def test_a_webhook_is_reached_by_its_certificate(
    releases: dict[str, list[dict[str, Any]]], name: str, kind: str, mode: str
) -> None:
    """Its service has the name that the certificate has; without Headroom a cluster works."""
    manifests = releases[name]
    [configuration] = of_kind(manifests, kind)
    [webhook] = configuration["webhooks"]
    service = webhook["clientConfig"]["service"]

    assert (webhook["failurePolicy"], webhook["sideEffects"]) == (
        "Ignore",
        "NoneOnDryRun",
    )
    assert service["path"] == f"/v1/hooks/kubernetes/{mode}"
    [pod] = [pod for maker, pod in pods(manifests) if maker == service["name"]]
    [secret] = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    # Pods of the hook itself and of the cluster come up while the hook is away.
    assert webhook["namespaceSelector"]["matchExpressions"] == [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "capacity"],
        }
    ]
    if name == "bare":
        assert webhook["clientConfig"]["caBundle"] == "Y2E="
        assert "matchLabels" not in webhook["namespaceSelector"]
        return
    [certificate] = of_kind(manifests, "Certificate")
    assert certificate["spec"]["secretName"] == secret["secretName"]
    assert f"{service['name']}.capacity.svc" in certificate["spec"]["dnsNames"]
    [issuer] = of_kind(manifests, "Issuer")
    assert certificate["spec"]["issuerRef"] == {
        "kind": "Issuer",
        "name": issuer["metadata"]["name"],
    }
    injected = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert injected == f"capacity/{certificate['metadata']['name']}"


def test_the_webhook_is_shown_what_it_reads(
    releases: dict[str, list[dict[str, Any]]],
) -> None:
    """And nothing that it would pass without a word."""
    [configuration] = of_kind(releases["everything"], "MutatingWebhookConfiguration")
    rules = configuration["webhooks"][0]["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}

    kinds = {kind.lower() + "s" for kind in KINDS}
    assert resources == kinds - {"replicasets"}
    assert {operation for rule in rules for operation in rule["operations"]} == {"CREATE"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"enabled": True}, "needs a certificate"),
        ({"enabled": True, "existingSecret": "tls"}, "needs hooks.caBundle"),
    ],
)
def test_a_webhook_without_a_certificate_is_refused(values: dict[str, Any], words: str) -> None:
    """The API server would trust nobody, and ignore it in silence."""
    with pytest.raises(load_helm().HelmError, match=words):
        rendered({**MINIMAL, "hooks": values})


def list_grants(manifests: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return each resource and verb that the controller is granted."""
    return {
        (resource, verb)
        for each in (*of_kind(manifests, "ClusterRole"), *of_kind(manifests, "Role"))
        for rule in each["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_controller_may_do_what_it_does_and_no_more(
    releases: dict[str, list[dict[str, Any]]],
) -> None:
    """Each verb of its requests, in tests/unit/kueue, on each of its resources."""
    watched = [*(each.plural for each in GATED), WORKLOADS.plural, CHECKS.plural]
    reads = {(plural, verb) for plural in watched for verb in ("get", "list", "watch")}
    patches = {(each.plural, "patch") for each in GATED}
    states = {(f"{each.plural}/status", "patch") for each in (WORKLOADS, CHECKS)}
    leases = {(LEASES.plural, verb) for verb in ("get", "create", "update")}
    rest = {(FLAVORS.plural, "get"), (EVENTS.plural, "create")}

    assert list_grants(releases["everything"]) == reads | patches | states | leases | rest
    assert not patches & list_grants(releases["bare"])


def test_a_controller_of_one_namespace_may_act_there_alone() -> None:
    """Checks and flavors have no namespace: of the whole cluster it may read these."""
    kueue = {"enabled": True, "namespace": "ml"}
    manifests = rendered({**MINIMAL, "kueue": kueue})
    [cluster_role] = of_kind(manifests, "ClusterRole")
    roles = {each["metadata"].get("namespace"): each for each in of_kind(manifests, "Role")}
    bindings = {
        each["metadata"].get("namespace"): each for each in of_kind(manifests, "RoleBinding")
    }
    [container] = [pod["containers"][0] for name, pod in pods(manifests) if name.endswith("kueue")]

    granted = {resource for rule in cluster_role["rules"] for resource in rule["resources"]}
    assert granted == {CHECKS.plural, f"{CHECKS.plural}/status", FLAVORS.plural}
    assert list_grants([cluster_role, *roles.values()]) == list_grants(
        rendered({**MINIMAL, "kueue": {"enabled": True}})
    )
    assert bindings["ml"]["roleRef"]["name"] == roles["ml"]["metadata"]["name"]
    assert container["args"][-2:] == ["--namespace", "ml"]
    # Another release beside it, for another namespace, has a lease of its own.
    assert roles[None]["rules"][1]["resourceNames"] == ["headroom-kueue-ml"]
    gates = rendered({**MINIMAL, "kueue": {**kueue, "check": "none"}})
    assert of_kind(gates, "ClusterRole") == []


def test_a_collector_reaches_its_own_node_and_the_api(
    releases: dict[str, list[dict[str, Any]]],
) -> None:
    """By a service that never leaves the node, past policies that let in nothing else."""
    manifests = releases["everything"]
    [daemon_set] = of_kind(manifests, "DaemonSet")
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    [service] = [each for each in of_kind(manifests, "Service") if "namespace" in each["metadata"]]
    policies = {each["metadata"]["name"]: each for each in of_kind(manifests, "NetworkPolicy")}
    labels = daemon_set["spec"]["template"]["metadata"]["labels"]
    admitted = [
        source["podSelector"].get("matchLabels", {})
        for source in policies["rel-headroom-api"]["spec"]["ingress"][0]["from"]
    ]
    exporter, api = policies["rel-headroom-nodes"]["spec"]["egress"]

    address = service["metadata"]["name"] + "." + service["metadata"]["namespace"]
    assert f"http://{address}:9401/metrics" in container["args"]
    assert container["args"][-4:] == [
        "--release",
        "torch=2.13.0",
        "--release",
        "transformers=5.23.0",
    ]
    assert service["spec"]["internalTrafficPolicy"] == "Local"
    assert service["spec"]["selector"] == {"app": "nvidia-dcgm-exporter"}
    assert exporter["to"][0]["podSelector"]["matchLabels"] == service["spec"]["selector"]
    assert exporter["ports"] == [{"protocol": "TCP", "port": 9401}]
    assert api["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "api"
    assert any(each and each.items() <= labels.items() for each in admitted)
    assert not of_kind(releases["minimal"], "DaemonSet")
