"""Benchmark of imports: 10,000 nodes from bytes to the difference they make.

CPU time, without storage.
"""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec
from rich.table import Table

from service.contract.schemas.inventories.imports import ClusterImportRequest
from service.contract.to_answer.cluster_imports import read_import
from service.planner.cluster.adoption import ImportScope, adopt_pools
from service.planner.cluster.changes import list_changes
from service.planner.cluster.inventory import ClusterInventory
from service.usecases.clusters.observed_pools import build_pools

NUM_NODES = 10_000
_LABELS = {f"feature.node.kubernetes.io/cpu-{number}": "true" for number in range(60)}
_GPUS = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.memory": "81920",
}


def time_imports() -> Table:
    """Return a table of what an import of 10,000 nodes takes, by tool."""
    table = Table(title=f"Imports of {NUM_NODES:,} nodes, CPU seconds without storage")
    for column in ("listing", "MB", "decoded", "read", "pools and difference", "all"):
        table.add_column(column)
    for name, items in (
        ("kubectl get nodes,pods, a pod on each node", _make_kubernetes),
        ("scontrol show nodes --json", _make_slurm),
    ):
        table.add_row(name, *_time_import(items))
    return table


def _time_import(make: Callable[[], object]) -> Iterator[str]:
    body = json.dumps({"content": make()}).encode()
    yield f"{len(body) / 1e6:.0f}"
    begin = time.process_time()
    request = msgspec.json.decode(body, type=ClusterImportRequest)
    decoded = time.process_time()
    new = read_import(request)
    read = time.process_time()
    pools = build_pools(new.observed, observed_at=datetime.now(UTC), aliases={}).pools
    after = adopt_pools(
        ClusterInventory(pools=()), pools, tool="kubernetes", scope=ImportScope.SOURCE
    )
    changes = list_changes(None, after)
    end = time.process_time()
    assert len(changes) == NUM_NODES + len(after.pools)
    for seconds in (decoded - begin, read - decoded, end - read, end - begin):
        yield f"{seconds:.2f}"


def _make_kubernetes() -> object:
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [item for number in range(NUM_NODES) for item in _iter_objects(number)],
    }


def _iter_objects(number: int) -> Iterator[object]:
    name = f"n{number}"
    resources = {"cpu": "128", "memory": "1056270132Ki", "nvidia.com/gpu": "8"}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                **_LABELS,
                **_GPUS,
                "topology.k8s.aws/network-node-layer-1": "a",
                "topology.k8s.aws/network-node-layer-2": f"b{number // 256}",
                "topology.k8s.aws/network-node-layer-3": f"c{number // 32}",
            },
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}] * 5,
        },
    }
    limits = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": str(number % 9)}
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": "ml"},
        "spec": {"nodeName": name, "containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": "Running"},
    }


def _make_slurm() -> object:
    return {
        "meta": {"slurm": {"release": "26.05.5"}},
        "nodes": [
            {
                "name": f"n{number}",
                "state": ["MIXED"],
                "gres": "gpu:nvidia_a100-sxm4-80gb:8",
                "gres_used": f"gpu:nvidia_a100-sxm4-80gb:{number % 8}(IDX:0-7)",
                "real_memory": 1_031_000,
                "alloc_memory": 65_536,
                "partitions": ["gpu"],
            }
            for number in range(NUM_NODES)
        ],
    }
