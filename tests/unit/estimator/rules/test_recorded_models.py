"""What a recording cannot say is refused in words, never answered as if it could."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.recorded_models import load_recorded_architecture
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.recorded import engine_models
from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.model.recorded.recorded_model import RecordedModel
from service.estimator.rules.violations import find_violation
from service.estimator.tape.programs.recorded_pass import Domain
from service.estimator.values.batches import SequencePacking
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.result import Detail
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Engine,
    Framework,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.usecases.recordings.documents import read_document
from tests.builders import a_model
from tests.recordings import make_document, make_recorded

MODEL = make_recorded()
H100 = resolve_gpu("H100-SXM5-80GB").to_device()
FSDP2 = Layout(data_parallel=2, sharding=Sharding.FSDP2, zero_stage=3)
RANKS = Layout(tensor_parallel=2)


def train(**fields: object) -> TrainWorkload:
    """Return a step of one sequence."""
    return TrainWorkload(sequence_length=128, **fields)  # type: ignore[arg-type]  # fields of a step


def serve(engine: Engine) -> ServeWorkload:
    """Return a replica of one sequence."""
    return ServeWorkload(num_sequences=1, prompt_tokens=64, output_tokens=8, engine=engine)


OWN_MODELS = (Engine.TENSORRT_LLM, Engine.LLAMA_CPP)
"""Engines that run models of their own code alone, and none of helium's class."""
UNSUPPORTED: list[tuple[Workload, Layout]] = [
    *((serve(engine), layout) for engine in OWN_MODELS for layout in (Layout(), RANKS)),
    (serve(Engine.TRANSFORMERS), RANKS),
    (serve(Engine.TRANSFORMERS), Layout(pipeline_parallel=2)),
    (replace(serve(Engine.TRANSFORMERS), attention=Attention.EAGER), Layout()),
    (train(framework=Framework.MEGATRON), Layout()),
    (train(framework=Framework.TORCHTITAN), Layout()),
    (train(attention=Attention.EAGER), Layout()),
    (train(attention=Attention.EFFICIENT), Layout()),
    (train(padding_mask=True), Layout()),
    (train(packing=SequencePacking.PACKED), Layout()),
    (train(frozen=("embedding",)), Layout()),
    (train(), RANKS),
    (train(), replace(FSDP2, tensor_parallel=2)),
    (train(), replace(FSDP2, context_parallel=2)),
    (train(), Layout(pipeline_parallel=3)),
]


@pytest.mark.parametrize("family", ["helium", "llama"])
@pytest.mark.parametrize(("workload", "layout"), UNSUPPORTED)
def test_what_a_recording_has_not_is_refused(
    workload: Workload, layout: Layout, family: str
) -> None:
    """The same for a recording of a type that a module is written for; the planner agrees."""
    model = replace(MODEL, spec=replace(MODEL.spec, family=family))

    with pytest.raises(EstimatorError) as refusal:
        estimate(model, workload, layout=layout, device=H100, detail=Detail.NUMBERS)

    assert isinstance(refusal.value, NotModelledError)
    assert find_violation(model, workload, layout) is not None


def limit_recording(model: RecordedArchitecture, domain: Domain) -> RecordedArchitecture:
    """Return a recording that holds in a domain alone."""
    passes = {name: replace(part, domain=domain) for name, part in model.recorded.passes.items()}
    return build_recorded(replace(model.recorded, passes=passes))


@pytest.mark.parametrize("layout", [Layout(), Layout(data_parallel=2), FSDP2])
def test_training_in_transformers_is_answered(layout: Layout) -> None:
    """A recording is trained on one GPU and on ranks that share states."""
    answer = estimate(MODEL, train(), layout=layout, device=H100, detail=Detail.NUMBERS)

    assert answer.allocated_bytes > MODEL.weight_bytes(train().precision.param_dtype)
    assert find_violation(MODEL, train(), layout) is None


@pytest.mark.parametrize("sharding", [Sharding.FSDP1, Sharding.FSDP2])
def test_an_encoder_whose_layers_are_not_told_apart_is_refused(sharding: Sharding) -> None:
    """FSDP wraps its layers too, and would gather them with the root; DeepSpeed has no units."""
    whole = load_recorded_architecture("plbart-default")
    assert isinstance(whole, RecordedArchitecture)
    model = replace(whole, divides_prologue=False)
    layout = replace(FSDP2, sharding=sharding)
    other = replace(FSDP2, sharding=Sharding.DEEPSPEED)

    with pytest.raises(NotModelledError, match="whose encoder's layers are no units"):
        estimate(model, train(), layout=layout, device=H100, detail=Detail.NUMBERS)
    assert find_violation(model, train(), layout) is not None
    assert estimate(model, train(), layout=other, device=H100).allocated_bytes
    assert find_violation(model, train(), other) is None


