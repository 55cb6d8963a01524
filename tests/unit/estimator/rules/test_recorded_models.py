"""What a recording cannot say is refused in words, never answered as if it could."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.estimate import estimate
from service.estimator.rules.violations import find_violation
from service.estimator.values.batches import SequencePacking
from service.estimator.values.errors import EstimatorError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.result import Detail
from service.estimator.values.workload import (
    Attention,
    Engine,
    Framework,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from tests.recordings import make_recorded

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


UNSUPPORTED: list[tuple[Workload, Layout]] = [
    *((serve(engine), layout) for engine in Engine for layout in (Layout(), RANKS)),
    (train(framework=Framework.MEGATRON), Layout()),
    (train(framework=Framework.TORCHTITAN), Layout()),
    (train(attention=Attention.EAGER), Layout()),
    (train(attention=Attention.EFFICIENT), Layout()),
    (train(loss=Loss.CHUNKED), Layout()),
    (train(loss=Loss.FUSED_LINEAR), Layout()),
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


@pytest.mark.parametrize("layout", [Layout(), Layout(data_parallel=2), FSDP2])
def test_training_in_transformers_is_answered(layout: Layout) -> None:
    """A recording is trained on one GPU and on ranks that share states."""
    answer = estimate(MODEL, train(), layout=layout, device=H100, detail=Detail.NUMBERS)

    assert answer.allocated_bytes > MODEL.weight_bytes(train().precision.param_dtype)
    assert find_violation(MODEL, train(), layout) is None
