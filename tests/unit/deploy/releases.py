"""Releases of the chart, rendered by Helm's own engine."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "chart" / "headroom"
MINIMAL: dict[str, Any] = {"database": {"existingSecret": "postgres"}}
GPU = {
    "gpu": "A100-SXM4-80GB",
    "maxReplicas": 4,
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
}
EVERYTHING: dict[str, Any] = {
    **MINIMAL,
    "image": {"registry": "registry.example/infra", "tag": "1.2.3", "pullSecrets": ["pull"]},
    "redis": {"existingSecret": "valkey"},
    "settings": {"HEADROOM_LEASE_S": 60, "HEADROOM_ACCESS_LOG": True},
    "api": {
        "autoscaling": {"enabled": True},
        "nodeSelector": {"pool": "api"},
        "tolerations": [{"operator": "Exists"}],
    },
    "reconcile": {
        "keep": "90d",
        "nodeSelector": {"pool": "api"},
        "tolerations": [{"operator": "Exists"}],
    },
    "hooks": {"enabled": True, "mode": "change", "certManager": {"enabled": True}},
    "kueue": {
        "enabled": True,
        "pin": True,
        "existingSecret": "asker",
        "admissionCheck": {"create": True},
        "nodeSelector": {"pool": "api"},
        "tolerations": [{"operator": "Exists"}],
    },
    "nodes": {
        "enabled": True,
        "existingSecret": "teller",
        "releases": {"torch": "2.13.0", "transformers": "5.23.0"},
        "exporter": {"namespace": "monitoring", "port": 9401},
    },
    "processorWorkers": {"trace": {"replicas": 2}, "cpu": {"replicas": 1}},
    "gpuWorkers": [
        GPU,
        {"gpu": "H100-SXM5-80GB", "maxReplicas": 1, "resources": {"limits": {"memory": "128Gi"}}},
    ],
    "gpuWorkerDefaults": {"runtimeClassName": "nvidia"},
    "keda": {"enabled": True},
    "ingress": {"enabled": True, "className": "nginx", "host": "gpu.example", "tlsSecret": "tls"},
    "networkPolicy": {
        "from": [{"podSelector": {}}],
        "extraEgress": [{"ports": [{"protocol": "TCP", "port": 4318}]}],
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "existingSecret": "scraper"},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "podAnnotations": {"team": "infra"},
    "priorityClassName": "high",
}
BARE: dict[str, Any] = {
    **MINIMAL,
    "api": {"replicas": 1, "access": "open"},
    "hooks": {
        "enabled": True,
        "existingSecret": "tls",
        "caBundle": "Y2E=",
        "namespaceSelector": None,
    },
    "kueue": {"enabled": True, "gate": "none", "fail": "closed"},
    "nodes": {"enabled": True, "nodeSelector": None, "tolerations": []},
    "processorWorkers": {"trace": {"replicas": 0}},
    "gpuWorkers": [GPU],
    "migrations": {"enabled": False},
    "serviceAccount": {"create": False},
    "networkPolicy": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
}
SETS = {"minimal": MINIMAL, "everything": EVERYTHING, "bare": BARE}


class _Strict(yaml.SafeLoader):
    """A loader that refuses a key that is there twice, as the API server does."""


def load_helm() -> ModuleType:
    """Return Helm's engine.

    Its Go runtime survives no fork, so that the process which collects the tests must not load it.
    """
    return import_module("helm_python")


def _mapping(loader: _Strict, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    assert len(keys) == len(set(keys)), f"{sorted(keys)} at {node.start_mark}"
    return loader.construct_mapping(node, deep=True)


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the manifests of a release, in the order of their files."""
    with load_helm().Chart.load(CHART) as chart:
        files = chart.render(values, name="rel", namespace="capacity")
    texts = [text for path, text in sorted(files.items()) if path.endswith(".yaml")]
    return [each for text in texts for each in yaml.load_all(text, Loader=_Strict) if each]


def pods(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every pod that a release makes, by the name of what makes it."""
    for each in manifests:
        spec = each.get("spec", {})
        holder = spec.get("jobTargetRef", spec)
        pod = spec if each["kind"] == "Pod" else holder.get("template", {}).get("spec")
        if pod is not None:
            yield each["metadata"]["name"], pod


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the manifests of a kind."""
    return [each for each in manifests if each["kind"] == kind]
