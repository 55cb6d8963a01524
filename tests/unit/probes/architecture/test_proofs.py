"""Recordings that are proved, or refused, by passes that did not make them."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from torch import nn
from transformers import LlamaConfig

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import encode_recording
from service.estimator.model.recorded.recorded_model import RecordedModel
from service.estimator.tape.programs.recorded_pass import WHOLE, Domain
from service.estimator.values.errors import NotModelledError
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from tests.traces.recording import record_kept
from worker.probes.architecture import check
from worker.probes.architecture import record as recorder
from worker.probes.architecture.check import compute_peak
from worker.probes.architecture.depth import (
    differs_in_depth_alone,
    find_stack,
    list_needed,
)
from worker.probes.architecture.hearing import DoesNotRunError
from worker.probes.architecture.listening.listen import Extent, Variant, make_fake_model
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.pieces import list_thresholds
from worker.probes.architecture.polynomials import FEW, PROVED, NoPolynomial, fit_size
from worker.probes.architecture.record import record_model
from worker.probes.models.model_class import settle_config

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
_MINICPM3 = {
    "model_type": "minicpm3",
    "num_hidden_layers": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "scale_emb": 12,
    "dim_model_base": 16,
}
HALF = VARIANTS["half"]
EXTENT = Extent(batch=2, length=128)


def record(**fields: object) -> RecordedModel:
    """Record a small model in bfloat16."""
    return record_model(_SIZES | fields, {"half": HALF})


@cache
def record_layer() -> RecordedModel:
    """Return the recording of a model of one layer."""
    return record_kept(_SIZES | {"model_type": "llama", "num_hidden_layers": 1}, "half")


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

    places = (0, 1, 2)
    assert differs_in_depth_alone(model, Layers(3, 4), stack, places)
    assert not differs_in_depth_alone(model, Layers(6, 2), stack, places)
    assert not differs_in_depth_alone(model, Layers(3, 2), stack, places)


def test_rates_that_grow_from_layer_to_layer_make_no_kinds() -> None:
    """None and some do: a layer that drops nothing has no operator for it."""
    layers = [Layers(1, 1) for _ in range(5)]
    for place, layer in enumerate(layers):
        rates = {"drop_rate": place * 0.025, "residual_scale": 1.4 / 5**0.5}
        vars(layer).update(rates | {"num_hidden_layers": 5})
    model = nn.Module()
    model.layers = nn.ModuleList(layers)

    signatures = find_stack(model).signatures

    assert [signatures.index(signature) for signature in signatures] == [0, 1, 1, 1, 1]
    assert list(list_needed(signatures)) == [(0, 1, 2)]


def test_a_larger_tower_beside_the_shortened_stack_is_not_taken_for_it() -> None:
    """The stack of a short model is the one that was found in the long one."""
    model, short = Layers(6, 40), Layers(3, 40)
    stack = find_stack(model)

    assert find_stack(short).prefix != stack.prefix
    assert differs_in_depth_alone(model, short, stack, (0, 1, 2))


def test_what_a_head_divides_ends_with_the_forward_pass() -> None:
    """MiniCPM3 names what its head's input is made of until the loss is there."""
    recorded = record_kept(_SIZES | _MINICPM3, "half")

    assert recorded.passes["half"].has_plain_loss
    assert recorded.difference <= 4


def test_a_recording_has_as_many_weights_as_its_model() -> None:
    """Layers that share theirs, as Zamba's do, would count them each."""
    with pytest.raises(Refusal, match="share weights: 84 parameters"):
        check.check_weights(record_layer(), Layers(1, 2))


def test_layers_of_every_kind_are_enough() -> None:
    """The first of each kind and one more, else as many of the first as show all of them."""
    slow, fast = ("slow",), ("fast",)

    chosen = [
        list(list_needed(signatures))
        for signatures in ([slow] * 8, [slow, slow, slow, fast] * 2, [slow, slow, slow, fast])
    ]

    assert chosen == [
        [(0, 1, 2)],
        [(0, 3, 4), (0, 1, 2, 3, 4)],
        [(0, 1, 2, 3)],
    ]


def test_norms_that_save_their_output_are_recorded() -> None:
    """Both hearings of Cohere meet the graph's nodes in another order."""
    recorded = record_kept(_SIZES | {"model_type": "cohere", "num_hidden_layers": 1}, "half")

    assert recorded.passes["half"].domain == WHOLE
    assert compute_peak(build_recorded(recorded), HALF, EXTENT) > 0


