"""DisaggregatedSets: how many replicas take prompts, and what each role starts."""

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from service.cli.offline.fit import fit
from service.cli.offline.rendering import rendering
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine
from service.formats.manifests.disaggregated import split_replicas
from service.formats.manifests.registry import render_format
from service.formats.renderings.job import Job
from tests.unit.formats.manifests.samples import CHAT, SAMPLES
from tests.unit.formats.renderings.builders import a_job

SPLIT = SAMPLES["split server"]


def render_set(share: float) -> dict[str, Any]:
    """Return the set of six replicas of which prompts take a share."""
    job = replace(SPLIT, layout=replace(SPLIT.layout, data_parallel=6), prefill_share=share)
    document: Any = render_format("disaggregatedset", job).document
    [item] = document["items"]
    result: dict[str, Any] = item
    return result


@pytest.mark.parametrize(
    ("replicas", "share", "prefill"),
    [(2, 0.01, 1), (2, 0.99, 1), (4, 0.5, 2), (6, 0.34, 2), (9, 0.8, 7), (100, 0.001, 1)],
)
def test_replicas_are_split_as_the_time_is(replicas: int, share: float, prefill: int) -> None:
    """And each role has one at least."""
    assert split_replicas(replicas, share) == prefill


@pytest.mark.parametrize("share", [0.07, 0.3, 0.52, 0.9])
def test_no_other_split_answers_more_requests(share: float) -> None:
    """The slower role decides how many flow."""
    best = split_replicas(12, share)
    flows = {n: min(n / share, (12 - n) / (1 - share)) for n in range(1, 12)}

    assert flows[best] == max(flows.values())


def test_each_role_is_a_set_of_servers_that_hand_over() -> None:
    """Both start the server that was answered, with its pool as the place of a transfer."""
    roles = {role["name"]: role["spec"] for role in render_set(0.34)["spec"]["roles"]}
    commands = {}
    for name, spec in roles.items():
        [container] = spec["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
        words = shlex.split(container["command"][-1].removeprefix("exec "))
        commands[name] = words
        assert container["env"][-1]["name"] == "VLLM_NIXL_SIDE_CHANNEL_HOST"

    assert {name: spec["replicas"] for name, spec in roles.items()} == {"prefill": 2, "decode": 4}
    for name, role in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        at = commands[name].index("--kv-transfer-config")
        transfer = json.loads(commands[name][at + 1])
        assert (transfer["kv_role"], transfer["kv_buffer_device"]) == (role, "cuda")
        assert commands[name][:2] == ["vllm", "serve"]


def test_the_share_is_that_of_the_times_of_the_answer() -> None:
    """A fit in this format tells them, though it shows none."""
    question = {
        "model": "llama-3.1-8b",
        "gpu": "H100-SXM5-80GB",
        "workload": {
            "task": "serve",
            "engine": "vllm",
            "num_sequences": 32,
            "prompt_tokens": 4096,
            "output_tokens": 256,
        },
        "layout": {"data_parallel": 6},
    }
    times = fit(question, None)["throughput"]
    prompts, answers = times["prefill_time_s"], 256 * times["step_time_s"]
    document = rendering({**question, "format": "disaggregatedset"}, None)["document"]

    note = document["items"][0]["metadata"]["annotations"]["headroom.dev/note"]
    assert note.startswith(f"{prompts / (prompts + answers):.0%} of a request's time")


def test_it_says_what_it_leaves_out() -> None:
    """A router, and the bytes of the transfer's own library."""
    note = render_set(0.34)["metadata"]["annotations"]["headroom.dev/note"]

    assert note.startswith("34% of a request's time is its prompt")
    assert "router" in note
    assert "UCX" in note


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (replace(SPLIT, layout=Layout(tensor_parallel=2)), "say data_parallel 2 or more"),
        (replace(SPLIT, prefill_share=None), "not known on this GPU"),
        (replace(SPLIT, workload=replace(CHAT, output_tokens=0)), "say output_tokens"),
        (SAMPLES["large replicas"], "stages of a pipeline"),
        (
            a_job(replace(CHAT, engine=Engine.SGLANG), Layout(data_parallel=2)),
            "another engine: format lws",
        ),
    ],
)
def test_what_has_no_split_is_refused(job: Job, reason: str) -> None:
    """In words that say what would be right."""
    rendering = render_format("disaggregatedset", job)

    assert rendering.document is None
    assert reason in str(rendering.reason)
