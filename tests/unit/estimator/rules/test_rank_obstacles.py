"""Which layouts a probe can run one rank of."""

import pytest

from service.estimator.rules.obstacles import find_rank_obstacles, is_distributed
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import Lora, Method, ServeWorkload, TrainWorkload, Workload

TRAIN = TrainWorkload(sequence_length=64, precision=POLICIES["bf16"])
ADAPTED = TrainWorkload(sequence_length=64, method=Method.LORA, lora=Lora(rank=8))
SERVE = ServeWorkload(num_sequences=1, prompt_tokens=64)
FSDP2 = {"sharding": Sharding.FSDP2, "zero_stage": 3}
FP32_GRADIENTS = TrainWorkload(
    sequence_length=64,
    precision=Precision(
        name="custom",
        param_dtype=DType.BF16,
        compute_dtype=DType.BF16,
        grad_dtype=DType.FP32,
        optimizer_dtype=DType.FP32,
    ),
)


@pytest.mark.parametrize(
    ("layout", "workload"),
    [
        (Layout(), TRAIN),
        (Layout(data_parallel=8), TRAIN),
        (Layout(data_parallel=8, **FSDP2), ADAPTED),  # type: ignore[arg-type]  # fields by name
        (Layout(tensor_parallel=2), TRAIN),
        (Layout(data_parallel=4, tensor_parallel=2, **FSDP2), TRAIN),  # type: ignore[arg-type]  # fields by name
        (Layout(tensor_parallel=2), SERVE),
    ],
)
def test_replicas_shards_and_splits_can_be_run(layout: Layout, workload: Workload) -> None:
    """Nothing stands in the way of data-parallel, fully sharded and tensor-parallel ranks."""
    assert list(find_rank_obstacles(layout, workload)) == []


@pytest.mark.parametrize(
    ("layout", "workload", "field", "words"),
    [
        (Layout(pipeline_parallel=2), TRAIN, "layout.pipeline_parallel", "stage"),
        (Layout(context_parallel=2), TRAIN, "layout.context_parallel", "sequences"),
        (Layout(data_parallel=2, expert_parallel=2), TRAIN, "layout.expert_parallel", "experts"),
        (
            Layout(data_parallel=2, tensor_parallel=2, expert_tensor_parallel=1, **FSDP2),  # type: ignore[arg-type]  # fields by name
            TRAIN,
            "layout.expert_tensor_parallel",
            "is 2 or left out",
        ),
        (
            Layout(tensor_parallel=2, sequence_parallel=True),
            TRAIN,
            "layout.sequence_parallel",
            "replicate",
        ),
        (
            Layout(data_parallel=2, sharding=Sharding.FSDP1, zero_stage=3),
            TRAIN,
            "layout.sharding",
            "flat",
        ),
        (
            Layout(data_parallel=2, sharding=Sharding.DEEPSPEED, zero_stage=3),
            TRAIN,
            "layout.sharding",
            "deepspeed",
        ),
        (
            Layout(data_parallel=2, sharding=Sharding.MEGATRON, zero_stage=1),
            TRAIN,
            "layout.sharding",
            "Megatron",
        ),
        (Layout(data_parallel=2, tensor_parallel=2), TRAIN, "layout.sharding", "fsdp2"),
        (Layout(tensor_parallel=2), ADAPTED, "layout.tensor_parallel", "adapters"),
        (Layout(data_parallel=2, **FSDP2), FP32_GRADIENTS, "workload.precision.grad_dtype", "bf16"),  # type: ignore[arg-type]  # fields by name
        (Layout(data_parallel=2), SERVE, "layout.data_parallel", "each for itself"),
        (Layout(tensor_parallel=2, **FSDP2), SERVE, "layout.sharding", "tensor_parallel alone"),  # type: ignore[arg-type]  # fields by name
    ],
)
def test_what_has_no_rank_to_run_is_refused_by_its_field(
    layout: Layout, workload: Workload, field: str, words: str
) -> None:
    """Each obstacle names the field and says why, or what would be right."""
    [(named, message)] = find_rank_obstacles(layout, workload)

    assert named == field
    assert words in message


def test_fully_sharded_runs_other_code_even_on_one_rank() -> None:
    """FSDP2 gathers on a single rank as well; DDP on one rank is the plain loop."""
    assert is_distributed(Layout(**FSDP2))  # type: ignore[arg-type]  # fields by name
    assert not is_distributed(Layout())
