"""Bodies that schedulers send to their hooks, of questions asked before and of new ones."""

import itertools
import json
from collections.abc import Callable
from typing import Any

_FITS = "llama-3.1-8b --task train --method lora"
_TIGHT = "llama-3.1-8b --task train --method lora --micro-batch-size 4"
"""Fits, or nearly: what decides is a replay."""
_TOO_LARGE = "llama-2-7b --task train --activation-checkpointing full"
_A100 = "--gpu A100-SXM4-80GB"
_LENGTHS = itertools.count(1025)
_SIZES = (
    f"--lora-rank {rank} --sequence-length {tokens}"
    for rank in itertools.count(8)
    for tokens in range(800, 1000)
)
"""Of questions of which no two are alike, and which need about as much."""
_LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
}
_NODE = {"metadata": {"name": "n1", "labels": _LABELS}}
Body = dict[str, Any]


def _make_pod(question: str) -> Body:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    annotations = {"headroom.dev/question": question}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tune", "namespace": "ml", "annotations": annotations},
        "spec": {"containers": [container]},
    }


def _make_review(question: str) -> Body:
    reviewed = {"uid": "u", "operation": "CREATE", "object": _make_pod(question)}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": reviewed,
    }


def _make_dstack_spec(question: str) -> Body:
    configuration = {
        "type": "task",
        "env": {"HEADROOM_QUESTION": question},
        "resources": {"gpu": {"count": 1}},
    }
    return {"user": "ann", "project": "main", "spec": {"configuration": configuration}}


def _make_task(question: str) -> Body:
    task = {"resources": {"accelerators": "A100-80GB:1"}, "envs": {"HEADROOM_QUESTION": question}}
    return {"task": json.dumps(task), "skypilot_config": "{}", "request_name": "launch"}


def _make_slurm_job(question: str) -> Body:
    options = {"gres": "gres/gpu:nvidia_a100-sxm4-80gb:1", "argv": ["job.sh"]}
    return {"options": options, "script": f"#!/bin/sh\n#HEADROOM {question}\n", "user": "ann"}


def _make_filter(question: str) -> Body:
    return {"Pod": _make_pod(question), "Nodes": {"metadata": {}, "items": [_NODE]}}


def _make_predicate(question: str) -> Body:
    return {"task": {"Pod": _make_pod(question)}, "node": {"Name": "n1", "Node": _NODE}}


def _make_prioritization(question: str) -> Body:
    return {"task": {"Pod": _make_pod(question)}, "nodes": [{"Name": "n1", "Node": _NODE}]}


def _make_job(question: str) -> Body:
    return {"job": {"Name": "tune", "Tasks": {"t1": {"Pod": _make_pod(question)}}}}


DOORS: dict[str, tuple[str, Callable[[str], Body]]] = {
    "slurm": ("slurm/warn", _make_slurm_job),
    "kubernetes": ("kubernetes/warn", _make_review),
    "skypilot": ("skypilot/warn", _make_task),
    "dstack": ("dstack/warn/apply_policies/on_run_apply", _make_dstack_spec),
    "kueue": ("kueue/warn", lambda question: {"objects": [_make_pod(question)]}),
    "kube-scheduler, filter": ("kube-scheduler/warn/filter", _make_filter),
    "kube-scheduler, prioritize": ("kube-scheduler/warn/prioritize", _make_filter),
    "volcano, predicate": ("volcano/warn/predicate", _make_predicate),
    "volcano, prioritize": ("volcano/warn/prioritize", _make_prioritization),
    "volcano, jobEnqueueable": ("volcano/warn/jobEnqueueable", _make_job),
}
KINDS: dict[str, Callable[[], str]] = {
    "fits, asked before": lambda: f"{_FITS} {_A100} --sequence-length 1024",
    "does not fit, asked before": lambda: f"{_TOO_LARGE} {_A100} --sequence-length 1024",
    "fits, new": lambda: f"{_FITS} {_A100} {next(_SIZES)}",
    "is tight, new": lambda: f"{_TIGHT} {_A100} {next(_SIZES)}",
    "does not fit, new": lambda: f"{_TOO_LARGE} {_A100} --sequence-length {next(_LENGTHS)}",
}


def make_body(door: str, kind: str) -> tuple[str, Body]:
    """Return the path below /v1/hooks and the body of the next question of a kind at a door."""
    path, build = DOORS[door]
    return path, build(KINDS[kind]())
