"""Measurements for pages to show, imported so that nothing has to run: readings near what the
estimator says.
"""

import json
from itertools import count
from typing import Any

import httpx

GPU = "A100-SXM4-80GB"
_JOBS = count(18_000_000)
ENVIRONMENT = {"torch": "2.13.0", "transformers": "5.23.0", "driver": "570.86.15"}


def add_reading(
    client: httpx.Client, *, model: str, sequence_length: int, off_by: float, method: str = "full"
) -> str:
    """Store peaks of allocated and reserved bytes that the estimator missed by ``off_by``; return
    the measurement's id.
    """
    body: dict[str, Any] = {
        "model": model,
        "workload": {
            "task": "train",
            "sequence_length": sequence_length,
            "precision": "bf16",
            "method": method,
        },
        "gpu": GPU,
        "environment": ENVIRONMENT,
    }
    dry = (
        client.post("/v1/measurements/import", json={**body, "content": _stats(10**9, 10**9)})
        .raise_for_status()
        .json()
    )
    said = {
        one["quantity"]: one["predicted"] for one in dry["items"][0]["prediction"]["quantities"]
    }
    allocated, reserved = (
        round(said[f"{name}_bytes"] / (1 + off_by)) for name in ("allocated", "reserved")
    )
    asked = {**body, "content": _stats(allocated, max(allocated, reserved)), "dry_run": False}
    stored = client.post("/v1/measurements/import", json=asked).raise_for_status().json()
    assert stored["items"][0]["problems"] == []
    return str(stored["items"][0]["id"])


def add_jobs(client: httpx.Client, *, model: str, num_jobs: int) -> None:
    """Store what Slurm saw of jobs that are all alike."""
    header = "JobID|JobName|NTasks|AllocTRES|TRESUsageInMax\n"
    steps = (
        f"{next(_JOBS)}.batch|batch|1|cpu=8,gres/gpu:a100=1|gres/gpumem=38888M"
        for _ in range(num_jobs)
    )
    workload = {"task": "train", "sequence_length": 2048, "precision": "bf16"}
    body = {
        "content": header + "\n".join(steps) + "\n",
        "model": model,
        "workload": workload,
        "gpu": GPU,
        "dry_run": False,
    }
    stored = client.post("/v1/measurements/import", json=body).raise_for_status().json()
    assert stored["num_stored"] == num_jobs


def _stats(allocated: int, reserved: int) -> str:
    """Return what ``torch.cuda.memory_stats()`` says."""
    return json.dumps(
        {"allocated_bytes.all.peak": allocated, "reserved_bytes.all.peak": reserved, "num_ooms": 0}
    )
