"""Recordings of transformers' own code, held against the families that are written by hand."""

import json
from dataclasses import replace
from functools import cache

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import encode_recording
from service.estimator.model.recorded.recorded_model import CachedHeads, CacheParts, RecordedModel
from service.estimator.passes.config import TrainingPass
from service.estimator.passes.recorder import log_training
from service.estimator.speed.throughput import WorkCache, estimate_throughput
from service.estimator.tape.programs.program import Action, Operation
from service.estimator.tape.sizes import evaluate, evaluate_monomials
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Engine,
    Lora,
    Method,
)
from service.probing.refusal import Refusal
from tests.builders import a_device, a_serving, a_sharded_layout, a_training
from tests.tiny_models import tiny_config
from tests.traces.recording import record_kept
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.polynomials import EXTENTS, fit_size
from worker.probes.architecture.record import record_model

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 9,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}
FORMATS = {
    "half": (DType.BF16, None),
    "autocast": (DType.FP32, DType.BF16),
    "fp32": (DType.FP32, None),
}


@cache
def record(formats: str) -> RecordedModel:
    """Return the model's recording in one variant."""
    return record_kept(CONFIG, formats)


@cache
def record_phases(caller: str) -> RecordedModel:
    """Return the recording of what the model does in serving."""
    return record_kept(CONFIG, f"half/{caller}prefill", f"half/{caller}decode")


def compute_peak(model: Architecture, settings: TrainingPass) -> tuple[int, int]:
    """Return the highest live bytes of a micro batch, and those that stay."""
    events = log_training(model, settings)
    values = evaluate_monomials(4, 256)
    sizes = [evaluate(size, values) for size in events.sizes]
    live = highest = 0
    for event in events.order:
        live += sizes[events.kinds[event]] if event >= 0 else -sizes[events.kinds[~event]]
        highest = max(highest, live)
    return highest, live


def make_pass(
    formats: str, checkpointing: Checkpointing, *, lora: Lora | None = None
) -> TrainingPass:
    """Return the settings of a step in number formats."""
    dtype, autocast = FORMATS[formats]
    return TrainingPass(
        param_dtype=dtype,
        autocast=autocast,
        trains_all=lora is None,
        lora=lora,
        checkpointing=checkpointing,
        attention=Attention.SDPA,
        keeps_logits=True,
        accumulating=False,
    )


@pytest.mark.parametrize("checkpointing", [Checkpointing.NONE, Checkpointing.FULL])
@pytest.mark.parametrize("formats", list(FORMATS))
def test_a_recording_takes_the_bytes_of_the_written_family(
    formats: str, checkpointing: Checkpointing
) -> None:
    """Both give the same peak at an extent and a depth that made neither of them."""
    recorded = build_recorded(record(formats))

    settings = make_pass(formats, checkpointing)

    assert compute_peak(recorded, settings) == compute_peak(
        architecture_from_config(CONFIG), settings
    )


def test_layers_with_states_of_their_own_are_of_one_kind() -> None:
    """Each layer of a delta rule reads what the cache keeps of it."""
    recorded = record_kept(tiny_config("qwen3_next"), "half/decode")

    assert recorded.order == (0, 0, 0, 1)
    assert len(recorded.passes["half/decode"].blocks) == 2


def test_buffers_of_a_backward_are_there_together() -> None:
    """Flash attention's kernel has four where heads are grouped, beside its three outputs."""
    (block,) = record("half").passes["half"].blocks
    nodes = [n for step in block.instructions if isinstance(step, Operation) for n in step.nodes]
    attention = next(node for node in nodes if node.name.startswith("ScaledDotProductFlash"))

    assert [event.action for event in attention.events] == [Action.ALLOCATE] * 7 + [Action.FREE] * 4


@pytest.mark.parametrize("checkpointing", [Checkpointing.NONE, Checkpointing.FULL])
def test_adapters_on_a_recording_take_the_bytes_of_the_written_family(
    checkpointing: Checkpointing,
) -> None:
    """Linear layers carry adapters by their names."""
    recorded = build_recorded(record("half/frozen"))
    settings = make_pass("half", checkpointing, lora=Lora(rank=8, targets=("q_proj", "v_proj")))

    assert compute_peak(recorded, settings) == compute_peak(
        architecture_from_config(CONFIG), settings
    )


