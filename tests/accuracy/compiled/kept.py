"""Bytes that a compiled step of small models keeps for backward, per token and layer."""

from service.catalog.gpus import resolve_gpu
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Detail
from service.estimator.values.workload import TrainWorkload

POLICIES_KEPT = {"amp_bf16": True, "bf16": False}
"""Policies, and whether their weights are fp32 under autocast."""
SIZES = {
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 32,
    "intermediate_size": 1024,
    "vocab_size": 1000,
}
LENGTH = 64


def count_answered(family: str, policy: str, *, compiled: bool = True) -> float:
    """Return the bytes that one more layer keeps of one more token, as answered."""
    device = resolve_gpu("H100-SXM5-80GB").to_device()

    def measure(num_layers: int, batch: int) -> int:
        config = {**SIZES, "model_type": family, "num_hidden_layers": num_layers}
        workload = TrainWorkload(
            sequence_length=LENGTH,
            micro_batch_size=batch,
            precision=POLICIES[policy],
            compile=compiled,
            optimizer="sgd",
        )
        answer = estimate(
            architecture_from_config(config),
            workload,
            layout=Layout(),
            device=device,
            detail=Detail.NUMBERS,
        )
        return answer.allocated_bytes

    more = measure(3, 64) - measure(2, 64)
    fewer = measure(3, 32) - measure(2, 32)
    return (more - fewer) / (32 * LENGTH)