def test_serving_in_transformers_needs_passes_with_a_cache() -> None:
    """A recording that has them is served, and one of training alone is refused.

    Engines have code of their own, and ask what the cache keeps.
    """
    passes = {name: part for name, part in MODEL.recorded.passes.items() if "/" not in name}
    trained = replace(MODEL, recorded=replace(MODEL.recorded, passes=passes))

    answers = [
        estimate(model, serve(engine), layout=Layout(), device=H100, detail=Detail.NUMBERS)
        for model, engine in (
            *((MODEL, engine) for engine in (Engine.TRANSFORMERS, Engine.VLLM, Engine.SGLANG)),
            *((trained, engine) for engine in (Engine.VLLM, Engine.SGLANG)),
        )
    ]

    assert all(answer.allocated_bytes > MODEL.weight_bytes(DType.BF16) for answer in answers)
    with pytest.raises(NotModelledError, match="no pass that serves"):
        estimate(trained, serve(Engine.TRANSFORMERS), layout=Layout(), device=H100)


@pytest.mark.parametrize("engine", [Engine.LMDEPLOY, Engine.TGI])
def test_engines_of_few_families_refuse_a_recording_of_another(engine: Engine) -> None:
    """They name the families that they have."""
    with pytest.raises(NotModelledError, match="with helium") as refusal:
        estimate(MODEL, serve(engine), layout=Layout(), device=H100)

    assert "llama" in str(refusal.value)


def test_one_sequence_is_refused_where_it_takes_other_tensors() -> None:
    """A recording of several says nothing of it; two are answered."""
    several = limit_recording(MODEL, Domain(min_batch=2))

    with pytest.raises(NotModelledError, match="one sequence"):
        estimate(several, train(), layout=Layout(), device=H100)

    assert estimate(several, train(micro_batch_size=2), layout=Layout(), device=H100)


def test_a_served_sequence_stays_below_the_window() -> None:
    """The prompt and what is generated count, in transformers, whose passes were recorded."""
    windowed = limit_recording(MODEL, Domain(max_length=71))

    with pytest.raises(NotModelledError, match="up to 71, below the window"):
        estimate(windowed, serve(Engine.TRANSFORMERS), layout=Layout(), device=H100)

    assert estimate(windowed, serve(Engine.VLLM), layout=Layout(), device=H100)


def test_recordings_of_equal_numbers_share_no_answer() -> None:
    """A server keeps answers by a model's numbers, which strangers' recordings may repeat."""
    document = make_document()
    document["sizes"] = [[2 * part for part in size] for size in document["sizes"]]
    twice, plans = read_document(document), PlanCache()

    first, second = (
        estimate(model, train(), layout=Layout(), device=H100, plans=plans)
        for model in (MODEL, twice)
    )

    assert second == estimate(twice, train(), layout=Layout(), device=H100)
    assert second.allocated_bytes > first.allocated_bytes


def test_a_loss_of_its_own_takes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of logits are those of a head whose cross entropy is the loss."""
    monkeypatch.setattr(RecordedModel, "has_plain_loss", property(lambda _self: False))

    with pytest.raises(NotModelledError, match="a loss of its own"):
        estimate(MODEL, train(loss=Loss.CHUNKED), layout=Layout(), device=H100)


def test_a_recording_without_layers_has_no_checkpoints() -> None:
    """Layers that are no stack run as one program, none of which is run again."""
    flat = replace(MODEL, recorded=replace(MODEL.recorded, layers=(), order=()))
    workload = train(activation_checkpointing=Checkpointing.FULL)

    with pytest.raises(NotModelledError, match="without layers to recompute"):
        estimate(flat, workload, layout=Layout(), device=H100)

    assert find_violation(flat, workload, Layout()) is not None
    assert find_violation(flat, train(), Layout()) is None


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_a_written_family_asks_no_registry(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engines' classes are read for recordings alone."""

    def fail() -> None:
        message = "the registries were read"
        raise AssertionError(message)

    monkeypatch.setattr(engine_models, "load_engine_models", fail)

    assert estimate(a_model(), serve(engine), layout=Layout(), device=H100).allocated_bytes
    with pytest.raises(AssertionError, match="registries"):
        estimate(MODEL, serve(engine), layout=Layout(), device=H100)
