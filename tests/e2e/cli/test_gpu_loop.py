"""A machine with a GPU: one command starts its worker, and a measurement closes the loop.

The GPU is a fake of NVML, and the probe answers what an H100 was recorded to do; everything else
is the real thing.
"""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.contract.to_answer.requests import render_workload
from tests.accuracy.real.closing import load_sweep
from tests.e2e.cli.conftest import Up
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
MEASURED = "sizes/llama-3.2-1b/amp_bf16 2x2048"
NEIGHBOUR = "models/llama-3.2-1b/amp_bf16 1x1024"
OTHER = "models/qwen3-0.6b/bf16 2x1024"
"""Another model, whose host decides."""
SLOWER = 1.4
"""What the run of few tokens takes here over what it took there: the host's doing."""
GPU = "H100-SXM5-80GB"
IN_TIME_S = 60.0


def ask(name: str) -> dict[str, Any]:
    """Return the question of a recorded case."""
    case = load_sweep("h100").rows[name].case
    return {"model": case.model, "workload": render_workload(case.task.workload), "gpu": GPU}


def read_device(name: str) -> int:
    """Return the device bytes of a recorded case."""
    measured = load_sweep("h100").rows[name].measured
    assert measured is not None
    assert measured.device_bytes is not None
    return measured.device_bytes


def compute_half_width(answer: dict[str, Any]) -> float:
    """Return the wider half of the device's interval as a share of its point."""
    device: int = answer["per_gpu"]["device_bytes"]
    low, high = map(int, answer["per_gpu"]["intervals"]["device"])
    return max(high - device, device - low) / device


def test_the_loop_closes_on_a_gpu(up: Up) -> None:
    """The GPU's worker is there and told of; a measurement without a device takes it, and the next
    answer's interval shrinks below 1.5 %. The GPU decides the measured job's time, and yet a job
    that waits for the host is answered by how slow this one is.
    """
    gpus = [{"uuid": "GPU-1111", "name": "NVIDIA H100 80GB HBM3", "total": 85_520_809_984}]
    running = up(
        "--probe-command",
        f"{sys.executable} -m tests.recorded_probe {SLOWER}",
        FAKE_GPUS=json.dumps(gpus),
        PYTHONPATH=f"{ROOT / 'tests' / 'fake_driver'}:{ROOT}",
        CUDA_VISIBLE_DEVICES="GPU-1111",
    )
    assert running.process.stdout is not None
    # It came with the line before, which was read.
    line = running.process.stdout.readline()

    with httpx.Client(base_url=running.url, timeout=IN_TIME_S) as client:

        def list_gpus() -> list[str]:
            workers = client.get("/v1/workers").json()["items"]
            return [
                device["sku"] for one in workers for device in one["devices"] if "sku" in device
            ]

        def fit(name: str) -> dict[str, Any]:
            answer: dict[str, Any] = (
                client.post("/v1/fit", json=ask(name)).raise_for_status().json()
            )
            return answer

        eventually(lambda: list_gpus() == [GPU], within_s=IN_TIME_S)
        before, other_before = fit(MEASURED), fit(OTHER)
        asked = client.post("/v1/measurements", json=ask(MEASURED)).raise_for_status()
        path = asked.headers["location"]
        eventually(lambda: client.get(path).json()["finished_at"] is not None, within_s=IN_TIME_S)
        measurement = client.get(path).json()
        after, neighbour, other = fit(MEASURED), fit(NEIGHBOUR), fit(OTHER)
        classes = client.get("/v1/accuracy").json()["classes"]

    assert "gpu-0" in running.parts()
    assert line == "Workers of 1 GPU: NVIDIA H100 80GB HBM3 (GPU-1111)\n"
    assert (asked.json()["device"], asked.json()["warnings"]) == ("cuda", [])
    assert (measurement["status"], measurement["extrapolated"]) == ("succeeded", False)
    assert compute_half_width(after) < min(compute_half_width(before), 0.015)
    assert abs(after["per_gpu"]["device_bytes"] / read_device(MEASURED) - 1) < 0.005
    assert abs(neighbour["per_gpu"]["device_bytes"] / read_device(NEIGHBOUR) - 1) < 0.015
    assert set(before["bases"].values()) == {"analytic", None}
    assert set(after["bases"].values()) == {"measured", None}
    timed = measurement["step_time_s"]["median"]
    assert after["throughput"]["step_time_s"] == pytest.approx(timed, rel=1e-6)
    assert [run["micro_batch_size"] for run in measurement["probes"]] == [2, 1]
    assert measurement["probes"][0]["step_time_s"]["median"] == timed
    grown = other["throughput"]["step_time_s"] / other_before["throughput"]["step_time_s"]
    assert SLOWER < grown < SLOWER**2
    assert other["bases"]["step_time"] == "calibrated"
    assert {(one["quantity"], one["gpu"]) for one in classes} == {
        (quantity, GPU) for quantity in ("allocated", "reserved", "device", "step_time")
    }
