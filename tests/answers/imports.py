"""Imported measurements, and what rests on them: fits, tables, accuracy, calibrations."""

import base64
import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from tests.answers.questions import REFRESHED_S, Json, Question, words
from tests.answers.stored import ID, write

IMPORT, MEASUREMENTS = "/v1/measurements/import", "/v1/measurements"
_FIT, _CALIBRATED = "/v1/fit", "/v1/fit calibrated"
_SACCT = (
    "JobID|JobName|NTasks|AllocTRES|TRESUsageInMax\n18194943|sft||cpu=8,gres/gpu:a100=1|\n"
    "18194943.batch|batch|1|cpu=8,gres/gpu:a100=1|"
    "cpu=00:56:24,gres/gpumem=38888M,gres/gpuutil=100\n"
)
_RELEASES = {"torch": "2.13.0", "transformers": "5.23.0"}
_SERVED: Json = {"task": "serve", "num_sequences": 32, "prompt_tokens": 1024, "output_tokens": 256}
SAMPLES = words(
    "dcgm.prom nvidia_smi_pmon.txt nvidia_smi_table.txt sacct_alpine.txt sglang_0_4.log "
    "sglang_draft.log sglang_grok.log train_results.json vllm_0_19.log vllm_0_6.log vllm_failed.log"
)


def samples_of(data: Path) -> Mapping[str, str]:
    """Return the text of each sample, wherever this checkout keeps it."""
    found = {name: sorted(data.rglob(name)) for name in SAMPLES}
    missing = [name for name, paths in found.items() if not paths]
    if missing:
        message = f"no {', '.join(missing)} below {data}"
        raise FileNotFoundError(message)
    return {name: paths[0].read_text() for name, paths in found.items()}


def imports(data: Path) -> Iterator[Question]:
    """Yield the imports and then everything that reads them; in order."""
    for name, text in samples_of(data).items():
        yield from _sample(name, text)
    yield from _refused()
    yield from _taught()
    yield from _calibrated()
    yield from _read()


def _ask(method: str, path: str, body: object = None, **more: Any) -> Question:  # noqa: ANN401
    return write(method, path, body, group=IMPORT, **more)


def _sample(name: str, text: str) -> Iterator[Question]:
    """Yield one file as if it were of a training, and of an engine: shown, then stored."""
    model, engine = "llama-3.1-8b", "sglang" if name.startswith("sglang") else "vllm"
    train = {"task": "train", "sequence_length": 2048, "precision": "bf16"}
    base: Json = {"content": text, "model": model, "gpu": "H100-SXM5-80GB"}
    for workload in (train, {**_SERVED, "engine": engine}):
        for stored in (False, True):
            yield _ask("POST", IMPORT, {**base, "workload": workload, "dry_run": not stored})
    yield _ask("POST", IMPORT, {**base, "workload": train, "environment": _RELEASES})
    yield _ask("POST", IMPORT, {"content": text})


def _refused() -> Iterator[Question]:
    train: Json = {"task": "train", "sequence_length": 2048, "precision": "bf16"}
    base: Json = {"content": _SACCT, "model": "llama-3.2-1b", "workload": train}
    base |= {"gpu": "A100-SXM4-80GB"}
    changes: tuple[Json, ...] = (
        {},
        {"content": ""},
        {"content": "nothing"},
        {"content": "{}"},
        {"format": "vllm"},
        {"format": "x"},
        {"match": {"job": "1"}},
        {"match": {"job": "18194943"}},
        {"gpu": "H200"},
        {"model": "none"},
        {"environment": {"torch": 1}},
        {"environment": {"driver": "550.54"}},
        {"jobs": [{"match": {"job": "18194943"}, "workload": train}]},
        {"content_base64": "!"},
        {"dry_run": False},
    )
    for change in changes:
        yield _ask("POST", IMPORT, {**base, **change})
    pickled = base64.b64encode(b"\x80\x04}.").decode()
    without = {name: value for name, value in base.items() if name != "content"}
    yield _ask("POST", IMPORT, {**without, "content_base64": pickled})
    yield _ask("POST", IMPORT, {**base, "dry_run": False}, captures={"known": ID})


def _taught() -> Iterator[Question]:
    """Yield what PyTorch's own counters taught: allocated and reserved peaks of runs of today."""
    gib = 1 << 30
    runs: list[tuple[str, Json, float]] = [
        ("llama-3.2-1b", {"sequence_length": 2048, "precision": "bf16"}, 13.4),
        ("llama-3.2-1b", {"sequence_length": 1024, "precision": "bf16"}, 11.9),
        ("llama-3.2-1b", {"sequence_length": 2048, "precision": "bf16", "method": "lora"}, 11.2),
        ("gpt2", {"sequence_length": 512, "micro_batch_size": 4}, 5.2),
        ("gpt2", {"sequence_length": 1024}, 4.1),
        ("qwen2.5-0.5b", {"sequence_length": 1024, "precision": "bf16"}, 9.7),
    ]
    for number, (model, run, peak) in enumerate(runs):
        stats = {
            "allocated_bytes.all.peak": int(peak * gib),
            "reserved_bytes.all.peak": int(1.08 * peak * gib),
        }
        body: Json = {"content": json.dumps(stats), "model": model, "gpu": "L4"}
        body |= {"workload": {"task": "train", **run}, "environment": _RELEASES}
        yield _ask("POST", IMPORT, body, pause_s=REFRESHED_S)
        captures = {f"taught{number}": ID}
        yield _ask("POST", IMPORT, {**body, "dry_run": False}, captures=captures)
        yield _ask("POST", IMPORT, {**body, "dry_run": False})
    stats = {"allocated_bytes.all.peak": 3 * gib, "reserved_bytes.all.peak": 4 * gib}
    served = {**_SERVED, "engine": "transformers", "num_sequences": 2}
    body = {"content": json.dumps(stats), "model": "gpt2", "gpu": "L4", "workload": served}
    taught = {**body, "environment": _RELEASES, "dry_run": False}
    yield _ask("POST", IMPORT, taught, pause_s=REFRESHED_S)
    # Everything that is asked from here on rests on all of these.
    yield write("GET", "/readyz", group="/readyz", pause_s=REFRESHED_S)


