"""The kit of Slurm's nodes, run for real: what a job used moves the next answer."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from tests.e2e.access.conftest import ask, make_key, until_known
from tests.waiting import eventually

KIT = Path(__file__).parents[3] / "deploy" / "slurm"
QUESTION = "qwen3-0.6b --task train --sequence-length 640"
JOB: dict[str, Any] = {
    "options": {
        "gres": "gres/gpu:nvidia_a100-sxm4-80gb:1",
        "argv": ["job.sh"],
        "comment": "for the paper",
    },
    "script": f"#!/bin/sh\n#HEADROOM {QUESTION}\n",
}
FAKE_DCGMI = """\
#!/bin/sh
echo "$@" >> "{root}/dcgmi.log"
if [ "$2" = -v ]; then
  echo "| GPU ID: 0 |"
  echo "| Max GPU Memory Used (bytes) | 7 |"
  echo "| GPU ID: 5 |"
  echo "| Max GPU Memory Used (bytes) * | $(cat "{root}/used") |"
fi
"""
"""DCGM of a node with another job on its GPU 0."""


class Node:
    """A node with the kit, a fake ``dcgmi``, and folders of its own."""

    def __init__(self, root: Path, url: str, key: str) -> None:
        """Write its settings."""
        self.root, self.log, self.run = root, root / "dcgmi.log", root / "run"
        dcgmi = root / "dcgmi"
        dcgmi.write_text(FAKE_DCGMI.format(root=root))
        dcgmi.chmod(0o755)
        self.conf = root / "node.conf"
        self.conf.write_text(f"HEADROOM_URL={url}\nHEADROOM_API_KEY={key}\nHEADROOM_PATH={root}\n")
        (root / "headroom.conf").write_text(f"HEADROOM_RUN={self.run}\n")

    def start(self, script: str, **environment: str) -> str:
        """Run a script of the kit as slurmd does, and return what it printed."""
        done = subprocess.run(
            [str(KIT / script)],
            env={
                "HEADROOM_NODE_CONF": str(self.conf),
                "HEADROOM_CONF": str(self.root / "headroom.conf"),
                "SLURM_JOB_ID": "4711",
                "SLURM_JOB_UID": str(os.getuid()),
                "SLURM_JOB_GPUS": "5",
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leave(self, peak_bytes: int) -> None:
        """Leave what a rank of a job leaves."""
        stats = {
            "allocated_bytes.all.peak": peak_bytes,
            "reserved_bytes.all.peak": peak_bytes + 2**28,
        }
        document = {
            "rank": 0,
            "world_size": 1,
            "gpu": "NVIDIA A100-SXM4-80GB",
            "torch": "2.13.0",
            "transformers": "5.23.0",
            "memory_stats": stats,
        }
        (self.run / "4711" / "rank-0.json").write_text(json.dumps(document))
        (self.root / "used").write_text(str(peak_bytes + 2**30))


@pytest.fixture(name="admin")
def make_admin(address: str, sessions: sessionmaker[Session]) -> str:
    """Return a key that may do all."""
    key = make_key(sessions, Scope.ADMIN)
    until_known(address, key)
    return key


@pytest.fixture(name="node")
def make_node(address: str, admin: str, tmp_path: Path) -> Node:
    """Return a node whose key may hand in and no more."""
    made = ask(address, "POST", "/v1/keys", admin, json={"name": "nodes", "scopes": ["field"]})
    return Node(tmp_path, address, made.json()["key"])


def read_answer(address: str, key: str, cluster: str | None = None) -> dict[str, Any]:
    """Return the answer to the question now, about a cluster."""
    body: dict[str, Any] = {
        "model": "qwen3-0.6b",
        "gpu": "A100-SXM4-80GB",
        "workload": {"task": "train", "sequence_length": 640},
    }
    named = {} if cluster is None else {"cluster": cluster}
    return dict(ask(address, "POST", "/v1/fit", key, json=body | named).json())


def store_cluster(address: str, key: str, name: str) -> None:
    """Store a cluster of one node."""
    pool = {"name": "a100", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "num_nodes": 1}
    made = ask(address, "POST", "/v1/clusters", key, json={"name": name, "pools": [pool]})
    assert made.status_code == 201, made.text


def submit(address: str, key: str) -> str:
    """Ask as cli_filter.lua does, and return the comment that the job gets."""
    answer = ask(address, "POST", "/v1/hooks/slurm", key, json=JOB)
    return str(answer.json()["options"]["comment"])


def test_what_a_job_used_moves_the_next_answer(address: str, admin: str, node: Node) -> None:
    """Once an operator has approved the nodes; the answer is calibrated, and never measured."""
    before = read_answer(address, admin)
    comment = submit(address, admin)
    digest = comment.rpartition("=")[2]
    eventually(lambda: ask(address, "GET", f"/v1/hooks/questions/{digest}", admin).is_success)
    peak_bytes = before["per_gpu"]["intervals"]["allocated"][1]

    node.start("headroom-prolog")
    exported = node.start("headroom-task-prolog")
    node.leave(peak_bytes)
    node.start("headroom-epilog", SLURM_JOB_COMMENT=comment)

    assert comment == f"for the paper headroom-question={digest}"
    assert exported == f"export HEADROOM_STATS={node.run}/4711\n"
    [source] = ask(address, "GET", "/v1/field-data", admin).json()["items"]
    assert (source["source"], source["num_pending"]) == ("nodes", 1)
    assert read_answer(address, admin)["basis"] == before["basis"] == "analytic"
    ask(address, "POST", "/v1/field-data/approve", admin, json={"source": "nodes"})
    after = read_answer(address, admin)
    assert after["basis"] == "calibrated"
    assert after["per_gpu"]["allocated_bytes"] == peak_bytes
    assert node.log.read_text().splitlines() == [
        "stats -g 0 -e",
        "stats -g 0 -s 4711",
        "stats -x 4711",
        "stats -v -j 4711",
        "stats -r 4711",
    ]
    assert list(node.run.iterdir()) == []


def test_what_nodes_measure_is_their_clusters_own(address: str, admin: str, node: Node) -> None:
    """The nodes say which cluster they are of: it has their measurement first, another one that of
    such GPUs anywhere, and a question that names none is answered as before there were clusters.
    """
    for name in ("lab", "edge"):
        store_cluster(address, admin, name)
    before = read_answer(address, admin)
    comment = submit(address, admin)
    digest = comment.rpartition("=")[2]
    eventually(lambda: ask(address, "GET", f"/v1/hooks/questions/{digest}", admin).is_success)
    with node.conf.open("a") as conf:
        conf.write("HEADROOM_CLUSTER=lab\n")

    node.start("headroom-prolog")
    node.leave(before["per_gpu"]["intervals"]["allocated"][1])
    node.start("headroom-epilog", SLURM_JOB_COMMENT=comment)

    [source] = ask(address, "GET", "/v1/field-data", admin).json()["items"]
    assert (source["source"], source["cluster"], source["num_pending"]) == ("nodes", "lab", 1)
    decision = {"source": "nodes", "cluster": "edge"}
    edge = ask(address, "POST", "/v1/field-data/approve", admin, json=decision).json()
    lab = ask(address, "POST", "/v1/field-data/approve", admin, json=decision | {"cluster": "lab"})
    assert (edge["num_changed"], lab.json()["num_changed"]) == (0, 1)
    after, of_lab, of_edge = (read_answer(address, admin, name) for name in (None, "lab", "edge"))
    assert "cluster" not in after
    basis = of_lab.pop("cluster")
    assert basis["name"] == "lab"
    assert {"allocated", "reserved"} <= set(basis["quantities"])
    assert of_edge.pop("cluster") == {"name": "edge", "quantities": []}
    assert of_edge == after != before
    assert of_lab["per_gpu"] == after["per_gpu"]
    assert of_lab["calibration"] != after["calibration"]


def test_a_question_and_its_nodes_name_one_cluster(address: str, admin: str) -> None:
    """A job's question says its cluster; nodes of another one cannot hand in for it, and nobody for
    a cluster that is not stored.
    """
    for name in ("lab", "edge"):
        store_cluster(address, admin, name)
    job = JOB | {"script": f"#!/bin/sh\n#HEADROOM {QUESTION} --cluster lab\n"}
    answer = ask(address, "POST", "/v1/hooks/slurm", admin, json=job)
    digest = str(answer.json()["options"]["comment"]).rpartition("=")[2]
    eventually(lambda: ask(address, "GET", f"/v1/hooks/questions/{digest}", admin).is_success)
    counted = json.dumps({"allocated_bytes.all.peak": 2**33, "reserved_bytes.all.peak": 2**33})
    body = {"question": digest, "content": counted}

    refused = ask(
        address, "POST", "/v1/measurements/import", admin, json=body | {"cluster": "edge"}
    )
    taken = ask(address, "POST", "/v1/measurements/import", admin, json=body)
    unknown = ask(
        address, "POST", "/v1/measurements/import", admin, json=body | {"cluster": "typo"}
    )

    assert refused.status_code == 422
    assert "asked about cluster 'lab', and this was measured on 'edge'" in refused.json()["detail"]
    assert taken.json()["items"][0]["environment"]["cluster"] == "lab"
    assert unknown.status_code == 422
    for path, more in (
        ("fit", {}),
        ("how-many", {}),
        ("ceilings", {"maximize": "micro_batch_size"}),
    ):
        question = {
            "model": "qwen3-0.6b",
            "gpu": "A100-SXM4-80GB",
            "workload": {"task": "train", "sequence_length": 640},
            "cluster": "typo",
            **more,
        }
        reply = ask(address, "POST", f"/v1/{path}", admin, json=question)
        assert reply.status_code == 422
        assert reply.json()["errors"][0]["field"] == "cluster"


@pytest.mark.parametrize(
    "comment", ["", "headroom-question=../../x", "headroom-question=" + "0" * 32]
)
def test_a_job_that_nobody_knows_ends_all_the_same(
    address: str, admin: str, node: Node, comment: str
) -> None:
    """Nothing is stored, and the epilog is content."""
    node.start("headroom-prolog")
    node.leave(1)

    node.start("headroom-epilog", SLURM_JOB_COMMENT=comment)

    assert ask(address, "GET", "/v1/field-data", admin).json()["items"] == []
    assert list(node.run.iterdir()) == []


def test_a_service_that_is_away_holds_up_no_node(tmp_path: Path) -> None:
    """The epilog ends with 0, and takes its folder along."""
    node = Node(tmp_path, "http://127.0.0.1:1", "hr_1")
    node.start("headroom-prolog")
    node.leave(1)

    node.start("headroom-epilog", SLURM_JOB_COMMENT="headroom-question=" + "0" * 32)

    assert list(node.run.iterdir()) == []
