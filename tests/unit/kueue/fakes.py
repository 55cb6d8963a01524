"""Processes of the controller, a Headroom server with one answer, and objects of Kueue."""

import json
from dataclasses import dataclass, field

import anyio
import httpx

from service.kueue.api import ObjectKey
from service.kueue.asking import Asker
from service.kueue.checks import CheckKeeper, Unfit
from service.kueue.controller import Controller
from service.kueue.events import Recorder
from service.kueue.gates import GateKeeper
from service.kueue.lease import Elector
from service.kueue.metrics import Metrics
from service.kueue.reports import Reporter
from service.kueue.resources import CHECKS, FLAVORS, JOBS, WORKLOADS
from service.usecases.hooks.decision import Mode
from tests.unit.kueue.clusters import FakeCluster, Json, Reaper


@dataclass(slots=True, kw_only=True)
class FakeHeadroom:
    """A server that says one thing about every job; ``status`` other than 200 says nothing.

    ``by_product`` says another for jobs that select a GPU product.
    """

    response: Json = field(default_factory=lambda: says("fits"))
    by_product: dict[str, Json] = field(default_factory=dict)
    status: int = 200
    reaper: Reaper = field(default_factory=Reaper)
    asked: list[tuple[str, Json]] = field(default_factory=list)

    def connect(self, *, fails_closed: bool = False) -> Asker:
        """Return a client of this server."""
        transport = httpx.MockTransport(self._handle)
        client = httpx.AsyncClient(transport=transport, base_url="http://headroom")
        return Asker(client=client, fails_closed=fails_closed)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        return await self.reaper.run(lambda: self._serve(request))

    def _serve(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.asked.append((request.url.path, body))
        if self.status != 200:
            return httpx.Response(self.status, json={"detail": "not today"})
        answers = [
            self.by_product.get(_find_product(document), self.response)
            for document in body["objects"]
        ]
        holding = [i for i, each in enumerate(answers) if each["verdict"] in {"fits", "none"}]
        choice = [*holding, len(answers) - 1][0]
        answer = answers[choice]
        if answer["verdict"] == "unknown" and body["fails_closed"]:
            answer = {**answer, "action": "refuse"}
        if request.url.path.endswith("/warn") and answer["verdict"] == "does_not_fit":
            answer = {**answer, "action": "warn"}
        if body["is_last"]:
            answer = {**answer, "is_transient": False}
        return httpx.Response(200, json={**answer, "choice": choice})


def _find_product(document: Json) -> str:
    """Return the GPU product that an object selects, empty where it selects none."""
    [job] = document["spec"].get("replicatedJobs", [])[:1] or [{"template": document}]
    template = job["template"]["spec"].get("template", {})
    product: str = (
        template.get("spec", {}).get("nodeSelector", {}).get("nvidia.com/gpu.product", "")
    )
    return product


def says(verdict: str, *, gpus: int | None = None, gpu: str = "A100-SXM4-80GB") -> Json:
    """Return what the server's hook answers; ``gpus`` are those that the job gets."""
    actions = {"fits": "allow", "none": "allow", "does_not_fit": "refuse"}
    path = "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu"
    return {
        "choice": 0,
        "verdict": verdict,
        "action": actions.get(verdict, "warn") if gpus is None else "change",
        "sentence": "" if verdict == "none" else f"headroom: {verdict}",
        "gpu": gpu,
        "operations": [] if gpus is None else [{"op": "replace", "path": path, "value": str(gpus)}],
        "is_transient": False,
    }


def a_template(gpus: int = 1, **spec: object) -> Json:
    """Return a template of pods with GPUs."""
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"spec": {"containers": [container], **spec}}


def a_job(gates: str = "headroom.dev/fit", *, suspend: bool = True) -> Json:
    """Return a Job that waits behind gates."""
    return {
        "metadata": {
            "name": "tune",
            "namespace": "ml",
            "labels": {"kueue.x-k8s.io/queue-name": "default"},
            "annotations": {"kueue.x-k8s.io/admission-gated-by": gates},
        },
        "spec": {"suspend": suspend, "template": a_template()},
    }


