"""Engines answer for a recording as for the family that is written by hand.

Recordings here have layers, caches and plans as the recorder hears them, and no pass: an engine
asks for none.
"""

from dataclasses import replace
from functools import cache

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.model.recorded.recorded_model import CachedHeads, CacheParts
from service.estimator.rules.violations import find_violation
from service.estimator.values.errors import EstimatorError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Basis, Detail, Estimate
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from tests.recordings import change_layers, make_recorded
from tests.tiny_models import tiny_config
from tests.unit.estimator.backends.engines.layouts import record_layout

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
CHANGES = {"mixtral": {"sliding_window": None}}
"""What the written family takes for said where a config leaves it out."""
LENGTHS = {"jamba": 2048}
"""Longest sequences, of a written family that reads no positions."""
OWN = (Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM, Engine.LLAMA_CPP)
FAMILIES = {
    "llama": OWN,
    "qwen2": OWN,
    "mixtral": OWN,
    "qwen3_moe": OWN,
    "deepseek_v3": OWN,
    "gpt_oss": (Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM),
    "gemma3_text": OWN,
    "cohere2": OWN,
    "bloom": (Engine.VLLM, Engine.LLAMA_CPP),
    "opt": (Engine.VLLM,),
    "phi3": OWN,
    "olmo3": (Engine.VLLM, Engine.LLAMA_CPP),
    "jamba": (Engine.VLLM,),
    "mamba2": (Engine.VLLM, Engine.SGLANG),
    "falcon_mamba": (Engine.VLLM, Engine.SGLANG),
    "qwen3_next": (Engine.VLLM, Engine.SGLANG),
}
"""Latents, windows, experts, states and both, and the engines that have the family."""
RANKS = Layout(tensor_parallel=2)
LAYOUTS = (Layout(), RANKS, Layout(pipeline_parallel=2))
EXPERTS = (
    Layout(data_parallel=2, expert_parallel=2),
    Layout(tensor_parallel=2, expert_parallel=2, expert_tensor_parallel=1),
)


@cache
def record(family: str) -> RecordedArchitecture:
    """Record the layers of a small model."""
    return record_layout(dict(tiny_config(family)) | CHANGES.get(family, {}))


def serve(engine: Engine, **fields: object) -> ServeWorkload:
    """Return a replica of a few sequences."""
    return ServeWorkload(
        num_sequences=4,
        prompt_tokens=200,
        output_tokens=50,
        engine=engine,
        **fields,  # type: ignore[arg-type]  # fields of a replica
    )


def describe(answer: Estimate) -> list[object]:
    """Return an answer's numbers, intervals among them."""
    return [
        answer.allocated_bytes,
        answer.reserved_bytes,
        answer.device_bytes,
        answer.steady_bytes,
        answer.host_bytes_per_node,
        answer.peak_instant,
        answer.instants,
        answer.stages,
        answer.serving,
        (answer.allocated_interval, answer.reserved_interval, answer.device_interval),
        [(part.name, part.bytes) for part in answer.components],
    ]


def ask(
    model: object, workload: ServeWorkload, layout: Layout
) -> list[object] | type[EstimatorError]:
    """Return an answer's numbers, or the kind of its refusal."""
    try:
        return describe(estimate(model, workload, layout=layout, device=H100))  # type: ignore[arg-type]  # either tree
    except EstimatorError as error:
        return type(error)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_an_engine_makes_the_same_of_a_recording(family: str) -> None:
    """Weights, pools, states, graphs and buffers are equal to the byte, on one GPU and on ranks;
    recorded states have no term of ranks that share them.
    """
    written = architecture_from_config(dict(tiny_config(family)) | CHANGES.get(family, {}))
    recorded = record(family)
    layouts = (*LAYOUTS, *EXPERTS) if written.spec.num_experts else LAYOUTS
    length = LENGTHS.get(family)
    cases = [
        (serve(engine, max_model_len=length), layout)
        for engine in FAMILIES[family]
        for layout in layouts
        if not (written.recurrent and layout.tensor_parallel > 1)
    ]

    answers = [(case, ask(recorded, *case), ask(written, *case)) for case in cases]

    assert [case for case, ours, theirs in answers if ours != theirs] == []
    assert any(isinstance(ours, list) for _, ours, _ in answers)


