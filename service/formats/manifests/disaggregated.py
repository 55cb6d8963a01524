"""DisaggregatedSet: prompts on some replicas of a server, answers on the others.

``disaggregatedset.x-k8s.io/v1`` (kubernetes-sigs/lws,
``api/disaggregatedset/v1/disaggregatedset_types.go``): roles, each a LeaderWorkerSet. vLLM's
NixlConnector brings a prompt's keys and values from the pool of one replica into that of another
(``docs/features/nixl_connector_usage.md``): on GPUs it registers the pools themselves
(``kv_buffer_device`` ``cuda``), so that a replica of either role has the bytes of one that does
both.
"""

import json
from dataclasses import replace
from typing import Any

from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.format import Document
from service.formats.manifests.workloads import annotate, as_list, list_pod_templates
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.kubernetes import render_leader_worker_objects

_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
_HYBRID = "--no-disable-hybrid-kv-cache-manager"
"""Releases that give windowed layers a whole cache beside a connector are told not to."""
_SIDE_CHANNEL: dict[str, object] = {
    "name": "VLLM_NIXL_SIDE_CHANNEL_HOST",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}
_NOTE = (
    "requests need a router that asks a prefill pod and then a decode pod, as llm-d's does; "
    "what UCX allocates for itself is in no figure"
)


def render_disaggregated_set(job: Job, launch: Launch) -> Document:
    """Return a server's replicas as prefill and decode.

    Raises UnrenderableError where there is no split of them that is known to run.
    """
    share = _require_share(job)
    num_prefill = split_replicas(job.replicas, share)
    counts = {"prefill": num_prefill, "decode": job.replicas - num_prefill}
    roles = [_render_role(job, launch, name, counts[name]) for name in _ROLES]
    result: dict[str, object] = {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": "DisaggregatedSet",
        "metadata": {"name": job.name},
        "spec": {"roles": roles},
    }
    annotate(
        result, {"headroom.dev/note": f"{share:.0%} of a request's time is its prompt; {_NOTE}"}
    )
    return as_list([result])


def split_replicas(num_replicas: int, prefill_share: float) -> int:
    """Return how many replicas take prompts, so that most requests flow.

    Those of one role wait for those of the other: the slower decides. Of equals the one with more
    for answers, which have a cache to hold.
    """
    return max(
        range(1, num_replicas),
        key=lambda count: (
            min(count / prefill_share, (num_replicas - count) / (1 - prefill_share)),
            -count,
        ),
    )


def _require_share(job: Job) -> float:
    workload = job.workload
    if not isinstance(workload, ServeWorkload) or workload.engine is not Engine.VLLM:
        message = "the connector that is rendered here is vLLM's; another engine: format lws"
    elif job.layout.pipeline_parallel > 1:
        message = "vLLM's NixlConnector is not known to serve the stages of a pipeline: format lws"
    elif job.replicas == 1:
        message = (
            "one replica cannot be split into prefill and decode: say data_parallel 2 or more, "
            "without expert_parallel"
        )
    elif not workload.output_tokens:
        message = "it generates nothing that a decode replica would be for: say output_tokens"
    elif job.prefill_share is None:
        message = (
            "how long its prompts and answers take is not known on this GPU, so that no number of "
            "replicas of each follows: format lws"
        )
    else:
        return job.prefill_share
    raise UnrenderableError(message)


def _render_role(job: Job, launch: Launch, name: str, num_replicas: int) -> dict[str, object]:
    transfer = {
        "kv_connector": "NixlConnector",
        "kv_role": _ROLES[name],
        "kv_buffer_device": "cuda",
    }
    words = (*launch.command, "--kv-transfer-config", json.dumps(transfer), _HYBRID)
    document: Any = render_leader_worker_objects(job, replace(launch, command=words))
    workload = document["items"][-1]
    for template in list_pod_templates(workload):
        template["spec"]["containers"][0]["env"].append(_SIDE_CHANNEL)
    spec = workload["spec"] | {"replicas": num_replicas}
    return {"name": name, "spec": spec}
