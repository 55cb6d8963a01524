"""A Ray cluster with made-up GPUs, which takes what Headroom renders."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.cli.submissions.errors import SchedulerError
from service.cli.submissions.journal import Entry
from service.cli.submissions.ray import Ray
from service.cli.submissions.scheduler import Sighting
from service.formats.manifests.registry import render_format
from tests.schedulers.clients.entries import make_entry
from tests.schedulers.clients.environments import install_client, make_environment
from tests.schedulers.clients.questions import report
from tests.schedulers.headroom import await_answer, find_port
from tests.unit.formats.manifests.samples import SAMPLES

_PACKAGE = "ray[default]==2.60.0"
_PATIENCE_S = 300.0
_NOT_READY = "No available agent to submit job"
_NODES = [
    {"num_gpus": 8, "resources": {"accelerator_type:A100-80G": 1}},
    {"num_gpus": 8, "resources": {"accelerator_type:A100-80G": 1}},
    {"num_gpus": 4, "resources": {"accelerator_type:H100": 1}},
    {"num_gpus": 1, "resources": {"mig-3g.40gb": 1}},
    {"num_gpus": 1, "resources": {"accelerator_type:AMD-Instinct-MI300X-OAM": 1}},
]
"""Each GPU type has its resource, as Ray and administrators name them; the fourth has a slice."""
_CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster
port, nodes = int(sys.argv[1]), json.loads(sys.argv[2])
head = {"num_cpus": 2, "include_dashboard": True, "dashboard_port": port}
# Agents of nodes on one machine would all listen on one port.
anywhere = {"dashboard_agent_listen_port": 0}
cluster = Cluster(initialize_head=True, head_node_args={**head, **anywhere, **nodes[0]})
for node in nodes[1:]:
    cluster.add_node(num_cpus=1, **anywhere, **node)
print("address", cluster.address, flush=True)
sys.stdin.read()
"""
_GROUPS = """
import json, sys
import ray
from ray.util.placement_group import placement_group, remove_placement_group
ray.init(address=sys.argv[1], logging_level="error")
for request in json.load(sys.stdin):
    group = placement_group(**request)
    print("ready" if group.wait(timeout_seconds=20) else "pending", flush=True)
    remove_placement_group(group)
"""


def check_ray() -> Iterator[str]:
    """Yield what Ray does otherwise than Headroom renders."""
    programs = install_client(_PACKAGE)
    documents: dict[str, Any] = {
        name: render_format("ray", job).document for name, job in SAMPLES.items()
    }
    with _start(programs) as address:
        yield from _check_groups(programs, address, documents)
        for number, (name, document) in enumerate(documents.items()):
            if document["job"] is not None and name in {"one node", "two nodes", "slice"}:
                yield from _submit(programs, f"s{number}", name, document["job"])


@contextmanager
def _start(programs: Path) -> Iterator[str]:
    """Yield the address of a cluster, whose jobs' client is found."""
    before, url = dict(os.environ), f"http://127.0.0.1:{find_port()}"
    os.environ.update(
        make_environment(
            programs,
            RAY_API_SERVER_ADDRESS=url,
            RAY_USAGE_STATS_ENABLED="0",
            CHECKPOINT="/models/a",
        )
    )
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [
                *(str(programs / "python"), "-c", _CLUSTER),
                *(url.rpartition(":")[2], json.dumps(_NODES)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        try:
            lines = (line.split() for line in process.stdout)
            address = next(words[1] for words in lines if words[:1] == ["address"])
            await_answer(f"{url}/api/version")
            yield address
        finally:
            # It ends with its stdin, and all that it started with it.
            process.communicate()
            os.environ.clear()
            os.environ.update(before)


def _check_groups(programs: Path, address: str, documents: dict[str, Any]) -> Iterator[str]:
    """Yield rendered placement groups that the cluster has no place for, or the reverse."""
    requests = {name: document["placement_group"] for name, document in documents.items()}
    wanted = dict.fromkeys(requests, "ready")
    one = requests["one node"]
    requests["nine GPUs of a node"] = {**one, "bundles": [{**one["bundles"][0], "GPU": 9}]}
    requests["a GPU that no node has"] = {
        **one,
        "bundles": [{"GPU": 1, "accelerator_type:B200": 1}],
    }
    done = subprocess.run(
        [str(programs / "python"), "-c", _GROUPS, address],
        input=json.dumps(list(requests.values())),
        capture_output=True,
        text=True,
        check=True,
    )
    words = [line for line in done.stdout.splitlines() if line in {"ready", "pending"}]
    for name, word in zip(requests, words, strict=True):
        report(f"ray, {name}", f"{word}: {requests[name]}")
        if word != wanted.get(name, "pending"):
            yield f"ray, {name}: {word}"


def _submit(programs: Path, submission_id: str, name: str, job: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a job whose command says where it runs."""
    probe = 'echo "runs on $CUDA_VISIBLE_DEVICES as ${NODE_RANK:-0} of ${HEAD_ADDRESS:-here}"; ls'
    files = {**job["files"], "command.sh": f"{probe}\n"}
    scheduler = Ray()
    # Lines that differ by a number alone would be told once.
    variables = {**job["env_vars"], "RAY_DEDUP_LOGS": "0"}
    document = {"job": {**job, "files": files, "env_vars": variables}}
    entry = make_entry(submission_id, scheduler, document)
    before = scheduler.find(entry)
    entry = replace(entry, job=_hand_over(scheduler, entry))
    seen = _await_end(scheduler, entry)
    logs = subprocess.run(
        [str(programs / "ray"), "job", "logs", entry.mark],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ranks = sorted({line.partition(" as ")[2] for line in logs.splitlines() if " as " in line})
    report(f"ray, job of {name}", f"{seen}, ranks {ranks}")
    if before != Sighting(is_certain=True) or seen.job != entry.mark:
        yield f"ray, {name}: {before}, then {seen}"
    shape = json.loads(job["files"]["shape.json"])
    if len(ranks) != len(shape["bundles"]) or any(file not in logs for file in files):
        yield f"ray, {name}: {logs}"


def _hand_over(scheduler: Ray, entry: Entry) -> str:
    """Submit a job, as soon as a node of a cluster that has just begun takes one."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return scheduler.submit(entry)
        except SchedulerError as error:
            if _NOT_READY not in error.detail or time.monotonic() > deadline:
                raise
            time.sleep(1)


def _await_end(scheduler: Ray, entry: Entry) -> Sighting:
    deadline = time.monotonic() + _PATIENCE_S
    while (seen := scheduler.find(entry)).is_alive:
        if time.monotonic() > deadline:
            message = f"{entry.mark} did not end within {_PATIENCE_S:.0f} s"
            raise TimeoutError(message)
        time.sleep(1)
    return seen
