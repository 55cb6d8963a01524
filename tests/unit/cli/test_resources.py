"""Stored resources: what a server says about its methods is told as commands."""

import json
from functools import partial
from pathlib import Path

import httpx
import pytest

from service.__main__ import main
from service.cli.commands.clusters import show_cluster
from service.cli.model_files.json_files import read_object
from service.cli.resources import translate_to_command


def test_a_name_that_is_taken_is_told_with_the_command_that_replaces() -> None:
    """Where the server names PUT, the command line names its own word for it."""
    told = translate_to_command(
        "there is a model 'a'; store a new revision of it with PUT, or choose another name",
        "models replace a",
    )

    assert told == (
        "there is a model 'a'; store a new revision of it with `headroom models replace a`, or "
        "choose another name"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("clusters list extra", "`headroom clusters list` takes no 'extra'"),
        ("models list --config config.json", "`headroom models list` takes no --config"),
        (
            "clusters show a --end-reservations",
            "`headroom clusters show` takes no --end-reservations",
        ),
        ("clusters show a --file a.json", "`headroom clusters show` takes no --file"),
        ("reservations list a --holder b", "`headroom reservations list` takes no --holder"),
        ("keys list --for 2d", "`headroom keys list` takes no --for"),
        ("calibrations pools 7", "`headroom calibrations pools` takes no '7'"),
        ("measure gpt2 --watch 7", "`headroom measure --watch` takes no 'gpt2'"),
    ],
)
def test_what_an_action_would_ignore_is_refused(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that changes nothing would look like a filter that did."""
    assert main(arguments.split()) == 2

    assert told in capsys.readouterr().err


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """What PowerShell writes is read like any other file."""
    path = tmp_path / "pools.json"
    path.write_text(json.dumps({"pools": []}), encoding="utf-8-sig")

    assert read_object(path) == {"pools": []}


def test_a_cluster_shows_its_slices_and_who_holds_what(capsys: pytest.CaptureFixture[str]) -> None:
    """Free slices, drained GPUs and holders are on the screen: without them a cluster in slices
    would look full.
    """
    sliced = {"profile": "1g.10gb", "total": 14, "allocated": 3, "free": 11}
    held = {"holder": "team-vision", "num_gpus": 2, "gpu_indices": None, "host_memory_bytes": 0}
    node = {"allocations": [held], "mig_slices": [sliced]}
    counts = {
        "gpus_per_node": 8,
        "total_gpus": 16,
        "drained_gpus": 5,
        "mig_gpus": 4,
        "reserved_gpus": 0,
        "free_gpus": 1,
    }
    pool = {
        "name": "a",
        "gpu": "A100",
        "host_memory_bytes": None,
        "nodes": [{"name": "n1", **node}, {"name": "n2", **node}],
    }

    show_cluster({"name": "prod", "pools": [{**pool, **counts}]})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert ["a", "A100", "8", "16", "0", "1", "-"] in rows
    assert ["a:", "of", "16", "GPUs", "5", "drained,", "4", "in", "slices"] in rows
    assert ["a", "1g.10gb", "28", "6", "22"] in rows
    assert ["a", "team-vision", "4", "n1,", "n2"] in rows


def test_a_cluster_of_whole_gpus_says_nothing_of_what_it_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A pool that is neither drained nor cut is shown as it always was."""
    counts = {
        "gpus_per_node": 8,
        "total_gpus": 16,
        "drained_gpus": 0,
        "mig_gpus": 0,
        "reserved_gpus": 0,
        "free_gpus": 16,
    }

    show_cluster(
        {
            "name": "prod",
            "pools": [
                {"name": "a", "gpu": "L4", "host_memory_bytes": None, "nodes": None, **counts}
            ],
        },
    )
    shown = capsys.readouterr().out

    assert shown.split()[-7:] == ["a", "L4", "8", "16", "0", "16", "-"]
    assert not any(word in shown for word in ("drained", "held", "slices"))


def test_a_cluster_says_what_it_cannot_keep(capsys: pytest.CaptureFixture[str]) -> None:
    """Who replaces an inventory reads at once whose promises it breaks."""
    show_cluster(
        {
            "name": "prod",
            "pools": [],
            "warnings": ["reservations of x hold 8 GPUs of a/n1, which has 4"],
        },
    )

    assert "warning: reservations of x hold 8 GPUs of a/n1, which has 4" in capsys.readouterr().out


def test_a_key_without_an_end_does_not_look_revoked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until when a key lives is a time, or that it has no end."""
    key = {
        "prefix": "hr_a",
        "name": "ci",
        "scopes": ["read"],
        "state": "active",
        "expires_at": None,
        "last_used_at": None,
    }
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, json={"items": [key], "next_cursor": None})
    )
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=transport))
    monkeypatch.delenv("DATABASE_URL", raising=False)

    assert main(["keys", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[-2].split()[-4:] == ["active", "no", "end", "never"]
