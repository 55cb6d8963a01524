"""Recorded loops: every request that torch's caching allocator got on a GPU, and its segments.

``tests/data/truth/gpu/traces`` has them, one file a loop; ``README.md`` there says how they were
made.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from service.catalog.models import load_architecture, resolve_model
from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES
from service.estimator.model.architecture import Architecture
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Lora,
    Method,
    TrainWorkload,
)
from service.probing.stack import keep_layers
from tests.accuracy.allocator.requests import Request

TRACES = Path(__file__).parents[2] / "data" / "truth" / "gpu" / "traces"
GPU = "H100-SXM5-80GB"
"""The GPU of every loop, as the catalogue names it."""
_LAST_MARK = "step2"
"""Later steps repeat the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLoop:
    """A loop with its question, its requests and what was reserved for them."""

    name: str
    model: str
    case: dict[str, Any]
    requests: tuple[Request, ...]
    """Up to the end of the second step."""
    reserved_bytes: int
    segments: tuple[int, ...]
    """Bytes of every segment, in order."""

    @property
    def trains(self) -> bool:
        """Whether it is a training loop."""
        return bool(self.case["kind"] == "train")

    def load_question(self) -> tuple[Architecture, TrainWorkload]:
        """Return the model and the workload that was run."""
        case, architecture = self.case, load_architecture(resolve_model(self.model))
        if layers := case.get("layers"):
            architecture = keep_layers(architecture, tuple(range(layers)))
        rank = case.get("lora")
        return architecture, TrainWorkload(
            sequence_length=case["seq"],
            micro_batch_size=case["batch"],
            method=Method.FULL if rank is None else Method.LORA,
            lora=None if rank is None else Lora(rank=rank),
            precision=POLICIES["amp_bf16" if case["amp"] else case["load"]],
            optimizer=case["optim"],
            activation_checkpointing=Checkpointing.FULL if case.get("gc") else Checkpointing.NONE,
            attention=Attention(case.get("attn", "sdpa")),
            fp32_outputs=False,  # a plain loop, without accelerate
        )


def list_loops(names: tuple[str, ...] = ()) -> list[Path]:
    """Return the files of loops: those named, by name or path, or all."""
    paths = [Path(name) if "/" in name else TRACES / f"{name}.json.gz" for name in names]
    return paths or sorted(TRACES.glob("*.json.gz"))


def load_loop(path: Path) -> RecordedLoop:
    """Read a recorded loop."""
    document = msgspec.json.decode(gzip.decompress(path.read_bytes()))
    case, events = document["case"], document["events"]
    return RecordedLoop(
        name=case["name"],
        model=case["model"],
        case=case,
        requests=tuple(_iter_requests(events)),
        reserved_bytes=document["marks"][-1]["reserved_peak"],
        segments=tuple(event[1] for event in events if event[0] == "segment_alloc"),
    )


def _iter_requests(events: list[list[Any]]) -> Iterator[Request]:
    sizes: dict[int, int] = {}
    phase = "begin"
    for kind, value, *more in events:
        if kind == "m":
            phase = value
            if phase == _LAST_MARK:
                return
        elif kind == "a":
            sizes[more[0]] = -(-value // BLOCK_BYTES) * BLOCK_BYTES
            yield Request(num_bytes=sizes[more[0]], phase=phase, tensor=more[0])
        elif kind == "f" and value in sizes:
            yield Request(num_bytes=sizes.pop(value), phase=phase, tensor=value, is_release=True)
