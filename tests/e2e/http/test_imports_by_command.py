"""``headroom measurements`` against a running server: shown first, stored with --yes, listed and
exported.
"""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from service.__main__ import main
from tests.unit.formats.measured.reading_samples import SAMPLES

SERVING = (
    "--model",
    "llama-3.1-8b",
    "--task",
    "serve",
    "--engine",
    "vllm",
    "--num-sequences",
    "32",
    "--prompt-tokens",
    "1024",
)
TRAINING = (
    "--model",
    "llama-3.2-1b",
    "--task",
    "train",
    "--sequence-length",
    "2048",
    "--precision",
    "bf16",
)
Run = Callable[..., tuple[int, str]]


@pytest.fixture(name="run")
def command(client: httpx.Client, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a runner of ``headroom measurements`` that gives its exit code and what it printed."""

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["measurements", *arguments, "--server", str(client.base_url)])
        return code, capsys.readouterr().out

    return run


def test_an_import_is_shown_then_stored(run: Run) -> None:
    """Without --yes nothing is; with it, everything is listed, shown and exported."""
    files = (str(SAMPLES / "sacct_alpine.txt"), str(SAMPLES / "nvidia_smi_table.txt"))
    shown = run("import", *files, *TRAINING, "--gpu", "A100-SXM4-80GB")
    empty = run("export")
    stored = run("import", *files, *TRAINING, "--gpu", "A100-SXM4-80GB", "--yes")
    again = run("import", files[0], *TRAINING, "--gpu", "A100-SXM4-80GB", "--yes")

    assert (shown[0], stored[0], again[0]) == (0, 0, 0)
    assert "nothing was stored: 1 would be, with --yes" in shown[1]
    assert "left out, line 2: job 18194943" in shown[1]
    assert len(empty[1].splitlines()) == 1
    assert stored[1].count("stored 1\n") == 2
    assert "stored 0, 1 stored before" in again[1]
    rows = list(csv.DictReader(io.StringIO(run("export")[1])))
    assert [row["source"] for row in rows] == ["import", "import"]
    assert rows[0]["id"] in run("list", "--sort=-error")[1]
    assert "device" in run("show", rows[0]["id"])[1]
    lines = run("export", "--json", "--source", "import")[1].splitlines()
    assert [json.loads(line)["id"] for line in lines] == [row["id"] for row in rows]
    assert run("export", "--json", "--error-at-most", "0.0")[1] == ""


def test_an_import_names_its_cluster(run: Run, client: httpx.Client) -> None:
    """The cluster is one of the server's, and goes along with each job."""
    pool = {"name": "a100", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "num_nodes": 1}
    client.post("/v1/clusters", json={"name": "lab", "pools": [pool]}).raise_for_status()
    import_words = (str(SAMPLES / "sacct_alpine.txt"), *TRAINING, "--gpu", "A100-SXM4-80GB")

    code, shown = run("import", *import_words, "--cluster", "lab", "--json")
    refused, _ = run("import", *import_words, "--cluster", "typo", "--json")

    assert code == 0
    assert {item["environment"]["cluster"] for item in json.loads(shown)["items"]} == {"lab"}
    assert refused == 2


def test_a_contradiction_ends_with_two(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A script notices, before anything is stored and when it tries to."""
    log = str(SAMPLES / "vllm_0_19.log")
    shown = run("import", log, *TRAINING, "--gpu", "H100-SXM5-80GB")
    refused = main(["measurements", "import", log, *TRAINING, "--gpu", "H100-SXM5-80GB", "--yes"])

    assert shown[0] == refused == 2
    assert "refused, the file: the file is a log of vllm, and the workload is training" in shown[1]
    assert "headroom:" in capsys.readouterr().err


def test_a_table_of_jobs_says_what_each_ran(run: Run, tmp_path: Path) -> None:
    """A file of many jobs, and what is known of them in another."""
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"jobs": [{"match": {"job": "18194943"}, "gpu": "A100-SXM4-80GB"}]}))
    code, printed = run(
        "import", str(SAMPLES / "sacct_alpine.txt"), *TRAINING, "--jobs", str(jobs), "--json"
    )

    answer = json.loads(printed)
    assert code == 0
    assert [(item["job"], item["status"], item["gpu"]) for item in answer["items"]] == [
        ("18194943", "new", "A100-SXM4-80GB")
    ]


def test_a_log_is_shown_in_its_own_words(run: Run) -> None:
    """Weights, pool and graphs, each beside its prediction."""
    printed = run("import", str(SAMPLES / "vllm_0_19.log"), *SERVING, "--gpu", "H100-SXM5-80GB")[1]

    assert "max_model_len = 8192, as the log says" in printed
    assert [
        word
        for word in ("weight", "kv_pool_tokens", "cuda_graph", "476,032")
        if word not in printed
    ] == []
