"""First answers of a recording beside a family's: ``python -m tests.bench.recordings``.

The recording is of a Helium that the tests keep. Its layers are Llama's but for the order of
rotated pairs, so that a written Llama of its sizes has as much to record.
"""

import json
import time
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.table import Table

from service.catalog.gpus import resolve_gpu
from service.cli.gc_tuning import shorten_pauses
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Detail
from service.estimator.values.workload import (
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.usecases.recordings.documents import read_document
from tests.recordings import HELIUM, make_document

ROUNDS = 41
_FULL = TrainWorkload(sequence_length=2048, precision=POLICIES["bf16"])
_SHARDED = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)
_LORA = TrainWorkload(sequence_length=2048, method=Method.LORA, lora=Lora(rank=16))
_QUESTIONS: dict[str, tuple[Workload, Layout]] = {
    "full": (_FULL, Layout()),
    "full, checkpointing": (
        TrainWorkload(sequence_length=2048, activation_checkpointing=Checkpointing.FULL),
        Layout(),
    ),
    "full, FSDP2 on 8": (_FULL, _SHARDED),
    "LoRA": (_LORA, Layout()),
    "serving 64 x 2048": (ServeWorkload(num_sequences=64, prompt_tokens=2048), Layout()),
}


def measure_alternately_us(*calls: Callable[[], object]) -> list[float]:
    """Measure the least CPU time of each call, in microseconds.

    They take turns, so that other work on the machine slows all of them.
    """
    least = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for place, call in enumerate(calls):
            begin = time.process_time()
            call()
            least[place] = min(least[place], (time.process_time() - begin) * 1e6)
    return least


def compare_recordings() -> Table:
    """Compare first answers and warm ones of a recording with a written family's."""
    title = "Recordings beside written families, least of 41"
    table = Table("question", "recorded, µs", "written, µs", "ratio", title=title)
    models = (
        read_document(make_document()),
        architecture_from_config({**HELIUM, "model_type": "llama"}),
    )
    device = resolve_gpu("A100-SXM4-80GB").to_device()
    for name, (workload, layout) in _QUESTIONS.items():
        asks = [
            partial(estimate, model, workload, layout=layout, device=device) for model in models
        ]
        for ending, detail in (("", Detail.FULL), (", replayed", Detail.REPLAYED)):
            first = measure_alternately_us(*(partial(ask, detail=detail) for ask in asks))
            _add(table, f"{name}, first time{ending}", first)
        plans = PlanCache()
        again = measure_alternately_us(*(partial(ask, plans=plans) for ask in asks))
        _add(table, f"{name}, again", again)
    _add_documents(table)
    return table


def _add(table: Table, name: str, times: list[float]) -> None:
    recorded, written = times
    table.add_row(name, f"{recorded:,.0f}", f"{written:,.0f}", f"{recorded / written:.2f}")


def _add_documents(table: Table) -> None:
    """Add what a document costs that comes with a question."""
    document = make_document()

    def read_anew() -> None:
        read_document({**document, "torch": json.dumps(time.perf_counter())})

    anew, again = measure_alternately_us(read_anew, lambda: read_document(document))
    table.add_row("a document read and tried, first time", f"{anew:,.0f}", "", "")
    table.add_row("the same document again", f"{again:,.0f}", "", "")


if __name__ == "__main__":
    shorten_pauses()
    Console().print(compare_recordings())
