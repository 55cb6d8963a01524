"""Whether a batch has the verdicts of single fits: ``python -m tests.bench.verdicts``.

A grid of questions (models x GPUs x methods x batches x recomputation x shardings x frameworks x
engines) is asked three ways in process: by numbers alone, as a batch asks, and in full.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.fit import FitReport, assess_fit
from service.planner.fit.parts import ALL_PARTS, NO_PARTS
from service.planner.fit.verdict import judge

T = TypeVar("T")
MODELS = (
    "gpt2",
    "llama-3.2-1b",
    "llama-3-8b",
    "mixtral-8x7b",
    "gemma-2-2b",
    "t5-base",
    "bert-base",
    "whisper-tiny",
)
GPUS = ("T4", "RTX-4090", "A100-SXM4-80GB", "H100-SXM5-80GB")
SHARDED = (
    Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2),
    Layout(data_parallel=8, zero_stage=2, sharding=Sharding.DEEPSPEED),
)
SPLIT = {
    Framework.MEGATRON: Layout(
        tensor_parallel=2, data_parallel=2, sharding=Sharding.MEGATRON, zero_stage=1
    ),
    Framework.TORCHTITAN: SHARDED[0],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One question's verdicts: by numbers alone, of a batch and of a fit, with their seconds."""

    alone: str
    batch: FitReport
    single: FitReport
    numbers_device: int
    numbers_high: int
    seconds: tuple[float, float, float]


def iter_questions() -> Iterator[tuple[str, str, Workload, Layout]]:
    """Yield every question of the grid: model, GPU, workload and layout."""
    for model in MODELS:
        for gpu in GPUS:
            for workload, layout in (*_iter_trained(), *_iter_served()):
                yield model, gpu, workload, layout


def _iter_trained() -> Iterator[tuple[Workload, Layout]]:
    for method in (Method.FULL, Method.LORA, Method.QLORA):
        lora = None if method is Method.FULL else Lora()
        for batch in (1, 4, 16, 64):
            for word in (Checkpointing.NONE, Checkpointing.FULL):
                yield (
                    TrainWorkload(
                        sequence_length=512,
                        micro_batch_size=batch,
                        method=method,
                        lora=lora,
                        activation_checkpointing=word,
                    ),
                    Layout(),
                )
    for layout in SHARDED:
        for batch in (1, 8, 32):
            yield TrainWorkload(sequence_length=1024, micro_batch_size=batch), layout
    for framework, layout in SPLIT.items():
        yield (
            TrainWorkload(sequence_length=1024, micro_batch_size=4, framework=framework),
            layout,
        )


def _iter_served() -> Iterator[tuple[Workload, Layout]]:
    for engine in Engine:
        for batch in (1, 16, 128):
            yield (
                ServeWorkload(
                    engine=engine,
                    num_sequences=batch,
                    prompt_tokens=512,
                    output_tokens=128,
                    max_model_len=None if engine is Engine.TRANSFORMERS else 1024,
                ),
                Layout(),
            )


def ask(evaluator: Evaluator, workload: Workload, layout: Layout) -> Row:
    """Ask one question three ways; raises EstimatorError where it is refused."""
    numbers_s, numbers = _time(lambda: evaluator.estimate_numbers(workload, layout))
    batch_s, batch = _time(lambda: assess_fit(evaluator, workload, layout, NO_PARTS))
    single_s, single = _time(lambda: assess_fit(evaluator, workload, layout, ALL_PARTS))
    return Row(
        alone=judge(numbers, evaluator.device).verdict.value,
        batch=batch,
        single=single,
        numbers_device=numbers.device_bytes,
        numbers_high=numbers.device_interval.high,
        seconds=(numbers_s, batch_s, single_s),
    )


def _time(call: Callable[[], T]) -> tuple[float, T]:
    begin = time.process_time()
    result = call()
    return time.process_time() - begin, result


def compare_verdicts() -> Table:
    """Ask the whole grid and count the verdicts that differ."""
    plans, rows, refused = PlanCache(), list[Row](), 0
    for model, gpu, workload, layout in iter_questions():
        evaluator = make_evaluator(
            load_architecture(resolve_model(model)), resolve_gpu(gpu).to_device(), plans=plans
        )
        try:
            rows.append(ask(evaluator, workload, layout))
        except EstimatorError:
            refused += 1
    turned = Counter((row.alone, row.single.verdict.value) for row in rows)
    table = Table("what", "numbers alone", "batch", title=_format_title(len(rows), refused))
    table.add_row(
        "verdicts that are not the fit's",
        str(sum(count for (alone, single), count in turned.items() if alone != single)),
        str(sum(row.batch.verdict is not row.single.verdict for row in rows)),
    )
    table.add_row("replayed", "0", str(sum(row.batch.estimate.replayed for row in rows)))
    batch_ratios = [_get_device(row.batch) / _get_device(row.single) for row in rows]
    alone_ratios = [row.numbers_device / _get_device(row.single) for row in rows]
    table.add_row(
        "device bytes over the fit's", _format_range(alone_ratios), _format_range(batch_ratios)
    )
    highest = max(row.single.estimate.device_interval.high / row.numbers_high for row in rows)
    table.add_row("the fit's upper end over theirs, at most", f"{highest:.2f}", "")
    table.add_row(
        "ms an item, with first recordings",
        f"{sum(row.seconds[0] for row in rows) / len(rows) * 1e3:.2f}",
        f"{sum(row.seconds[1] for row in rows) / len(rows) * 1e3:.2f}",
    )
    return table


def _format_title(number: int, refused: int) -> str:
    return f"One verdict: {number:,} questions ({refused} more are refused alike)"


def _get_device(report: FitReport) -> int:
    return report.estimate.device_bytes


def _format_range(ratios: list[float]) -> str:
    return f"{min(ratios) - 1:+.0%} to {max(ratios) - 1:+.0%}"


if __name__ == "__main__":
    Console().print(compare_verdicts())