@pytest.mark.parametrize("quantization", [Quantization.FP8, Quantization.AWQ_INT4])
def test_an_engine_packs_the_weights_of_a_recording(quantization: Quantization) -> None:
    """Linear layers and stacks of experts are packed, routers and norms are not."""
    workload = serve(Engine.VLLM, quantization=quantization)
    written = architecture_from_config(dict(tiny_config("qwen3_moe")))

    answers = [ask(model, workload, Layout()) for model in (record("qwen3_moe"), written)]

    assert answers[0] == answers[1]
    assert isinstance(answers[0], list)


def test_what_an_engine_runs_of_an_unwritten_type_has_an_interval() -> None:
    """Its weights and its pool are exact, the tensors of a step are not: nobody read its code."""
    parts = {
        part.name: part
        for part in estimate(
            HELIUM, serve(Engine.VLLM), layout=Layout(), device=H100, detail=Detail.FULL
        ).components
    }

    assert parts["weights"].basis is Basis.EXACT
    assert parts["activations"].basis is Basis.FORMULA


HELIUM = make_recorded()
PLAN = (
    *(((f"self_attn.{name}_proj", "colwise")) for name in ("q", "k", "v")),
    ("self_attn.o_proj", "rowwise"),
)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_a_class_without_code_in_an_engine_runs_by_transformers(engine: Engine) -> None:
    """Ranks split what its plan names: of a plan of attention, feed-forwards stay whole."""
    one, two = (
        estimate(change_layers(HELIUM, plan=PLAN), serve(engine), layout=layout, device=H100)
        for layout in (Layout(), RANKS)
    )

    hidden, inner, width = 64, 160, 2
    attention = (64 + 32 + 32 + 64) * hidden
    table = 1000 * hidden
    saved = one.instants[0].allocated_bytes - two.instants[0].allocated_bytes
    padding = (1024 - 1000) * hidden * 2
    assert saved == width * (9 * attention // 2 + table + padding // 2)
    assert inner * hidden > 0


def test_a_class_without_a_plan_is_not_split() -> None:
    """VLLM refuses it as well, and the refusal names what would be right."""
    model = change_layers(HELIUM, plan=())

    with pytest.raises(NotModelledError, match="no tensor-parallel plan"):
        estimate(model, serve(Engine.VLLM), layout=RANKS, device=H100)

    assert find_violation(model, serve(Engine.VLLM), RANKS) is not None


@pytest.mark.parametrize("engine", [Engine.TENSORRT_LLM, Engine.LLAMA_CPP])
def test_a_class_that_an_engine_lacks_is_refused_by_its_release(engine: Engine) -> None:
    """The refusal says who serves it."""
    with pytest.raises(NotModelledError, match="HeliumForCausalLM, of which it has no model") as no:
        estimate(HELIUM, serve(engine), layout=Layout(), device=H100)

    assert "engine vllm (--model-impl transformers)" in str(no.value)


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        (CacheParts(other="DeepseekV4CSACache"), "DeepseekV4CSACache"),
        (
            CacheParts(caches=(CachedHeads(num_heads=1, key_size=8, value_size=8, index_size=8),)),
            "index of their keys",
        ),
        (CacheParts(), "no cache, as models have"),
    ],
)
def test_layers_that_keep_what_nobody_counts_are_refused(cache: CacheParts, message: str) -> None:
    """The words say which part has no term."""
    with pytest.raises(NotModelledError, match=message):
        estimate(
            change_layers(HELIUM, cache=cache), serve(Engine.VLLM), layout=Layout(), device=H100
        )


def test_ranks_that_divide_no_layer_are_refused() -> None:
    """The refusal names the layer and the ranks that would do."""
    with pytest.raises(InvalidInputError, match="tensor_parallel 3 does not divide"):
        estimate(record("llama"), serve(Engine.VLLM), layout=Layout(tensor_parallel=3), device=H100)


def test_a_class_that_was_dropped_is_served_by_older_releases() -> None:
    """The registry says which release was the last."""
    dropped = replace(
        record("llama"),
        recorded=replace(record("llama").recorded, model_class="Dots1ForCausalLM"),
    )

    with pytest.raises(NotModelledError, match=r"served until 0\.23\.0"):
        estimate(dropped, serve(Engine.VLLM), layout=Layout(), device=H100)

    older = serve(Engine.VLLM, engine_version="0.23.0")
    assert estimate(dropped, older, layout=Layout(), device=H100).allocated_bytes > 0
