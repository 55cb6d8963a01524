"""Imports by command: what is sent, and what is shown."""

import argparse
import json
from pathlib import Path

import pytest

from service.__main__ import main
from service.cli.cluster_imports.sending import build_body
from service.cli.views.cluster_imports import show_import
from service.terminal.arguments import Parser


def make_options(**changes: object) -> argparse.Namespace:
    """Return the options of an import."""
    fields = dict.fromkeys(("format", "node", "scope", "gpu", "tolerate"))
    return argparse.Namespace(**fields | changes)


def test_what_no_reader_looks_at_is_not_sent() -> None:
    """Lists of images are most of a node's bytes; text stays as it is."""
    node = {
        "kind": "Node",
        "metadata": {"name": "n1", "managedFields": [1]},
        "status": {"images": [{"names": ["a"]}], "capacity": {"cpu": "1"}},
    }

    body = build_body(make_options(), [json.dumps({"items": [node]}), "<nvidia_smi_log/>"])

    assert body == {
        "content": {
            "items": [
                {
                    "kind": "Node",
                    "metadata": {"name": "n1"},
                    "status": {"capacity": {"cpu": "1"}},
                }
            ]
        },
        "also": ["<nvidia_smi_log/>"],
    }


def test_words_of_the_command_are_fields_of_the_request() -> None:
    """A GPU is a name of the catalogue, or an amount of memory."""
    options = make_options(
        format="slurm",
        scope="cluster",
        gpu=[("A100", "A100-SXM4-40GB"), ("z", {"memory_bytes": "24Gi"})],
        tolerate=["dedicated"],
    )

    assert build_body(options, ["{}"]) == {
        "content": {},
        "format": "slurm",
        "scope": "cluster",
        "gpus": {"A100": "A100-SXM4-40GB", "z": {"memory_bytes": "24Gi"}},
        "tolerates": ["dedicated"],
    }


def test_a_command_stands_behind_two_dashes() -> None:
    """Its own flags are not ours."""
    parser = Parser(prog="headroom clusters")
    parser.add_argument("name")
    parser.add_argument("--every", type=int)
    parser.accept_command("command")

    options = parser.parse_args(["a", "--every", "3", "--", "kubectl", "get", "--", "-o", "json"])

    assert (options.name, options.every) == ("a", 3)
    assert options.command == ["kubectl", "get", "--", "-o", "json"]
    assert parser.parse_args(["a"]).command == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("clusters import a", "which nodes? name a tool's output with --from FILE"),
        ("clusters import --from -", "import needs a name"),
        ("clusters import a --from /nonexistent", "cannot read /nonexistent"),
        ("clusters watch a", "which command? it stands behind --"),
        ("clusters watch a --apply -- ls", "`headroom clusters watch` takes no --apply"),
        ("clusters show a -- ls", "takes no command behind --"),
        ("clusters show a --gpu a=b", "`headroom clusters show` takes no --gpu"),
    ],
)
def test_what_is_missing_or_ignored_is_told(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any server is asked."""
    assert main(arguments.split()) == 2

    assert told in capsys.readouterr().err


def test_a_file_that_is_no_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A packed file is not sent."""
    path = tmp_path / "nodes.json.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00\xff\xfe\xfd")

    assert main(["clusters", "import", "a", "--from", str(path)]) == 2
    assert "is no text (byte 1): hand in what the program wrote itself" in capsys.readouterr().err


def test_an_import_shows_what_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """Before and after of each field, unknown GPUs with what may be meant, and warnings."""
    change = {
        "kind": "changed",
        "pool": "l4-x4",
        "node": "n1",
        "gpu": "L4",
        "fields": [
            {"name": "allocations", "before": [], "after": [{"holder": "ml/p"}]},
            {"name": "unavailable", "before": None, "after": "cordoned"},
        ],
    }
    answer = {
        "cluster": "lab",
        "applied": False,
        "source": "kubernetes",
        "num_added": 0,
        "num_removed": 0,
        "num_changed": 1,
        "num_changes": 1,
        "after": {"nodes": 1, "gpus": 4, "free_gpus": 3},
        "changes": [change],
        "unknown_gpus": [
            {
                "name": "A100",
                "num_nodes": 2,
                "num_gpus": 16,
                "memory_bytes": None,
                "candidates": ["A100-SXM4-40GB", "A100-SXM4-80GB"],
            }
        ],
        "left_out": [{"what": "c1", "reason": "has no GPUs"}],
        "warnings": ["old"],
    }

    show_import(answer)

    screen = capsys.readouterr().out
    for text in (
        "would change: 1 changed nodes by kubernetes; then 1 nodes, 4 GPUs, 3 free",
        "allocations none → ml/p, unavailable none → cordoned",
        "--gpu A100=A100-SXM4-40GB or A100-SXM4-80GB",
        "left out: c1: has no GPUs",
        "warning: old",
    ):
        assert text in " ".join(screen.split())
