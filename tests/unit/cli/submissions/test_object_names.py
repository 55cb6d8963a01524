"""A submission renames its objects and what refers to them, and no other word."""

import json
from typing import Any

import pytest

from service.cli.submissions.object_names import rename_objects
from service.formats.manifests.registry import render_format
from tests.unit.formats.manifests.samples import SAMPLES

SERVICE = {"kind": "Service", "metadata": {"name": "train"}}
CONFIG = {"kind": "ConfigMap", "metadata": {"name": "train"}}
RENDERED: dict[str, Any] = {
    name: render_format("kubernetes", job).document for name, job in SAMPLES.items()
}


def a_job(**pod: object) -> dict[str, Any]:
    """Return a job of a pod."""
    return {
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": {"spec": {"containers": [{"name": "train"}], **pod}}},
    }


def rename(*items: dict[str, Any]) -> dict[str, Any]:
    """Return the pod of the last object, renamed."""
    pod: dict[str, Any] = rename_objects(items, "run-7", 48)[-1]["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize(
    "word",
    [
        "torchrun train.py --per_device_train_batch_size 1 --split train",
        "python -m train --rdzv-id=train --output=/data/train-0.train/x --tag train:64",
        "accelerate launch train --dataset s3://bucket/train && train-0.train.py",
        "cd train/ && ./train train-0 train.ml",
        "wget http://train.example.com/train",
    ],
)
def test_a_command_is_the_plans(word: str) -> None:
    """Whatever of it is spelled like the job, even where a service has that name."""
    containers = [{"name": "train", "command": ["sh", "-c", word], "args": ["train", word]}]

    assert rename(SERVICE, a_job(containers=containers))["containers"] == containers


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("export A=train-0.train; b", "export A=train-run-7-0.train-run-7; b"),
        ("--rdzv-endpoint=train-0.train:29500", "--rdzv-endpoint=train-run-7-0.train-run-7:29500"),
        ("train-12.train.ml.svc", "train-run-7-12.train-run-7.ml.svc"),
        ("tcp://train.ml.svc.cluster.local:1", "tcp://train-run-7.ml.svc.cluster.local:1"),
        ("http://train:8000/train", "http://train-run-7:8000/train"),
    ],
)
def test_an_address_follows_its_service(text: str, renamed: str) -> None:
    """In a command, a variable and a file alike; without the service it is none."""
    command = [{"command": [text], "env": [{"name": "A", "value": text}]}]
    config = {**CONFIG, "data": {"hosts": text}}

    pod = rename(SERVICE, a_job(containers=command))
    items = rename_objects([SERVICE, config], "run-7", 48)

    assert pod["containers"] == [{"command": [renamed], "env": [{"name": "A", "value": renamed}]}]
    assert items[1]["data"] == {"hosts": renamed}
    assert rename(a_job(containers=command))["containers"] == command


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("ConfigMap", {"volumes": [{"name": "train", "configMap": {"name": "%"}}]}),
        ("ConfigMap", {"containers": [{"envFrom": [{"configMapRef": {"name": "%"}}]}]}),
        ("Secret", {"imagePullSecrets": [{"name": "%"}]}),
        ("Secret", {"volumes": [{"secret": {"secretName": "%"}}]}),
        ("Service", {"subdomain": "%"}),
        ("PersistentVolumeClaim", {"volumes": [{"persistentVolumeClaim": {"claimName": "%"}}]}),
        ("ResourceClaimTemplate", {"resourceClaims": [{"resourceClaimTemplateName": "%"}]}),
    ],
)
def test_a_reference_follows_its_object(kind: str, before: dict[str, Any]) -> None:
    """One to an object of the cluster, which this submission does not make, stays."""
    text = json.dumps(before)
    old, new = (json.loads(text.replace("%", name)) for name in ("train", "train-run-7"))
    item = {"kind": kind, "metadata": {"name": "train"}}

    assert rename(item, a_job(**old)).items() >= new.items()
    assert rename(a_job(**old)).items() >= old.items()


def test_labels_follow_the_names_that_they_hold() -> None:
    """A selector finds the pods of this submission alone; labels of nodes are the nodes'."""
    pod = {
        "labelSelector": {"matchExpressions": [{"key": "a", "values": ["train", "other"]}]},
        "topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"app": "train"}}}],
    }
    nodes = {
        "nodeSelector": {"pool": "train"},
        "affinity": {"nodeAffinity": {"matchExpressions": [{"key": "a", "values": ["train"]}]}},
    }
    service = {**SERVICE, "spec": {"selector": {"app": "train", "tier": "gpu"}}}

    renamed = rename(a_job(**pod, **nodes))
    [selecting] = rename_objects([service], "run-7", 48)

    assert renamed.items() >= nodes.items()
    assert json.dumps({key: renamed[key] for key in pod}) == json.dumps(pod).replace(
        '"train"', '"train-run-7"'
    )
    assert selecting["spec"]["selector"] == {"app": "train-run-7", "tier": "gpu"}


@pytest.mark.parametrize("name", RENDERED)
def test_rendered_objects_differ_by_their_name_alone(name: str) -> None:
    """Of all that Headroom renders, one word keeps the plan's: the id of a rendezvous."""
    items = RENDERED[name]["items"]
    old = items[0]["metadata"]["name"]

    text = json.dumps(rename_objects(items, "s1", 48))

    assert text.replace(f"{old}-s1", old) == json.dumps(items)
    assert text.replace(f"{old}-s1", "").replace(f"--rdzv-id={old}", "").count(old) == 0


def test_names_have_room_for_what_controllers_add() -> None:
    """A long name is cut, and ends as others do."""
    item = {"kind": "Job", "metadata": {"name": "a" * 34 + "-" + "b" * 20}}

    [renamed] = rename_objects([item], "run-7-abcdef", 48)

    assert renamed["metadata"]["name"] == "a" * 34 + "-run-7-abcdef"