def a_check(controller: str = "headroom.dev/fit", name: str = "headroom") -> Json:
    """Return an AdmissionCheck."""
    return {"metadata": {"name": name, "generation": 1}, "spec": {"controllerName": controller}}


def a_flavor(product: str | None = None) -> Json:
    """Return a ResourceFlavor, of nodes with a product."""
    labels = {} if product is None else {"nvidia.com/gpu.product": product}
    return {"metadata": {"name": "gpus"}, "spec": {"nodeLabels": labels}}


def a_workload(template: Json | None = None, *, state: str = "Pending", retries: int = 0) -> Json:
    """Return a Workload that has its quota and waits for checks."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "tune", "controller": True}
    check = {"name": "headroom", "state": state, "message": "", "retryCount": retries}
    other = {"name": "provisioned", "state": "Pending", "message": ""}
    flavors = {"cpu": "cpus", "nvidia.com/gpu": "gpus"}
    return {
        "metadata": {"name": "job-tune", "namespace": "ml", "ownerReferences": [owner]},
        "spec": {"podSets": [{"name": "main", "count": 3, "template": template or a_template()}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {"podSetAssignments": [{"name": "main", "count": 2, "flavors": flavors}]},
            "admissionChecks": [check, other],
        },
    }


def put_workload(
    cluster: FakeCluster,
    workload: Json,
    product: str | None = None,
    completion_mode: str = "Indexed",
) -> ObjectKey:
    """Store a Workload with its job, its flavor and two checks, one of them ours."""
    cluster.put(CHECKS, a_check())
    cluster.put(CHECKS, a_check("kueue.x-k8s.io/provisioning-request", "provisioned"))
    cluster.put(FLAVORS, a_flavor(product))
    job = a_job("")
    job["metadata"]["annotations"] = {"headroom.dev/question": "gpt2"}
    job["spec"]["completionMode"] = completion_mode
    cluster.put(JOBS, job)
    return cluster.put(WORKLOADS, workload)


@dataclass(slots=True, kw_only=True)
class Replica:
    """A process of ``headroom kueue``."""

    cluster: FakeCluster
    headroom: FakeHeadroom
    name: str = "a"
    mode: Mode = Mode.CHANGE
    unfit: Unfit = Unfit.RETRY
    fails_closed: bool = False
    pins: bool = False
    metrics: Metrics = field(default_factory=Metrics)

    def make_gates(self) -> GateKeeper:
        """Return a keeper of gates."""
        return GateKeeper(
            api=self.cluster.connect(),
            asker=self.headroom.connect(fails_closed=self.fails_closed),
            reporter=self._make_reporter(),
            mode=self.mode,
        )

    def make_checks(self) -> CheckKeeper:
        """Return a keeper of checks."""
        return CheckKeeper(
            api=self.cluster.connect(),
            asker=self.headroom.connect(fails_closed=self.fails_closed),
            reporter=self._make_reporter(),
            unfit=self.unfit,
            pins=self.pins,
        )

    def make_elector(self) -> Elector:
        """Return a candidate."""
        return Elector(
            api=self.cluster.connect(), namespace="headroom", name="kueue", identity=self.name
        )

    def make_controller(self) -> Controller:
        """Return all of it."""
        return Controller(
            api=self.cluster.connect(),
            elector=self.make_elector(),
            gates=self.make_gates(),
            checks=self.make_checks(),
        )

    def reconcile(self, key: ObjectKey, failures: int = 0) -> None:
        """Look at one object."""
        keeper: GateKeeper | CheckKeeper = (
            self.make_checks() if key.resource in {WORKLOADS, CHECKS} else self.make_gates()
        )
        anyio.run(keeper.reconcile, key, failures)

    def _make_reporter(self) -> Reporter:
        recorder = Recorder(api=self.cluster.connect(), instance=self.name)
        return Reporter(recorder=recorder, metrics=self.metrics)
