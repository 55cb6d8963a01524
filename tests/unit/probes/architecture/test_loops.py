"""Loops over chunks of a sequence, found in passes of a small model."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from service.estimator.estimate import estimate
from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import encode_recording
from service.estimator.tape.programs.program import Loop
from service.estimator.tape.programs.stepped_sizes import SteppedSize, count_turns
from service.estimator.tape.sizes import ZERO
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload
from service.usecases.recordings.documents import read_document, unpack_document
from worker.probes.architecture.check import compute_peak
from worker.probes.architecture.listening.listen import Extent
from worker.probes.architecture.listening.listener import Listener
from worker.probes.architecture.listening.raw_pass import RawPass
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.loops import Heard, find_loops, fold
from worker.probes.architecture.polynomials import NoPolynomial, fit_size, fit_turns
from worker.probes.architecture.steps import LoopStep, make_steps

_WIDTH, _CHUNK = 4, 8
HALF = VARIANTS["half"]
HOST = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
RECORDING = Path(__file__).parents[3] / "data" / "recordings" / "delta_rule.json.gz"
"""Two layers of a small Qwen3-Next, recorded by ``record_model``."""
TRACED = {
    (7, 384): 105_352_960,
    (4, 1000): 157_505_120,
    (3, 64): 7_434_336,
    (1, 128): 5_028_480,
    (6, 1024): 240_793_440,
    (1, 832): 32_636_720,
}
"""Highest live bytes of plain training passes of it, by sequences and tokens."""
TRACED_PREFILL, TRACED_DECODE = 4_027_440, 1_380_112
"""Allocated bytes of three traced prompts of 128, and of a token after them."""


class Scan(nn.Module):
    """A state that each chunk reads and changes, written into one output."""

    def __init__(self, *, grows: bool) -> None:
        """Have one weight; a state that ``grows`` reads all chunks before."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(_WIDTH, _WIDTH))
        self.grows = grows

    def get_output_embeddings(self) -> None:
        """Return no head."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of what the chunks give."""
        projected = x @ self.weight
        output = torch.zeros_like(projected)
        state = torch.zeros(x.shape[0], _WIDTH)
        for i in range(x.shape[1]):
            read = projected[:, : i + 1].sum(1) if self.grows else projected[:, i]
            new = read * state
            output[:, i] = new
            state = state + new
        return output.sum()


def hear(chunks: int, *, grows: bool = False) -> Heard:
    """Return a pass of two sequences of so many chunks."""
    with FakeTensorMode():
        model: Any = Scan(grows=grows)
        names, graph = (_listen(model, chunks, packs=packs) for packs in (True, False))
    return Heard(raw=names, steps=make_steps(names, graph))


def _listen(model: Any, chunks: int, *, packs: bool) -> RawPass:  # noqa: ANN401 - a model that is no transformer
    listener = Listener(model, packs=packs)
    x = torch.ones(2, chunks, _WIDTH)
    with listener, listener.listen():
        listener.raw.inputs = {"x": listener.number(x)}
        loss = model(x)
        listener.raw.returned = {"loss": listener.number(loss)}
    if not packs:
        with listener:
            loss.backward()
    model.zero_grad(set_to_none=True)
    return listener.raw


def test_chunks_are_turns_of_a_loop() -> None:
    """Passes of any number of chunks are the same steps, with that many turns."""
    short = hear(4)

    loops = find_loops(short, hear(6))

    assert loops is not None
    folded = [fold(short, loops, hear(chunks)) for chunks in (4, 5, 9)]
    assert all(part is not None for part in folded)
    steps = [cast(Heard, part).steps for part in folded]
    turns = [[s.turns for s in part if isinstance(s, LoopStep) and not s.entered] for part in steps]
    assert turns == [[1], [2], [6]]
    assert len({len(part) for part in steps}) == 1


def test_a_written_output_has_a_node_for_each_chunk() -> None:
    """Autograd copies the whole gradient for each part that is written into."""
    heard = hear(3)

    nodes = [node.name for node in heard.raw.nodes if "CopySlices" in node.name]
    attached = [n for s in heard.steps for n in getattr(s, "nodes", ()) if "CopySlices" in n.name]

    assert len(nodes) == len(attached) == 3


def test_turns_of_other_sizes_are_no_loop() -> None:
    """A turn that reads all chunks before it takes more than the one before."""
    loops = find_loops(hear(4, grows=True), hear(6, grows=True))

    assert loops is None


def test_turns_follow_the_length() -> None:
    """They are fitted up to a number of them that the program has beside the loop."""
    extents = [Extent(batch=2, length=length) for length in (193, 257, 385)]

    turns = fit_turns([1, 2, 4], extents)

    assert [count_turns(turns, length) for length in (193, 256, 1000)] == [1, 1, 13]
    with pytest.raises(InvalidInputError, match="-1 turns"):
        count_turns(turns, 128)
    with pytest.raises(NoPolynomial):
        fit_turns([1, 2, 9], extents)


def test_whole_chunks_may_have_less_than_an_element_of_a_token() -> None:
    """A size of each chunk is written by chunks where all lengths have whole ones."""
    extents = tuple(
        Extent(batch=batch, length=_CHUNK * chunks) for batch, chunks in ((2, 4), (3, 5), (5, 8))
    )

    size = fit_size([3 * e.batch * (e.length // _CHUNK) for e in extents], extents)

    assert size == SteppedSize(plain=ZERO, tokens=8, begun=False, steps=(0, 3, 0, 0, 0, 0))


@pytest.fixture(scope="module")
def scanned() -> RecordedArchitecture:
    """Return a recorded Qwen3-Next of a delta rule and an attention layer."""
    return read_document(unpack_document(RECORDING.read_bytes()))


@pytest.mark.parametrize(("extent", "traced"), TRACED.items())
def test_a_recorded_scan_takes_what_the_model_takes(
    scanned: RecordedArchitecture, extent: tuple[int, int], traced: int
) -> None:
    """Lengths made no recording; all it misses is what it says."""
    batch, length = extent

    peak = compute_peak(scanned, HALF, Extent(batch=batch, length=length))

    assert abs(peak - traced) <= scanned.recorded.difference


def test_a_document_holds_its_loops(scanned: RecordedArchitecture) -> None:
    """Written and read again, all of its passes are the same."""
    again = decode_recording(encode_recording(scanned.recorded))

    loops = [part for block in again.passes["half"].blocks for part in block.instructions]
    assert any(isinstance(part, Loop) for part in loops)
    assert again.passes == scanned.recorded.passes


def test_states_of_a_scan_are_in_the_cache(scanned: RecordedArchitecture) -> None:
    """Prompts and a decode step take what traced ones took, the first layer's input once."""
    workload = ServeWorkload(
        num_sequences=3, prompt_tokens=128, output_tokens=5, client=Client.LOOP
    )

    answer = estimate(scanned, workload, layout=Layout(), device=HOST)

    instants = {part.name: part.allocated_bytes for part in answer.instants}
    assert (instants["prefill"], instants["decode"]) == (TRACED_PREFILL, TRACED_DECODE)
