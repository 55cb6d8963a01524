"""A traced run as a memory snapshot: PyTorch's own tools read it, it holds what was measured, and
says where it comes from.
"""

import io
import pickle
import pickletools
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from torch.cuda import _memory_viz

from service.estimator.values.workload import Allocator, TrainWorkload
from service.formats.measured.detect import parse
from service.formats.measured.reading import Quantity
from tests.unit.probes.trace.test_run import subject
from worker.probes.artifacts import PICKLE_PROTOCOL
from worker.probes.run.backend import PointResult
from worker.probes.trace.backend import TraceBackend

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
    ),  # PEFT still asks for it
]
_OPCODES = """
PROTO FRAME STOP MARK APPEND APPENDS LIST TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_TUPLE EMPTY_DICT EMPTY_LIST DICT SETITEM SETITEMS
NEWFALSE NEWTRUE NONE BINGET LONG_BINGET BINPUT LONG_BINPUT MEMOIZE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE
BINUNICODE
"""  # noqa: E501
READ_BY_THE_VIEWER = frozenset(_OPCODES.split())
"""Opcodes of torch/utils/viz/MemoryViz.js (2026-11)."""
Json = dict[str, Any]
viewer: Any = _memory_viz
"""PyTorch leaves its functions untyped."""


@cache
def kept(name: str, allocator: Allocator = Allocator.DEFAULT) -> tuple[PointResult, Json]:
    """Return a traced run and the snapshot that it keeps."""
    asked, point = subject(name)
    if isinstance(asked.workload, TrainWorkload):
        asked = replace(asked, workload=replace(asked.workload, allocator=allocator))
    snapshots: list[Any] = []
    session = TraceBackend().run(
        asked, point, on_step=lambda _step: None, save_snapshot=snapshots.append
    )
    (snapshot,) = snapshots
    return session, snapshot


def words(entry: Json) -> list[str]:
    """Return the frames of an entry as the viewer shows them."""
    return [f"{frame['filename']}:{frame['line']}:{frame['name']}" for frame in entry["frames"]]


def made(name: str) -> list[Json]:
    """Return the allocations of a run."""
    return [entry for entry in kept(name)[1]["device_traces"][0] if entry["action"] == "alloc"]


@pytest.mark.parametrize("allocator", [Allocator.DEFAULT, Allocator.EXPANDABLE_SEGMENTS])
def test_torchs_own_tools_read_it(allocator: Allocator) -> None:
    """They add up the segments and their blocks, and stop where these do not agree."""
    _, snapshot = kept("full", allocator)
    summary, story = viewer.segsum(snapshot), viewer.trace(snapshot)
    pages = viewer.trace_plot(snapshot), viewer.segment_plot(snapshot)
    flames = io.StringIO(viewer.memory(snapshot, format_flamegraph=lambda lines: lines))

    assert f"segments: {len(snapshot['segments'])}" in summary
    assert story.startswith("Device 0 ----------------\n")
    assert all("MemoryViz.js" in page for page in pages)
    assert sum(int(line.rpartition(" ")[2]) for line in flames) == sum(
        one["total_size"] for one in snapshot["segments"]
    )


@pytest.mark.parametrize("name", ["full", "autocast", "serving"])
def test_it_holds_what_was_measured(name: str) -> None:
    """Read back as a file of the field's it has the replayed peak of reserved bytes, and allocated
    ones within its rounding.
    """
    session, snapshot = kept(name)
    found = {
        reading.quantity: reading
        for reading in parse(pickle.dumps(snapshot, protocol=PICKLE_PROTOCOL)).readings
    }
    assert session.reserved is not None

    assert found[Quantity.RESERVED].value == max(session.reserved.values())
    allocated = found[Quantity.ALLOCATED]
    assert allocated.value >= max(session.reading.live.values())
    assert allocated.value <= max(session.reserved.values())


@pytest.mark.parametrize("name", ["full", "autocast", "adapters", "serving"])
def test_who_writes_down_changes_nothing(name: str) -> None:
    """Bytes are those of a run that nobody shows: hooks on modules hold no tensor, also under a
    checkpoint that stops early.
    """
    plain = TraceBackend().run(*subject(name), on_step=lambda _step: None)
    session, _ = kept(name)

    assert (session.reading, session.reserved) == (plain.reading, plain.reserved)


def test_every_tensor_says_where_it_comes_from() -> None:
    """Its operator and shape, its module or its name, the lines of the model's code, and the layer
    of backward as well.
    """
    shown = [words(entry) for entry in made("full")]
    first_gate = next(
        frames
        for frames in shown
        if frames[1].startswith("model.layers.0.mlp.gate_proj.weight:0:weights")
    )
    up = next(
        frames
        for frames in shown
        if frames[1].startswith("model.layers.1.mlp.up_proj:0:activations")
    )
    down = [frames for frames in shown if frames[-1] == "backward/layer:1:0:stretch"]

    assert first_gate[0].startswith("768 x 256 bfloat16:0:aten.empty")
    assert up[0].endswith(":aten.mm.default")
    assert any("modeling_llama.py" in frame and "LlamaMLP.forward" in frame for frame in up)
    assert up[-1] == "forward/layer:1:0:stretch"
    assert any(
        frames[1].startswith("model.layers.1.mlp.down_proj.weight.grad:0:gradients")
        for frames in down
    )
    assert all(len(frames) > 1 for frames in shown)


def test_nothing_of_the_host_is_told() -> None:
    """Files are named below where Python found them; of the probe's own there are none."""
    frames = {frame["filename"] for entry in made("autocast") for frame in entry["frames"]}

    assert any(filename.startswith("transformers/models/llama/") for filename in frames)
    assert not [
        filename for filename in frames if filename.startswith("/") or "worker/" in filename
    ]


def test_what_is_computed_again_is_in_its_module() -> None:
    """A checkpoint runs a layer a second time in backward, and leaves it as soon as it has what it
    needs.
    """
    again = [
        words(entry)
        for entry in made("autocast")
        if words(entry)[-1].startswith("backward/layer:0")
    ]

    assert any("model.layers.0.mlp" in frames[1] for frames in again)
    assert any("torch/utils/checkpoint.py" in frame for frames in again for frame in frames)


def test_the_viewer_colours_by_what_tensors_are_for() -> None:
    """Its legend stops it where `unknown` is missing: that is what segments are."""
    entries = kept("full")[1]["device_traces"][0]
    categories = Counter(entry["category"] for entry in entries)
    segments = {entry["category"] for entry in entries if entry["action"].startswith("segment")}

    assert categories.keys() >= {
        "weights",
        "gradients",
        "optimizer_states",
        "activations",
        "logits",
        "temporaries",
    }
    assert segments == {"unknown"}


def test_the_viewer_knows_every_opcode() -> None:
    """It reads pickles by a machine of its own, which knows data and nothing that runs."""
    body = pickle.dumps(kept("full")[1], protocol=PICKLE_PROTOCOL)

    assert {opcode.name for opcode, _, _ in pickletools.genops(body)} <= READ_BY_THE_VIEWER


def test_it_ends_while_everything_that_lasts_is_there() -> None:
    """Weights and states are in its segments, as they are between two steps."""
    session, snapshot = kept("full")
    held = sum(
        block["requested_size"]
        for one in snapshot["segments"]
        for block in one["blocks"]
        if block["state"] != "inactive"
    )

    assert held == session.reading.steady_bytes
