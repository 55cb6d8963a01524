"""Objects of Kubernetes as submissions."""

import json
from typing import Any

import pytest

from service.formats.submissions.kubernetes import PodJob, make_patch, read_object
from service.formats.submissions.submission import GpuRequest, SubmissionError

QUESTION = {"headroom.dev/question": "llama-2-7b --task train"}
CONTAINER = {
    "name": "main",
    "image": "vllm/vllm-openai:v0.33.0",
    "args": ["meta-llama/Llama-3.1-8B"],
    "env": [{"name": "A", "value": "b"}, {"name": "SECRET", "valueFrom": {}}],
    "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": 2}},
}
SPEC = {
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "containers": [{"name": "side"}, CONTAINER],
}


def an_object(kind: str, spec: dict[str, Any], **metadata: object) -> dict[str, Any]:
    """Return an object of a kind."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "tune", "namespace": "ml", **metadata},
        "spec": spec,
    }


def read(document: dict[str, Any]) -> PodJob:
    """Return an object that runs pods."""
    job = read_object(document, user="ann")
    assert job is not None
    return job


@pytest.mark.parametrize(
    ("kind", "spec", "num_nodes", "path"),
    [
        ("Pod", SPEC, 1, "/spec"),
        ("Job", {"template": {"spec": SPEC}}, 1, "/spec/template/spec"),
        (
            "Job",
            {"completionMode": "Indexed", "parallelism": 3, "template": {"spec": SPEC}},
            3,
            "/spec/template/spec",
        ),
        ("Job", {"parallelism": 10, "template": {"spec": SPEC}}, 1, "/spec/template/spec"),
        ("Deployment", {"replicas": 3, "template": {"spec": SPEC}}, 1, "/spec/template/spec"),
        (
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": SPEC}}},
            2,
            "/spec/leaderWorkerTemplate/workerTemplate/spec",
        ),
        (
            "JobSet",
            {
                "replicatedJobs": [
                    {
                        "replicas": 2,
                        "template": {"spec": {"parallelism": 2, "template": {"spec": SPEC}}},
                    }
                ]
            },
            4,
            "/spec/replicatedJobs/0/template/spec/template/spec",
        ),
        (
            "RayJob",
            {
                "rayClusterSpec": {
                    "workerGroupSpecs": [
                        {"replicas": 2, "template": {"spec": SPEC}},
                        {"template": {"spec": SPEC}},
                    ]
                }
            },
            3,
            "/spec/rayClusterSpec/workerGroupSpecs/0/template/spec",
        ),
    ],
)
def test_pods_are_found_in_every_kind(
    kind: str, spec: dict[str, Any], num_nodes: int, path: str
) -> None:
    """Its GPUs, their product, its variables, and where a patch would change their number."""
    job = read(an_object(kind, spec))

    submission = job.submission
    assert (submission.name, submission.queue, submission.user) == ("tune", "ml", "ann")
    assert submission.gpus == GpuRequest(
        per_node=2, num_nodes=num_nodes, names=("NVIDIA-H100-80GB-HBM3",)
    )
    assert submission.environment == {"A": "b"}
    assert submission.can_change is (num_nodes == 1)
    assert [change["path"] for change in make_patch(job, 4)] == [
        f"{path}/containers/1/resources/{section}/nvidia.com~1gpu"
        for section in ("limits", "requests")
    ]


def a_job_set(*jobs: dict[str, Any]) -> dict[str, Any]:
    """Return a set of Jobs."""
    return an_object("JobSet", {"replicatedJobs": list(jobs)})


def a_replicated_job(pod: dict[str, Any], **spec: object) -> dict[str, Any]:
    """Return two Jobs of a set."""
    return {"replicas": 2, "template": {"spec": {**spec, "template": pod}}}


DRIVER = {"metadata": {"annotations": QUESTION}, "spec": {"containers": [{"name": "driver"}]}}
LARGER = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}


@pytest.mark.parametrize("place", [0, 1])
def test_pods_without_gpus_are_no_nodes_of_a_set(place: int) -> None:
    """A driver may stand before or after its workers, and say their question."""
    jobs = [a_replicated_job({"spec": SPEC})]
    jobs.insert(1 - place, a_replicated_job(DRIVER))
    job = read(a_job_set(*jobs))

    assert job.submission.gpus == GpuRequest(
        per_node=2, num_nodes=2, names=("NVIDIA-H100-80GB-HBM3",)
    )
    assert job.submission.note == QUESTION["headroom.dev/question"]
    assert job.resources is not None
    assert job.resources.startswith(f"/spec/replicatedJobs/{place}/")


def test_a_set_of_alike_jobs_is_one_training() -> None:
    """Its Jobs are Indexed unless they say otherwise."""
    indexed = a_replicated_job({"spec": SPEC}, parallelism=3)
    lone = a_replicated_job({"spec": SPEC}, parallelism=3, completionMode="NonIndexed")

    gpus = read(a_job_set(indexed, lone)).submission.gpus

    assert gpus is not None
    assert gpus.num_nodes == 2 * 3 + 2


def test_pods_with_unlike_numbers_of_gpus_are_refused() -> None:
    """No product of two numbers is their sum, and a question does not say whom it means."""
    with pytest.raises(SubmissionError, match="ask for 2 and 8 GPUs each"):
        read(a_job_set(a_replicated_job({"spec": SPEC}), a_replicated_job({"spec": LARGER})))


@pytest.mark.parametrize(
    ("product", "resource"),
    [
        ("NVIDIA-A100-SXM4-80GB", "nvidia.com/mig-3g.40gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "nvidia.com/gpu"),
    ],
    ids=["mixed", "single"],
)
def test_slices_are_told_from_whole_gpus(product: str, resource: str) -> None:
    """Each strategy of the device plugin says them elsewhere; no number of them is changed."""
    container = {"resources": {"limits": {resource: 2}}}
    pod = {"nodeSelector": {"nvidia.com/gpu.product": product}, "containers": [container]}
    submission = read(an_object("Pod", pod)).submission

    assert submission.gpus == GpuRequest(
        per_node=2, names=("NVIDIA-A100-SXM4-80GB",), slice_profile="3g.40gb"
    )
    assert not submission.can_change


def test_slices_beside_whole_gpus_are_refused() -> None:
    """Nothing says which of them a question is about."""
    sliced = {"containers": [{"resources": {"limits": {"nvidia.com/mig-3g.40gb": 2}}}]}
    jobs = a_job_set(a_replicated_job({"spec": SPEC}), a_replicated_job({"spec": sliced}))

    with pytest.raises(SubmissionError, match="whole GPUs and 3g"):
        read(jobs)


def test_a_leader_without_gpus_is_no_node() -> None:
    """A LeaderWorkerSet counts it in its size."""
    template = {"size": 3, "leaderTemplate": DRIVER, "workerTemplate": {"spec": SPEC}}

    gpus = read(an_object("LeaderWorkerSet", {"leaderWorkerTemplate": template})).submission.gpus

    assert gpus is not None
    assert gpus.num_nodes == 2


@pytest.mark.parametrize(
    ("groups", "head", "num_nodes", "place"),
    [
        ([(6, DRIVER), (2, {"spec": SPEC})], DRIVER, 2, "workerGroupSpecs/1"),
        ([(0, {"spec": SPEC}), (2, {"spec": SPEC})], DRIVER, 2, "workerGroupSpecs/1"),
        ([(0, {"spec": SPEC})], DRIVER, 1, "workerGroupSpecs/0"),
        ([(2, {"spec": SPEC})], {"spec": SPEC}, 3, "workerGroupSpecs/0"),
        ([], {"spec": SPEC}, 1, "headGroupSpec"),
    ],
)
def test_groups_of_a_ray_cluster_count_where_they_have_gpus(
    groups: list[tuple[int, dict[str, Any]]], head: dict[str, Any], num_nodes: int, place: str
) -> None:
    """Those of CPUs, and those that an autoscaler has not begun, hold no part of a model."""
    workers = [{"replicas": replicas, "template": template} for replicas, template in groups]
    cluster = {"headGroupSpec": {"template": head}, "workerGroupSpecs": workers}

    job = read(an_object("RayJob", {"rayClusterSpec": cluster}))

    assert job.submission.gpus is not None
    assert job.submission.gpus.num_nodes == num_nodes
    assert job.resources is not None
    assert job.resources.startswith(f"/spec/rayClusterSpec/{place}/template/")


def test_the_launch_is_that_of_the_pods_with_gpus() -> None:
    """As a Pod, wherever the object has its template."""
    [file] = read(
        a_job_set(a_replicated_job(DRIVER), a_replicated_job({"spec": SPEC}))
    ).submission.files

    assert json.loads(file.content)["kind"] == "Pod"
    assert json.loads(file.content)["spec"] == SPEC


def test_a_train_job_says_its_nodes_and_command() -> None:
    """Its trainer has what a container has elsewhere."""
    trainer = {
        "numNodes": 2,
        "command": ["torchrun"],
        "args": ["train.py"],
        "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}},
    }

    job = read(an_object("TrainJob", {"trainer": trainer}, annotations=QUESTION))

    assert job.submission.gpus == GpuRequest(per_node=8, num_nodes=2)
    assert job.submission.command == ("torchrun", "train.py")
    assert job.submission.note == "llama-2-7b --task train"
    assert make_patch(job, 4) == [
        {
            "op": "replace",
            "path": "/spec/trainer/resourcesPerNode/limits/nvidia.com~1gpu",
            "value": "4",
        }
    ]


def test_a_question_is_an_annotation_of_the_object_or_of_its_pods() -> None:
    """The object's own goes first."""
    template = {"metadata": {"annotations": QUESTION}, "spec": SPEC}
    own = {"headroom.dev/question": "gpt2 --task train"}

    inner = read(an_object("Job", {"template": template}))
    outer = read(an_object("Job", {"template": template}, annotations=own))

    assert inner.submission.note == "llama-2-7b --task train"
    assert outer.submission.note == "gpt2 --task train"


def test_what_an_object_made_was_shown_before() -> None:
    """The pods of a Job over two nodes each ask for their part of it alone."""
    owned = an_object("Pod", SPEC, ownerReferences=[{"kind": "Job", "controller": True}])

    assert read_object(owned) is None
    assert read_object({"kind": "ConfigMap"}) is None


@pytest.mark.parametrize("spec", [{}, {"containers": []}, {"containers": "x"}, {"containers": [1]}])
def test_a_pod_without_containers_is_refused(spec: dict[str, Any]) -> None:
    """No cluster would take it either."""
    with pytest.raises(SubmissionError, match="no containers"):
        read_object(an_object("Pod", spec))


@pytest.mark.parametrize("count", ["0", "-1", "1e3", "eight", "999999", None, {}])
def test_what_is_no_number_of_gpus_asks_for_none(count: object) -> None:
    """Kubernetes refuses it, whatever is said here."""
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": count}}}]}

    assert read(an_object("Pod", spec)).submission.gpus is None
