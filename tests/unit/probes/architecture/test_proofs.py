"""Recordings that are proved, or refused, by passes that did not make them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from torch import nn

from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import encode_recording
from service.estimator.model.recorded.recorded_model import RecordedModel
from service.estimator.values.errors import NotModelledError
from service.probing.refusal import Refusal
from worker.probes.architecture import check
from worker.probes.architecture import record as recorder
from worker.probes.architecture.check import compute_peak
from worker.probes.architecture.depth import differs_in_depth_alone, find_stack
from worker.probes.architecture.describe import find_longest
from worker.probes.architecture.listening.listen import Extent
from worker.probes.architecture.polynomials import FEW, PROVED, NoPolynomial, fit_size
from worker.probes.architecture.record import VARIANTS, record_model

_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HALF = VARIANTS["half"]
EXTENT = Extent(batch=2, length=128)


def record(**fields: object) -> RecordedModel:
    """Record a small model in bfloat16."""
    return record_model(_SIZES | fields, {"half": HALF})


class Layers(nn.Module):
    """A stack of layers beside another."""

    def __init__(self, depth: int, other: int) -> None:
        """Make so many layers of each."""
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))
        self.encoder = nn.ModuleList(nn.Linear(2, 2) for _ in range(other))


def test_few_extents_determine_a_size_of_one_product() -> None:
    """Three are enough for a multiple of batch and length, and for no sum."""
    extents = (*FEW, PROVED)
    counts = [6 * extent.batch * extent.length for extent in extents]

    assert fit_size(counts, extents) == (0, 0, 0, 6, 0, 0)
    with pytest.raises(NoPolynomial):
        fit_size([count + 8 for count in counts], extents)


def test_a_model_shortened_elsewhere_is_not_its_first_layers() -> None:
    """An encoder may lose layers in place of the stack that was found."""
    model = Layers(6, 4)
    stack = find_stack(model)

    assert differs_in_depth_alone(model, Layers(3, 4), stack)
    assert not differs_in_depth_alone(model, Layers(6, 2), stack)
    assert not differs_in_depth_alone(model, Layers(3, 2), stack)


def test_norms_that_save_their_output_are_recorded() -> None:
    """Both hearings of Cohere meet the graph's nodes in another order."""
    recorded = record(model_type="cohere", num_hidden_layers=1)

    assert recorded.length_step == 1
    assert compute_peak(build_recorded(recorded), HALF, EXTENT) > 0


def test_a_recording_that_misses_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the model itself takes decides, and the message has both figures."""
    monkeypatch.setattr(check, "compute_peak", lambda *_: 1)

    with pytest.raises(Refusal, match="takes 1 bytes where the model itself takes"):
        record(model_type="llama", num_hidden_layers=1)


def test_layers_that_are_no_stack_are_recorded_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same bytes come of a program without layers that repeat."""
    fields = {"model_type": "llama", "num_hidden_layers": 1}
    stacked = record(**fields)

    def fail(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(recorder, "lower_pass", fail)
    flat = record(**fields)

    assert (len(stacked.order), len(flat.order)) == (1, 0)
    peaks = [compute_peak(build_recorded(part), HALF, EXTENT) for part in (stacked, flat)]
    assert peaks[0] == peaks[1]


def test_a_recording_that_misses_little_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are in its document and in the model's description."""
    monkeypatch.setattr(check, "compute_peak", lambda *passed: compute_peak(*passed) - 512)

    recorded = record(model_type="llama", num_hidden_layers=1)

    assert 512 <= recorded.difference <= 516
    assert decode_recording(encode_recording(recorded)).difference == recorded.difference
    description = build_recorded(recorded).describe()["recording"]
    assert isinstance(description, dict)
    assert description["difference"] == recorded.difference


def test_a_length_beyond_a_window_is_refused() -> None:
    """Masks of longer sequences were not recorded."""
    recorded = record(model_type="llama", num_hidden_layers=1)
    limited = replace(recorded, max_length=127, length_step=32)

    with pytest.raises(NotModelledError, match="up to 127"):
        compute_peak(build_recorded(limited), HALF, EXTENT)
    with pytest.raises(NotModelledError, match="multiples of 32"):
        compute_peak(build_recorded(limited), HALF, Extent(batch=2, length=100))


@pytest.mark.parametrize(("window", "longest"), [(4096, 4095), (16, 0), (None, 0)])
def test_the_window_of_a_config_limits_a_recording(window: int | None, longest: int) -> None:
    """One that all recorded passes exceed limits nothing."""
    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(sliding_window=window))

    assert find_longest(config, PROVED.length) == longest  # type: ignore[arg-type]  # all that is read
