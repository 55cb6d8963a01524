"""The controller for Kueue before a real API server: gates, checks, events and the lease."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anyio
import httpx

from service.api.application import make_application
from service.api.resources.fit import FAST_ROUTE
from service.app import ROUTERS
from service.kueue.access import find_access
from service.kueue.api import KubeApi
from service.kueue.asking import Asker
from service.kueue.checks import CheckKeeper
from service.kueue.controller import Controller
from service.kueue.events import Recorder
from service.kueue.gates import GateKeeper
from service.kueue.lease import Elector
from service.kueue.metrics import Metrics
from service.kueue.reports import Reporter
from service.usecases.hooks.decision import Mode
from tests.schedulers.crds.server import ApiServer
from tests.unit.api.builders import parts
from tests.waiting import eventually

Json = dict[str, Any]
NEEDS_TWO = (
    "llama-2-7b --gpu A100-SXM4-80GB --task train --sequence-length 4096 --zero-stage 3 "
    "--activation-checkpointing full"
)
FITS = "llama-3.2-1b --gpu A100-SXM4-80GB --task train --sequence-length 1024"
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_WORKLOADS = f"{_KUEUE}/namespaces/ml/workloads"
_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets"
_EVENTS = "/apis/events.k8s.io/v1/namespaces/ml/events"
_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
_PRODUCT = "NVIDIA-A100-SXM4-80GB"
_PATIENCE_S = 120.0


def make_job_set(name: str, note: str) -> Json:
    """Return a suspended JobSet that waits for our gate."""
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    job = {"spec": {"parallelism": 1, "completions": 1, "template": {"spec": pod}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": "default"},
            "annotations": {
                "kueue.x-k8s.io/admission-gated-by": "headroom.dev/fit,a.example/other",
                "headroom.dev/question": note,
            },
        },
        "spec": {
            "suspend": True,
            "replicatedJobs": [{"name": "nodes", "replicas": 1, "template": job}],
        },
    }


def make_workload(name: str, note: str) -> tuple[Json, Json]:
    """Return a Workload and its status: quota put aside, and our check open."""
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {"requests": {"nvidia.com/gpu": "1"}},
    }
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "annotations": {"headroom.dev/question": note}},
        "spec": {
            "active": True,
            "queueName": "default",
            "podSets": [
                {
                    "name": "main",
                    "count": 1,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                }
            ],
        },
    }
    moment = "2026-11-22T10:00:00Z"
    assignment = {"name": "main", "count": 1, "flavors": {"nvidia.com/gpu": "a100"}}
    reserved = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "",
        "lastTransitionTime": moment,
    }
    check = {"name": "headroom", "state": "Pending", "message": "", "lastTransitionTime": moment}
    status = {
        "conditions": [reserved],
        "admission": {"clusterQueue": "team-a", "podSetAssignments": [assignment]},
        "admissionChecks": [check],
    }
    return workload, status


def check_loop(server: ApiServer) -> Iterator[str]:
    """Yield a fault for each object that two replicas leave otherwise than they should."""
    with server.connect() as client:
        fill(client)
        metrics = anyio.run(partial(_run_until, server, partial(_is_settled, client)))
        yield from _check_results(client)
        sums = [sum(sample.value for sample in _list_decisions(each)) for each in metrics]
        if sorted(sums) != [0.0, 4.0]:
            yield f"two replicas decided {sums}: one of them, 4 times, was expected"


def fill(client: httpx.Client) -> None:
    """Store the objects that a controller has work with."""
    flavor = {"nodeLabels": {"nvidia.com/gpu.product": _PRODUCT}}
    _post(client, f"{_KUEUE}/resourceflavors", _make("ResourceFlavor", "a100", flavor))
    check = {"controllerName": "headroom.dev/fit"}
    _post(client, f"{_KUEUE}/admissionchecks", _make("AdmissionCheck", "headroom", check))
    _post(client, _SETS, make_job_set("needs-two", NEEDS_TWO))
    _post(client, _SETS, make_job_set("fits", FITS))
    for name, note in (("fits", FITS), ("needs-two", NEEDS_TWO)):
        workload, status = make_workload(name, note)
        stored = _post(client, _WORKLOADS, workload)
        answer = client.put(f"{_WORKLOADS}/{name}/status", json={**stored, "status": status})
        assert answer.is_success, answer.text


async def _run_until(server: ApiServer, is_done: Callable[[], bool]) -> list[Metrics]:
    """Run two replicas until something holds; return their metrics."""
    app: Any = make_application(parts(), handlers=ROUTERS, fast_route=FAST_ROUTE)
    access = find_access({}, kubeconfig=str(server.kubeconfig))
    metrics = [Metrics(), Metrics()]
    transport = httpx.ASGITransport(app=app)
    async with (
        access.connect() as cluster,
        httpx.AsyncClient(transport=transport, base_url="http://headroom") as answering,
        anyio.create_task_group() as group,
    ):
        for number, each in enumerate(metrics):
            controller = _make_controller(
                KubeApi(cluster), Asker(client=answering), each, f"replica-{number}"
            )
            group.start_soon(controller.run)
        await anyio.to_thread.run_sync(partial(eventually, is_done, within_s=_PATIENCE_S))
        group.cancel_scope.cancel()
    return metrics


def _make_controller(api: KubeApi, asker: Asker, metrics: Metrics, name: str) -> Controller:
    reporter = Reporter(recorder=Recorder(api=api, instance=name), metrics=metrics)
    return Controller(
        api=api,
        elector=Elector(api=api, namespace="headroom", name="headroom-kueue", identity=name),
        gates=GateKeeper(api=api, asker=asker, reporter=reporter, mode=Mode.CHANGE),
        checks=CheckKeeper(api=api, asker=asker, reporter=reporter),
    )


def _is_settled(client: httpx.Client) -> bool:
    """Return whether gates are open, checks are decided, and all four are told."""
    sets = _list(client, _SETS)
    gates = [each["metadata"]["annotations"].get(_GATED_BY, "") for each in sets]
    workloads = _list(client, _WORKLOADS)
    states = [each["status"]["admissionChecks"][0]["state"] for each in workloads]
    events = _list(client, _EVENTS)
    return gates == ["a.example/other"] * 2 and "Pending" not in states and len(events) == 4


def _check_results(client: httpx.Client) -> Iterator[str]:
    gpus = {}
    for each in _list(client, _SETS):
        [nodes] = each["spec"]["replicatedJobs"]
        [container] = nodes["template"]["spec"]["template"]["spec"]["containers"]
        gpus[each["metadata"]["name"]] = container["resources"]
        sys.stdout.write(
            f"JobSet {each['metadata']['name']}: {container['resources']}, "
            f"{each['metadata']['annotations']['headroom.dev/decision']}\n"
        )
    for name, number in (("needs-two", "2"), ("fits", "1")):
        expected = {word: {"nvidia.com/gpu": number} for word in ("limits", "requests")}
        if gpus[name] != expected:
            yield f"JobSet {name} asks for {gpus[name]}, not {expected}"
    for each in _list(client, _WORKLOADS):
        name, [check] = each["metadata"]["name"], each["status"]["admissionChecks"]
        sys.stdout.write(f"Workload {name}: {check['state']}, {check['message']}\n")
        expected_state = "Ready" if name == "fits" else "Retry"
        if check["state"] != expected_state:
            yield f"Workload {name} is {check['state']}, not {expected_state}"
        managers = {entry["manager"] for entry in each["metadata"]["managedFields"]}
        if "headroom" not in managers:
            yield f"Workload {name}: its status is not applied by us but by {managers}"
    check = client.get(f"{_KUEUE}/admissionchecks/headroom").json()
    [condition] = check["status"]["conditions"]
    if (condition["type"], condition["status"]) != ("Active", "True"):
        yield f"the AdmissionCheck is not active: {condition}"
    for event in _list(client, _EVENTS):
        sys.stdout.write(
            f"{event['type']} {event['reason']} {event['regarding']['kind']}/"
            f"{event['regarding']['name']}: {event['note']}\n"
        )


def _list(client: httpx.Client, path: str) -> list[Json]:
    """Return the objects of a list; none while a new resource is not served yet (429)."""
    items: list[Json] = client.get(path).json().get("items", [])
    return items


def _list_decisions(metrics: Metrics) -> Iterator[Any]:
    for family in metrics.registry.collect():
        for sample in family.samples:
            if sample.name == "headroom_kueue_decisions_total":
                yield sample


def _make(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _post(client: httpx.Client, path: str, document: Json) -> Json:
    answer = client.post(path, json=document)
    assert answer.is_success, answer.text
    stored: Json = answer.json()
    return stored