_HALF, _FROZEN, _AUTOCAST = "half", "half/frozen", "autocast"
QUESTIONS = {
    "full": (_HALF, a_training(), Layout()),
    "autocast": (_AUTOCAST, a_training(precision="amp_bf16"), Layout()),
    "checkpointing": (
        _HALF,
        a_training(activation_checkpointing=Checkpointing.FULL),
        Layout(),
    ),
    "lora": (_FROZEN, a_training(method=Method.LORA, lora=Lora(rank=8)), Layout()),
    "qlora": (_FROZEN, a_training(method=Method.QLORA, lora=Lora(rank=8)), Layout()),
    "sharded": (_HALF, a_training(), a_sharded_layout(8)),
    "chunked": (_HALF, a_training(loss=Loss.CHUNKED_NLL), Layout()),
}
"""Variants that questions need, and the questions."""


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_a_recording_answers_as_the_written_family(name: str) -> None:
    """Instants, components, reserved bytes and intervals are equal; only a time is missing."""
    variant, workload, layout = QUESTIONS[name]

    answers = [
        estimate(model, workload, layout=layout, device=a_device())
        for model in (build_recorded(record(variant)), architecture_from_config(CONFIG))
    ]

    assert answers[0] == answers[1]


@pytest.mark.parametrize(("client", "caller"), [(Client.LOOP, ""), (Client.GENERATE, "generate/")])
def test_a_recording_serves_as_the_written_family(client: Client, caller: str) -> None:
    """Prefill, decode and what the cache keeps are equal, at lengths that were not recorded."""
    workload = replace(
        a_serving(num_sequences=4, prompt_tokens=700, output_tokens=100), client=client
    )
    recorded = record_phases(caller)

    answers = [
        estimate(model, workload, layout=Layout(), device=a_device())
        for model in (build_recorded(recorded), architecture_from_config(CONFIG))
    ]

    assert answers[0] == answers[1]
    assert decode_recording(encode_recording(recorded)).layers[0].cache_elements == 64


def test_a_recording_is_timed_as_the_written_family() -> None:
    """It counts what was dispatched, the family what its formulas make: 2% of a small step."""
    recorded = build_recorded(record_kept(CONFIG, "half", "half/prefill"))
    written, device = architecture_from_config(CONFIG), resolve_gpu("A100-SXM4-80GB").to_device()
    answer = estimate(written, a_training(), layout=Layout(), device=device)

    times = [
        estimate_throughput(model, a_training(), Layout(), device, answer, WorkCache())
        for model in (recorded, written)
    ]

    assert times[0] is not None
    assert times[1] is not None
    assert times[0].step_time_s == pytest.approx(times[1].step_time_s, rel=0.02)


def test_engines_answer_for_a_recording_as_for_the_written_family() -> None:
    """What an engine makes of a model are its weights and what its caches keep."""
    recorded = record_phases("")
    workload = replace(a_serving(), engine=Engine.VLLM, cache=Cache.PAGED, client=Client.GENERATE)

    answers = [
        estimate(model, workload, layout=Layout(), device=a_device())
        for model in (build_recorded(recorded), architecture_from_config(CONFIG))
    ]

    assert answers[0] == answers[1]


def test_a_recording_counts_what_the_model_has() -> None:
    """Weights outside of the layers and in each of them are counted once."""
    recorded, written = build_recorded(record("half")), architecture_from_config(CONFIG)

    assert recorded.counts.total == written.counts.total
    assert recorded.num_hidden_layers == 9
    assert recorded.head_unit_elements > 0


def test_a_document_holds_all_of_a_recording() -> None:
    """What was written as JSON is read back equal."""
    recorded = record_model(CONFIG, {"half": VARIANTS["half"]})
    document = json.loads(json.dumps(encode_recording(recorded)))

    again = decode_recording(document)

    assert encode_recording(again) == document
    assert again.passes == recorded.passes
    assert again.layers == recorded.layers
    assert again.outer_plan == recorded.outer_plan
    assert dict(again.layers[0].plan)["self_attn.q_proj"] == "colwise"
    assert again.layers[0].cache == CacheParts(
        caches=(CachedHeads(num_heads=2, key_size=16, value_size=16),)
    )


def test_a_size_that_is_no_polynomial_is_refused() -> None:
    """The extent that no coefficient was fitted to proves each of them."""
    counts = [extent.batch * extent.length * 6 for extent in EXTENTS]
    assert fit_size(counts) == (0, 0, 0, 6, 0, 0)

    counts[-1] += 1

    with pytest.raises(Refusal, match="no polynomial"):
        fit_size(counts)
