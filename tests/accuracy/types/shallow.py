"""Records every type with few layers: ``python -m tests.accuracy.types.shallow [TYPE ...]``.

Types that have neither a module nor a recording here, each in a process of its own with limits of
time and memory; what came of it goes into its row. What is recorded is compared with a plain pass
at a batch and a length that made no recording. ``--heard`` listens to one pass of each alone, a
tenth of the work: whether a recording can be made at all, and in the recorder's words why not.
"""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import torch

from service.estimator.model.recorded.architecture import build_recorded
from service.probing.refusal import Refusal
from tests.accuracy.types.few_layers import make_shallow_config
from tests.accuracy.types.limits import limit_process
from tests.accuracy.types.measure import compare_steps, describe_steps
from tests.accuracy.types.rows import Row, append_row, read_rows, write_rows
from worker.probes.architecture.hearing import Hearing, describe_failure
from worker.probes.architecture.listening.listen import Extent, NoLossError, make_fake_model
from worker.probes.architecture.listening.reading import find_reading
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.record import record_model
from worker.probes.models.model_class import build_any_model, settle_config

SECONDS = 60
"""Of a processor, for a type."""
PASSES = ("half", "half/frozen", "half/prefill", "half/decode", "half/forward")
"""Variants that show each column of the page."""


def main(arguments: list[str]) -> int:
    """Record the types that are named, or all that were not tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.types.shallow")
    parser.add_argument("types", nargs="*", help="types to record anew, all untried when none")
    parser.add_argument("--heard", action="store_true", help="listen to one pass alone")
    options = parser.parse_args(arguments)
    try_type = _hear if options.heard else _record
    for name in options.types or [row.model_type for row in read_rows().values() if _is_open(row)]:
        row = read_rows()[name]
        _try_apart(row, try_type)
        row = read_rows()[name]
        outcome = row.refused or ("it runs" if row.error is None else row.error)
        sys.stdout.write(f"{name:40} {outcome}\n")
        sys.stdout.flush()
    write_rows(read_rows().values())
    return 0


def _is_open(row: Row) -> bool:
    is_tried = bool(row.written or row.passes or row.refused)
    return row.counted is not None and not is_tried


def _try_apart(row: Row, try_type: Callable[[Row], Row]) -> None:
    """Try a type in a forked process, which appends its row."""
    child = os.fork()
    if not child:
        limit_process(SECONDS)
        append_row(_explain(row, try_type))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        reason = f"few layers of it take over {SECONDS} s of a processor or 4 GiB to record"
        append_row(replace(row, refused=reason))


def _explain(row: Row, try_type: Callable[[Row], Row]) -> Row:
    """Return what became of a type, or why nothing."""
    try:
        return try_type(row)
    except Refusal as refusal:
        return replace(row, refused=refusal.message)
    except Exception as error:  # noqa: BLE001 - any code of transformers runs here
        return replace(row, refused=describe_failure(error))


def _record(row: Row) -> Row:
    """Return the row of a type with its recording."""
    config = make_shallow_config(row.model_type)
    recorded = record_model(config, {name: VARIANTS[name] for name in PASSES})
    steps = compare_steps(build_recorded(recorded), config)
    return replace(
        row,
        passes=tuple(recorded.passes),
        shallow=True,
        runs=False,
        **describe_steps(steps),
    )


def _hear(row: Row) -> Row:
    """Return the row of a type of which one pass runs on tensors without data."""
    config = make_shallow_config(row.model_type)
    hf_config = settle_config(config)
    with torch.device("meta"):
        model = build_any_model(config, hf_config, dtype=torch.float32, attention="sdpa")
    reads = find_reading(model)
    extent = Extent(batch=2, length=65 if reads is None or reads.grows else 1)
    names = ("fp32",) if reads is None else ("fp32", "fp32/forward")
    for name in names:
        with make_fake_model(config, hf_config, VARIANTS[name]) as fake:
            hearing = Hearing(fake=fake, variant=VARIANTS[name], embeddings=frozenset())
            # A class without a loss is served alone.
            with suppress(*((NoLossError,) if name != names[-1] else ())):
                hearing.sign(extent)
                break
    return replace(row, runs=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
