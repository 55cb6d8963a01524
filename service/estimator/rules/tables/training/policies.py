"""Rules of policies, and of the engine that generates beside their trainer."""

from service.estimator.rules.grammar.conditions import all_of, is_given, is_in, satisfies
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import get_training
from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.layout import MAX_ZERO_STAGE
from service.estimator.values.losses import Loss, Trainer
from service.estimator.values.workload import Method

_POLICY = is_in(workload.trainer, Trainer.GRPO)
_ROLLOUT = is_given(workload.rollout)


def _get_rollout(case: Case) -> Rollout:
    rollout = get_training(case).rollout
    assert rollout is not None  # noqa: S101 - its rules ask whether there is one
    return rollout


def _is_divisible(case: Case) -> bool:
    return case.layout.num_gpus % _get_rollout(case).tensor_parallel == 0


def _has_whole_weights(case: Case) -> bool:
    is_sharded = case.layout.zero_stage == MAX_ZERO_STAGE and case.layout.shards > 1
    return _get_rollout(case).engine is not RolloutEngine.TRANSFORMERS or not is_sharded


def _reads_weights(case: Case) -> bool:
    in_process = _get_rollout(case).engine is RolloutEngine.TRANSFORMERS
    return in_process or get_training(case).method is not Method.QLORA


POLICIES = (
    Rule(
        when=_POLICY,
        require=is_in(
            workload.loss,
            *(Loss.CHUNKED_NLL, Loss.NLL, Loss.FLASH_CROSS_ENTROPY, Loss.FULL_LOGITS),
            Loss.SELECTIVE,
        ),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=invalid(
            "trainer grpo scores its sequences with loss chunked_nll (TRL), selective (TRL before "
            "1.15), flash_cross_entropy (verl) or full_logits (OpenRLHF), not {workload.loss}"
        ),
        source="trl 1.16 trainer/grpo_trainer.py; verl 0.9 engine/fsdp/transformer_impl.py; "
        "openrlhf 0.11 models/actor.py",
    ),
    Rule(
        when=all_of(_POLICY, _ROLLOUT),
        require=satisfies(_is_divisible, workload.rollout, layout.num_gpus),
        field="workload.rollout.tensor_parallel",
        topic=Topic.LOSS,
        refusal=invalid(
            lambda case: (
                f"rollout.tensor_parallel {_get_rollout(case).tensor_parallel} does not divide the "
                f"{case.layout.num_gpus} GPUs of the trainer, which its engines share"
            )
        ),
        reason="rollout.tensor_parallel does not divide the GPUs",
        source="trl 1.16 generation/vllm_generation.py, _init_vllm",
    ),
    Rule(
        when=all_of(_POLICY, _ROLLOUT),
        require=satisfies(_has_whole_weights, workload.rollout, layout.zero_stage, layout.num_gpus),
        field="workload.rollout.engine",
        topic=Topic.LOSS,
        refusal=unmodelled(
            "rollout.engine transformers over sharded weights, which are gathered for it",
            *("zero_stage 0, 1 or 2", "rollout.engine vllm"),
        ),
        reason="rollout.engine transformers over sharded weights, which are gathered for it",
        source="trl 1.16 models/utils.py, unwrap_model_for_generation",
    ),
    Rule(
        when=all_of(_POLICY, _ROLLOUT),
        require=satisfies(_reads_weights, workload.rollout, workload.method),
        field="workload.rollout.engine",
        topic=Topic.LOSS,
        refusal=unmodelled(
            lambda case: (
                f"rollout.engine {_get_rollout(case).engine} of quantised weights under adapters"
            ),
            *("method lora", "rollout.engine transformers"),
        ),
        source="trl 1.16 generation/vllm_generation.py: quantization bitsandbytes",
    ),
)
