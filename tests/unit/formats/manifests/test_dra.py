"""DRA: claims by bytes, evaluated by CEL over devices of every GPU of the catalogue."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from kubernetes_validate import ValidationError, validate

from service.catalog.gpus import list_gpus, resolve_gpu
from service.contract.to_answer.renderings import get_gpu_names
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.registry import render_format
from service.formats.renderings.job import GpuKind, Job
from tests.unit.formats.manifests.devices import list_devices, select
from tests.unit.formats.renderings.builders import a_job

CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
SMALL = a_job(layout=Layout())
PAIR = a_job(layout=Layout(data_parallel=2), gpu="L40S")
LARGE = a_job(CHAT, Layout(tensor_parallel=8, pipeline_parallel=2), model="llama-2-70b")
DEVICES = list_devices()
DISCRETE = tuple(
    device.entry for device in DEVICES if device.profile is None and device.memory is not None
)


def _list_items(job: Job) -> list[dict[str, Any]]:
    document: Any = render_format("dra", job).document
    items: list[dict[str, Any]] = document["items"]
    return items


def _get_devices(job: Job) -> dict[str, Any]:
    devices: dict[str, Any] = _list_items(job)[0]["spec"]["spec"]["devices"]
    return devices


def _get_request(job: Job) -> dict[str, Any]:
    request: dict[str, Any] = _get_devices(job)["requests"][0]["exactly"]
    return request


def _on(gpu: str, needed_bytes: int) -> Job:
    device = resolve_gpu(gpu).to_device()
    return replace(SMALL, device=device, gpu=get_gpu_names(device), needed_bytes=needed_bytes)


@pytest.mark.parametrize("entry", DISCRETE, ids=lambda entry: entry.name)
def test_a_named_gpu_is_picked_where_its_usable_memory_holds_the_bytes(entry: Any) -> None:  # noqa: ANN401 - an entry
    """The last byte that a process can allocate still fits, one more does not, and no other
    product is picked, nor a slice of it.
    """
    same = [other for other in DISCRETE if other.aliases["nvml"][0] in entry.aliases["nvml"]]
    for needed in (entry.usable_bytes // 2, entry.usable_bytes, entry.usable_bytes + 1):
        picked = select(DEVICES, _get_request(_on(entry.name, needed)))

        assert picked == {other.name for other in same if other.usable_bytes >= needed}


def test_a_told_memory_picks_every_gpu_that_holds_the_bytes() -> None:
    """Of all GPUs of the catalogue those whose usable memory is enough, to the byte."""
    for needed in sorted({entry.usable_bytes + more for entry in DISCRETE for more in (0, 1)}):
        known = tuple(
            GpuKind(device=device, names=get_gpu_names(device), needed_bytes=needed)
            for device in (entry.to_device() for entry in list_gpus())
        )
        job = replace(SMALL, gpu=None, needed_bytes=needed, known_gpus=known)

        picked = select(DEVICES, _get_request(job))

        assert picked == {entry.name for entry in DISCRETE if entry.usable_bytes >= needed}


@pytest.mark.parametrize(
    "device", [device for device in DEVICES if device.profile], ids=lambda device: device.product
)
def test_a_slice_is_picked_by_its_profile_and_memory(device: Any) -> None:  # noqa: ANN401 - a device
    """What a slice offers is enough, one byte more is not, and the whole GPU never is one."""
    entry, profile = device.entry, device.profile
    part = entry.get_slice(profile)
    job = replace(SMALL, device=part, gpu=get_gpu_names(part), mig_profile=profile)

    fits = select(DEVICES, _get_request(replace(job, needed_bytes=device.usable_bytes)))
    more = select(DEVICES, _get_request(replace(job, needed_bytes=device.usable_bytes + 1)))

    assert (fits, more) == (frozenset({f"{entry.name} {profile}"}), frozenset())


@pytest.mark.parametrize("job", [SMALL, PAIR, a_job(), a_job(CHAT, Layout(tensor_parallel=2))])
def test_kubernetes_schema_takes_claims_and_pods(job: Job) -> None:
    """Kubernetes 1.37's own schema, strict, refuses none of them."""
    for item in _list_items(job):
        validate(item, "1.37", strict=True)


def test_the_schema_refuses_a_claim_of_the_betas() -> None:
    """``resource.k8s.io/v1beta1`` had the request's fields one level higher."""
    template = deepcopy(_list_items(SMALL)[0])
    request = template["spec"]["spec"]["devices"]["requests"][0]
    request |= request.pop("exactly")

    with pytest.raises(ValidationError):
        validate(template, "1.37", strict=True)


@pytest.mark.parametrize("job", [SMALL, LARGE])
def test_every_pod_has_a_claim_and_no_gpu_of_the_device_plugin(job: Job) -> None:
    """Both would take two sets of GPUs; labels of nodes would pin what the selector picks."""
    template, *_, workload = _list_items(job)
    spec = workload["spec"]
    group = spec.get("leaderWorkerTemplate", {})
    pods = [
        part["spec"]
        for part in (spec.get("template"), *map(group.get, ("leaderTemplate", "workerTemplate")))
        if part is not None
    ]

    for pod in pods:
        resources = pod["containers"][0]["resources"]
        assert resources["claims"] == [{"name": pod["resourceClaims"][0]["name"]}]
        assert "limits" not in resources
        assert sorted(resources["requests"]) == ["cpu", "memory"]
        assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == template["metadata"]["name"]
        assert not pod.keys() & {"nodeSelector", "affinity"}
    assert _get_request(job)["count"] == job.gpus_per_node


def test_few_gpus_without_a_fabric_are_near_where_they_can_be() -> None:
    """First below one root of PCIe, by a constraint of that choice alone, then anywhere."""
    devices = _get_devices(PAIR)

    names = [choice["name"] for choice in devices["requests"][0]["firstAvailable"]]
    assert names == ["l40s-one-root", "l40s"]
    assert devices["constraints"] == [
        {"requests": ["gpu/l40s-one-root"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
    ]


def test_substitutes_follow_in_their_order() -> None:
    """Each with its own bytes, as many GPUs, and no more choices than Kubernetes takes."""
    kinds = tuple(
        GpuKind(device=device, names=get_gpu_names(device), needed_bytes=needed * GIB)
        for needed, device in (
            (61, resolve_gpu("H100-SXM5-80GB").to_device()),
            (62, resolve_gpu("H200-SXM5-141GB").to_device()),
        )
    )

    choices = _get_devices(replace(SMALL, substitutes=kinds))["requests"][0]["firstAvailable"]
    many = _get_devices(replace(SMALL, substitutes=kinds * 5))["requests"][0]["firstAvailable"]

    assert [select(DEVICES, choice) for choice in choices] == [
        {"A100-SXM4-80GB"},
        {"H100-SXM5-80GB"},
        {"H200-SXM5-141GB"},
    ]
    assert len(many) == 8


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        ("MI300X-192GB", "dra has words for GPUs of nvidia"),
        ("GB10-128GB", "tells none of it: format kubernetes"),
    ],
)
def test_what_the_driver_cannot_tell_is_refused_in_words(gpu: str, reason: str) -> None:
    """Another vendor's GPU, and one whose memory is the host's."""
    rendering = render_format("dra", _on(gpu, GIB))

    assert reason in (rendering.reason or "")