def _calibrated() -> Iterator[Question]:
    """Yield fits that rest on what was imported, near to it and far from it."""
    models = ("llama-3.2-1b", "gpt2", "qwen2.5-0.5b", "llama-3.2-3b", "llama-3.1-8b")
    changes: tuple[Json, ...] = (
        {},
        {"precision": "bf16"},
        {"precision": "bf16", "method": "lora"},
        {"precision": "bf16", "activation_checkpointing": "full"},
        {"precision": "bf16", "micro_batch_size": 4},
    )
    for model, change, length in product(models, changes, (1024, 2048)):
        workload = {"task": "train", "sequence_length": length, **change}
        body = {"model": model, "gpu": "L4", "workload": workload}
        yield write("POST", _FIT, body, group=_CALIBRATED)
    for model, engine in product(models[:3], ("transformers", "vllm")):
        body = {"model": model, "gpu": "L4", "workload": {**_SERVED, "engine": engine}}
        yield write("POST", _FIT, body, group=_CALIBRATED)
    base: Json = {"model": "llama-3.2-1b", "gpu": "L4"}
    near = {"task": "train", "sequence_length": 2048, "precision": "bf16"}
    items = {"items": [{**base, "workload": near}], "detail": "full"}
    yield write("POST", "/v1/fit/batch", items, group="/v1/fit/batch calibrated")
    yield write("POST", "/v1/ceilings", {**base, "workload": near, "maximize": "micro_batch_size"},
                group="/v1/ceilings calibrated")  # fmt: skip
    body = {"model": "llama-3.2-1b", "gpus": ["L4", "A10G"], "workload": near}
    yield write("POST", "/v1/plans", body, group="/v1/plans calibrated")


def _read() -> Iterator[Question]:
    """Yield every way to read measurements and what was learnt from them."""
    for query in (
        "", "limit=2", "limit=200", "source=import", "source=probe", "status=succeeded",
        "task=serve", "family=llama", "model=gpt2", "gpu=L4", "sort=-error", "sort=error&limit=3",
        "sort=created_at", "sort=x", "error_at_least=0.05", "error_at_most=0.05", "format=rows",
        "format=rows&sort=-error&limit=4", "format=csv", "format=csv&sort=-error", "format=xml",
        "device=trace", "created_after=2020-01-01T00:00:00Z", "created_before=2020-01-01T00:00:00Z",
        "created_after=x", "limit=0", "cursor=x", "x=1",
    ):  # fmt: skip
        yield write("GET", f"{MEASUREMENTS}?{query}", group=MEASUREMENTS)
    yield write("GET", MEASUREMENTS, group=MEASUREMENTS, headers={"accept": "text/csv"})
    page = f"{MEASUREMENTS}?sort=-error&limit=3"
    cursor = {"next": r'"next_cursor": ?"([^"]+)'}
    yield write("GET", page, group=MEASUREMENTS, captures=cursor)
    yield write("GET", f"{page}&cursor=<<next>>", group=MEASUREMENTS)
    for name in ("taught0", "taught3", "known"):
        for more in ("", "/events", "/samples", "/artifacts/memory_snapshot"):
            yield write("GET", f"{MEASUREMENTS}/<<{name}>>{more}", group=MEASUREMENTS)
    for query in (
        "", "family=llama", "gpu=L4", "quantity=device", "quantity=allocated", "device=trace",
        "quantity=x", "since=2020-01-01T00:00:00Z", "since=x", "family=none",
    ):  # fmt: skip
        yield write("GET", f"/v1/accuracy?{query}", group="/v1/accuracy")
    group = "/v1/calibrations"
    yield write("GET", group, group=group, captures={"calibration": ID})
    for more in ("?limit=1", "?limit=0", "?key=x", "?cursor=x", "/pools", "/none"):
        yield write("GET", group + more, group=group)
    yield write("POST", f"{group}/none/remeasure", group=group)
    headers = {"idempotency-key": "again"}
    yield write("POST", f"{group}/<<calibration>>/remeasure", group=group, headers=headers)
    yield write("POST", f"{group}/<<calibration>>/remeasure", group=group, headers=headers)
    for name in ("taught0", "taught0", "known"):
        yield write("POST", f"{MEASUREMENTS}/<<{name}>>/withdraw", group=MEASUREMENTS)
    yield write("GET", group, group=group)
    near = {"task": "train", "sequence_length": 2048, "precision": "bf16"}
    body = {"model": "llama-3.2-1b", "gpu": "L4", "workload": near}
    yield write("POST", _FIT, body, group=_CALIBRATED, pause_s=REFRESHED_S)
    yield write("GET", "/v1/workers", group="/v1/workers")
    yield write("GET", "/v1/workers?limit=0", group="/v1/workers")
