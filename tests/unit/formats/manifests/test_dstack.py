"""Runs of dstack: what its own reader takes, and a shell runs."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from service.catalog.gpus import list_gpus
from service.estimator.values.layout import Layout
from service.formats.manifests.registry import render_format
from tests.unit.formats.manifests.samples import CHAT, SAMPLES
from tests.unit.formats.renderings.builders import a_job

_AT_LEAST = {"type": "string", "pattern": r"^\d+(GB)?\.\.$"}
_GPU = {
    "type": "object",
    "additionalProperties": False,
    "required": ["vendor", "count"],
    "properties": {
        "vendor": {"enum": ["nvidia", "amd", "intel"]},
        "name": {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9]+$"}},
        "count": {"type": "integer", "minimum": 1},
        "memory": _AT_LEAST,
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["type", "name", "image", "commands", "resources"],
    "properties": {
        "type": {"enum": ["task", "service"]},
        "name": {"type": "string", "pattern": "^[a-z][a-z0-9-]{1,40}$"},
        "image": {"type": "string"},
        "env": {"type": "array", "items": {"type": "string", "pattern": "^[A-Z_0-9]+(=.*)?$"}},
        "commands": {"type": "array", "items": {"type": "string"}},
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cpu": _AT_LEAST,
                "memory": _AT_LEAST,
                "gpu": _GPU,
                "shm_size": {"type": "string", "pattern": r"^\d+MB$"},
            },
        },
        "nodes": {"type": "integer", "minimum": 2},
        "port": {"type": "integer"},
        "replicas": {"type": "integer", "minimum": 1},
        "probes": {"type": "array"},
    },
    "if": {"properties": {"type": {"const": "service"}}},
    "then": {"required": ["port"], "not": {"required": ["nodes"]}},
    "else": {"not": {"anyOf": [{"required": ["port"]}, {"required": ["replicas"]}]}},
}
"""What is rendered of ``TaskConfiguration`` and ``ServiceConfiguration``, dstack 0.22.5."""
CARRIED = tuple(
    name for name, job in SAMPLES.items() if render_format("dstack", job).document is not None
)


def _render(name: str) -> dict[str, Any]:
    document: Any = render_format("dstack", SAMPLES[name]).document
    result: dict[str, Any] = document
    return result


@pytest.mark.parametrize("name", CARRIED)
def test_its_reader_takes_every_run(name: str) -> None:
    """And refuses another field, and a service without a port."""
    run = _render(name)
    validator = jsonschema_rs.validator_for(SCHEMA)

    assert [error.message for error in validator.iter_errors(run)] == []
    assert not validator.is_valid(run | {"instances": 2})
    assert not validator.is_valid({**run, "type": "service" if "nodes" in run else "other"})


def test_every_node_has_its_rank_and_files(tmp_path: Path) -> None:
    """The one command is a script: it writes the files and starts torchrun."""
    stub = tmp_path / "torchrun"
    stub.write_text('#!/bin/sh\necho "$@" > words\n')
    stub.chmod(0o755)
    (command,) = _render("two nodes")["commands"]
    subprocess.run(
        ["sh", "-c", f"{command} && true"],  # noqa: S607 - the one of PATH
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "DSTACK_MASTER_NODE_IP": "10.0.0.1",
            "DSTACK_NODE_RANK": "1",
        },
        cwd=tmp_path,
        check=True,
    )

    words = (tmp_path / "words").read_text()
    assert "--node-rank=1 " in words
    assert "--rdzv-endpoint=10.0.0.1:29500 " in words
    assert (tmp_path / "deepspeed_config.json").read_text().startswith("{")


def test_what_only_the_user_knows_comes_from_their_environment() -> None:
    """A name without a value is taken from there; weights that are known need none."""
    assert "CHECKPOINT" in _render("server")["env"]
    assert "CHECKPOINT" not in _render("named server")["env"]


@pytest.mark.parametrize(
    ("gpu", "names"),
    [
        ("A100-SXM4-80GB", ["A100"]),
        ("H100-NVL-94GB", ["H100NVL", "H100"]),
        ("H200-NVL-141GB", ["H200NVL"]),
        ("RTX-A6000", ["A6000"]),
        ("Quadro-RTX-6000", ["RTX6000"]),
        ("RTX-4090", ["RTX4090"]),
        ("MI300X-192GB", ["MI300X"]),
    ],
)
def test_gpus_have_the_names_of_its_catalogue(gpu: str, names: list[str]) -> None:
    """As gpuhunt writes them."""
    document: Any = render_format(
        "dstack", replace(a_job(CHAT, Layout(), gpu=gpu), image="a:1")
    ).document

    assert document["resources"]["gpu"]["name"] == names


@pytest.mark.parametrize("gpu", [entry.name for entry in list_gpus()])
def test_every_gpu_has_a_name_that_it_reads(gpu: str) -> None:
    """A word of letters and digits, and its memory in full GiB."""
    document: Any = render_format(
        "dstack", replace(a_job(CHAT, Layout(), gpu=gpu), image="a:1")
    ).document

    assert jsonschema_rs.validator_for(_GPU).is_valid(document["resources"]["gpu"])


def test_a_long_name_ends_as_the_short_one() -> None:
    """41 characters, and a letter first."""
    job = replace(SAMPLES["server"], model_name="3b-" + "x" * 60)
    document: Any = render_format("dstack", job).document

    assert document["name"] == "m-3b-" + "x" * 30 + "-serve"
    assert len(document["name"]) == 41


def test_a_server_on_two_nodes_is_refused() -> None:
    """With the formats that carry it."""
    reason = render_format("dstack", SAMPLES["large replicas"]).reason or ""

    assert "on one node, and this one spans 2: format skypilot" in reason