def test_a_recording_that_misses_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the model itself takes decides, and the message has both figures."""
    monkeypatch.setattr(check, "compute_peak", lambda *_: 1)

    with pytest.raises(Refusal, match="takes 1 bytes where the model itself takes"):
        record(model_type="llama", num_hidden_layers=1)


def test_a_recording_whose_backward_breaks_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peak shows missing gradients on small batches alone."""
    monkeypatch.setattr(check, "sum_gradients", lambda *_: 1)

    with pytest.raises(Refusal, match="has gradients of 1 bytes where the model itself has"):
        record(model_type="llama", num_hidden_layers=1)


def test_sums_in_place_hand_gradients_to_what_they_add_to() -> None:
    """RoCBert adds two tables to a linear layer's output, through a view of it."""
    words = {"shape_vocab_size": 90, "pronunciation_vocab_size": 50}
    config = _SIZES | {"model_type": "roc_bert", "num_hidden_layers": 1} | words
    model, extent = build_recorded(record_kept(config, "half")), Extent(batch=1, length=11)

    with make_fake_model(config, settle_config(config), HALF) as fake:
        peak, gradients = check.trace_pass(fake, HALF, extent)

    assert 0 <= peak - compute_peak(model, HALF, extent) <= 4
    assert check.sum_gradients(model, HALF, extent) == gradients


def test_further_passes_that_miss_bytes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's training is answered all the same, and adapters are refused by name."""

    def compute(model: Architecture, variant: Variant, extent: Extent) -> int:
        return 1 if variant.is_further else compute_peak(model, variant, extent)

    monkeypatch.setattr(check, "compute_peak", compute)
    variants = {name: VARIANTS[name] for name in ("half", "half/frozen", "autocast")}

    recorded = record_model(_SIZES | {"model_type": "llama", "num_hidden_layers": 1}, variants)

    assert list(recorded.passes) == ["half"]
    with pytest.raises(
        NotModelledError, match="the pass half/frozen, which the recording of this model lacks"
    ):
        compute_peak(build_recorded(recorded), VARIANTS["half/frozen"], EXTENT)


def test_layers_that_are_no_stack_are_recorded_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same bytes come of a program without layers that repeat."""
    stacked = record_layer()

    def fail(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(recorder, "lower_pass", fail)
    flat = record(model_type="llama", num_hidden_layers=1)

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
    recorded = record_layer()
    domain = Domain(max_length=127, multiple_of=32)
    part = replace(recorded.passes["half"], domain=domain)
    limited = replace(recorded, passes={"half": part})

    with pytest.raises(NotModelledError, match="multiples of 32 up to 127"):
        compute_peak(build_recorded(limited), HALF, EXTENT)
    with pytest.raises(NotModelledError, match="100 tokens of a recording that is exact at"):
        compute_peak(build_recorded(limited), HALF, Extent(batch=2, length=100))
    assert compute_peak(build_recorded(limited), HALF, Extent(batch=2, length=96)) > 0


def test_numbers_of_a_config_at_which_a_model_may_turn() -> None:
    """Windows and chunks are among them, counts of layers and heads are not."""
    config = LlamaConfig()
    vars(config).update(sliding_window=4096, max_window_layers=28, mamba_chunk_size=256)

    assert list_thresholds(config) == (256, 4096)


def test_a_format_in_which_a_model_does_not_run_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the others say stays; without any the failure is told."""
    lower = recorder.Recorder.lower

    def fail_in_half(self: Any, name: str, *args: Any) -> Any:  # noqa: ANN401 - whatever lower takes
        if name == "half":
            raise DoesNotRunError(FailureKind.UNSUPPORTED, "no kernel in bfloat16")
        return lower(self, name, *args)

    monkeypatch.setattr(recorder.Recorder, "lower", fail_in_half)
    config = _SIZES | {"model_type": "llama", "num_hidden_layers": 1}
    variants = {"half": HALF, "fp32": VARIANTS["fp32"]}

    assert list(record_model(config, variants).passes) == ["fp32"]
    with pytest.raises(Refusal, match="no kernel in bfloat16"):
        record_model(config, {"half": HALF})


def test_code_that_reads_its_input_is_refused_in_words() -> None:
    """X-MOD chooses the rows of each language's adapter."""
    config = _SIZES | {
        "model_type": "xmod",
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "default_language": "en_XX",
    }

    with pytest.raises(Refusal, match=r"reads values of its input \(aten.nonzero.default\)"):
        record_model(config, {"half": HALF})
