"""A policy's settings as notes for its script.

Names are those of TRL 1.16 (``trl/trainer/grpo_config.py``).
"""

from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.losses import LOG_PROB_LOSSES
from service.estimator.values.workload import TrainWorkload

_SLEEP_LEVEL = 2
"""The one that TRL's ``vllm_enable_sleep_mode`` asks for."""


def list_policy_notes(workload: TrainWorkload) -> list[str]:
    """Return notes on a policy's reference, loss and rollout."""
    beta = "0.0, and no reference" if workload.reference is None else "above 0"
    notes = [f"the script sets GRPOConfig(beta) {beta}"]
    if workload.completion_length is not None:
        notes.append(f"the script sets max_completion_length={workload.completion_length}")
    if workload.loss not in LOG_PROB_LOSSES:
        notes.append(f"loss {workload.loss} is another trainer's: GRPOTrainer has one of its own")
    return [*notes, _describe_rollout(workload.rollout)]


def _describe_rollout(rollout: Rollout | None) -> str:
    if rollout is None:
        return 'the script sets use_vllm=True, vllm_mode="server": the engine has its own GPUs'
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return "the script leaves use_vllm false: the policy generates by itself"
    if rollout.engine is not RolloutEngine.VLLM or rollout.own_process:
        return f"GRPOTrainer runs no {rollout.engine} in a process of its own: the script does"
    settings = {
        "vllm_gpu_memory_utilization": rollout.gpu_memory_fraction,
        "vllm_max_model_length": rollout.max_model_len,
        "vllm_tensor_parallel_size": rollout.tensor_parallel,
        "vllm_enable_sleep_mode": rollout.sleep_level == _SLEEP_LEVEL,
    }
    words = ", ".join(f"{name}={value}" for name, value in settings.items() if value is not None)
    return f'the script sets use_vllm=True, vllm_mode="colocate", {words}'
