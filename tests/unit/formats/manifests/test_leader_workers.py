"""LeaderWorkerSets of servers, on one node or on several, held against their schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from service.formats.manifests.registry import render_format
from tests.unit.formats.manifests.samples import SAMPLES
from tests.unit.formats.renderings import test_schedulers

SERVERS = ("server", "replicas", "large replicas", "other engine", "slice", "memory alone", "amd")
SCHEMA = json.loads(
    (Path(test_schedulers.__file__).with_name("schemas") / "kubernetes.json").read_bytes()
)


def render_set(name: str) -> dict[str, Any]:
    """Return the LeaderWorkerSet of a sample."""
    document: Any = render_format("lws", SAMPLES[name]).document
    result: dict[str, Any] = document["items"][-1]
    return result


@pytest.mark.parametrize("name", SERVERS)
def test_its_schema_takes_every_server(name: str) -> None:
    """And refuses a field beside those of the kind."""
    document: Any = render_format("lws", SAMPLES[name]).document
    validator = jsonschema_rs.validator_for(SCHEMA)

    assert [error.message for error in validator.iter_errors(document)] == []
    document["items"][-1]["spec"]["leaderWorkerTemplate"]["completions"] = 1
    assert not validator.is_valid(document)


def test_a_replica_on_one_node_is_a_group_of_one() -> None:
    """Its pod is a server, which is no worker and has no address to look for."""
    spec = render_set("replicas")["spec"]
    group = spec["leaderWorkerTemplate"]
    container = group["workerTemplate"]["spec"]["containers"][0]

    assert (spec["replicas"], group["size"], "leaderTemplate" in group) == (3, 1, False)
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"
    assert "HEAD_ADDRESS" not in container["command"][-1]


def test_a_replica_on_two_nodes_is_as_without_the_word() -> None:
    """Kubernetes' own rendering has the same set there."""
    plain: Any = render_format("kubernetes", SAMPLES["large replicas"]).document

    assert render_set("large replicas") == plain["items"][-1]


def test_a_job_that_ends_is_no_set() -> None:
    """The refusal says what the format runs."""
    assert render_format("lws", SAMPLES["two nodes"]).reason == (
        "lws runs servers, and this is a job that ends"
    )
