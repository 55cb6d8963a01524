"""Adds variants to recordings that lack them: ``python -m tests.accuracy.types.adding [NAME ...]``.

A release that records more variants need not record again those that a document has. What is new is
recorded of the document's own config, each in a process of its own, and held against a plain pass
of all layers; a document whose layers it tells apart otherwise stays as it is, and says so.
"""

import argparse
import gc
import multiprocessing
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import compute_digest, encode_recording
from service.estimator.model.recorded.recorded_model import RecordedModel, get_variant
from service.usecases.recordings.documents import pack_document, unpack_document
from tests.accuracy.types.measure import EXTENT
from tests.accuracy.types.shipping import FOLDER, LIMIT, read_index, write_json
from worker.probes.architecture.check import compute_peak, trace_peak
from worker.probes.architecture.listening.listen import Phase, make_fake_model
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.record import record_model
from worker.probes.models.model_class import settle_config

PROCESSOR_S = 900


class OtherLayersError(Exception):
    """Layers that a new variant tells apart otherwise than the document does."""


def main(arguments: list[str]) -> int:
    """Add to the documents that are named, or to all that are shipped."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.types.adding")
    parser.add_argument("names", nargs="*", help="recordings of the catalogue")
    parser.add_argument("--only", nargs="*", help="variants to add, all that lack when none")
    parser.add_argument("--processor", type=int, default=PROCESSOR_S, help="seconds for each")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    context = multiprocessing.get_context("fork")
    for name in options.names or read_index(FOLDER):
        began = time.monotonic()
        process = context.Process(target=_add_alone, args=(name, options.processor, options.only))
        process.start()
        process.join()
        ended = f" (ended with {process.exitcode})" if process.exitcode else ""
        sys.stdout.write(f"{name}: {time.monotonic() - began:.0f} s{ended}\n")
        sys.stdout.flush()
    return 0


def _add_alone(name: str, seconds: int, only: Sequence[str] | None) -> None:
    """Add to one document in this process, which ends after so many seconds of a processor."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    torch.set_num_threads(1)
    gc.freeze()
    path = FOLDER / f"{name}.json.gz"
    document: dict[str, Any] = unpack_document(path.read_bytes())
    try:
        added = add_variants(document, only)
    except Exception:  # noqa: BLE001 - any code of transformers runs here
        sys.stdout.write(f"{name}: {traceback.format_exc(limit=1).splitlines()[-1][:300]}\n")
        return
    sys.stdout.write(f"{name}: {', '.join(added['passes'].keys() - document['passes'].keys())}\n")
    write_document(name, added, path)


def write_document(name: str, document: Mapping[str, Any], path: Path) -> None:
    """Write a document, and its digest into the index."""
    path.write_bytes(pack_document(document))
    index = read_index(FOLDER)
    index[name] |= {"recording": compute_digest(document)}
    (FOLDER / "index.json").write_text(write_json(index))


def add_variants(document: Mapping[str, Any], only: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a document with the training passes that it lacks, or with ``only`` some of them."""
    config = document["config"]
    old = decode_recording(document)
    steps = {name: variant for name, variant in VARIANTS.items() if variant.phase is Phase.STEP}
    lacking = {
        name: variant
        for name, variant in steps.items()
        if name not in old.variants
        and "half" in old.variants
        and (old.buffer_elements or not variant.cast)
        and name in (only or steps)
    }
    if not lacking:
        return dict(document)
    new = record_model(config, lacking)
    joined = replace(old, passes={**old.passes, **_align(old, new).passes})
    proved = [
        name for name in lacking if name in joined.variants and is_proved(joined, config, name)
    ]
    passes = {
        name: part
        for name, part in joined.passes.items()
        if get_variant(name) not in lacking or get_variant(name) in proved
    }
    kept = replace(joined, passes=passes)
    return {**document, **encode_recording(kept), "config": config}


def is_proved(recorded: RecordedModel, config: Mapping[str, Any], name: str) -> bool:
    """Return whether a step of all layers takes what the recording says."""
    variant = VARIANTS[name]
    reads = recorded.reads
    extent = EXTENT if reads is None or reads.grows else replace(EXTENT, length=1)
    with make_fake_model(config, settle_config(config), variant) as fake:
        traced = trace_peak(fake, variant, extent)
    return abs(traced - compute_peak(build_recorded(recorded), variant, extent)) <= traced // LIMIT


def _align(old: RecordedModel, new: RecordedModel) -> RecordedModel:
    """Return new passes with a block for each kind of layer of the old ones."""
    sources: dict[int, int] = {}
    for kind, source in zip(old.order, new.order, strict=True):
        if sources.setdefault(kind, source) != source:
            message = f"layers of kind {kind} are not alike in {', '.join(new.variants)}"
            raise OtherLayersError(message)
    for kind, source in sources.items():
        if old.layers[kind].weights != new.layers[source].weights:
            message = f"layers of kind {kind} have other weights"
            raise OtherLayersError(message)
    chosen = [sources[kind] for kind in range(len(old.layers))]
    passes = {
        name: replace(
            part,
            blocks=tuple(part.blocks[source] for source in chosen),
            block_inputs=tuple(part.block_inputs[source] for source in chosen),
        )
        for name, part in new.passes.items()
    }
    return replace(new, passes=passes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
