"""Critic of a policy: its values, its update, and what stays between.

It shares the policy's GPUs and is as sharded: a model with a head of one number per token. So it is
an ordinary training, whose forward pass alone is an evaluation of that.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from service.estimator.memory.offloading import count_ranks_per_node
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.model.heads.config import put_head_in_config, put_head_in_spec
from service.estimator.reinforcement.phase import CRITIC_UPDATE, VALUES, Phase
from service.estimator.reinforcement.share import CONTEXT, GpuShare
from service.estimator.values.batches import Evaluation, SequencePacking
from service.estimator.values.errors import EstimatorError
from service.estimator.values.generation import Critic
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss, Trainer
from service.estimator.values.memo import keep_latest
from service.estimator.values.result import EVALUATION, Basis, Component, Estimate, Interval
from service.estimator.values.workload import Checkpointing, Method, TrainWorkload

AnswerTraining = Callable[[Architecture, TrainWorkload], Estimate]
Parts = Mapping[str, int]

MODEL_FIELD = "workload.critic.model"
_WEIGHTS, _STATES = ("weights", "adapters"), ("optimizer_states", "master_weights")
_REST = "other"
_SOURCE = "verl 0.9 workers/engine_workers.py: one process has policy and critic"
_NO_DROPOUT = {"classifier_dropout": 0.0, "hidden_dropout": 0.0}
"""Of the head of values (verl 0.9 ``fsdp/transformer_impl.py``, ``_build_module``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticMemory:
    """A critic by what of it is on the GPU.

    ``slack`` is what its allocator holds beyond tensors, ``spread`` how far its bytes may be off.
    """

    idle: GpuShare
    values: GpuShare
    update: GpuShare
    slack: int
    spread: Interval
    host_bytes_per_node: int
    warnings: tuple[str, ...]

    def build_phases(self, parts: dict[str, int], engine: GpuShare) -> list[Phase]:
        """Return its phases beside what is left of policy and engine."""
        return [
            Phase(
                name=name,
                parts=parts,
                share=engine + share,
                slack=self.slack,
                spread=self.spread,
            )
            for name, share in ((VALUES, self.values), (CRITIC_UPDATE, self.update))
        ]


def estimate_critic(
    policy: Architecture, workload: TrainWorkload, layout: Layout, answer: AnswerTraining
) -> CriticMemory | None:
    """Return the memory of a policy's critic; None without one.

    Raises what the estimate of its training raises.
    """
    critic = workload.critic
    if critic is None:
        return None
    try:
        trained = answer(build_value_model(policy, critic), build_training(workload, critic))
    except EstimatorError as error:
        error.args = (f"the critic's training: {error}",)
        error.field = error.field if error.field == MODEL_FIELD else "workload.critic"
        raise
    moments = {instant.name: instant.parts for instant in trained.instants}
    states = {name: moments[EVALUATION].get(name, 0) for name in (*_WEIGHTS, *_STATES)}
    # verl's FSDP1 leaves no gradients between steps (phases.py has the source).
    remaining = trained.steady_bytes - sum(states.values())
    idle = states | {_REST: 0 if layout.sharding is Sharding.FSDP1 else remaining}
    moved = (*(_WEIGHTS * critic.offload_parameters), *(_STATES * critic.offload_optimizer))
    values = moments[EVALUATION]
    if critic.offload_optimizer:
        values = _drop(values, _STATES)
    context = trained.device_bytes - trained.reserved_bytes if critic.own_process else 0
    difference = -trained.device_bytes
    interval = trained.device_interval
    return CriticMemory(
        idle=_share(_drop(idle, moved), trained, context),
        values=_share(values, trained, context),
        update=_share(_find_peak(trained), trained, context),
        slack=trained.reserved_bytes - trained.allocated_bytes,
        spread=Interval(interval.low + difference, interval.high + difference),
        host_bytes_per_node=trained.host_bytes_per_node
        + sum(idle[name] for name in moved) * count_ranks_per_node(layout),
        warnings=trained.warnings,
    )


def build_training(workload: TrainWorkload, critic: Critic) -> TrainWorkload:
    """Return the training of a critic.

    It differs from the policy's where it says so. Its forward pass alone is an evaluation that
    keeps nothing.
    """
    micro = critic.micro_batch_size or workload.micro_batch_size
    scored = critic.values_batch_size or micro
    length, joined = critic.sequence_length or workload.sequence_length, 1
    if workload.packing is not SequencePacking.NONE:
        # Sequences without padding are one row, as attention and the head see them.
        micro, scored, length, joined = 1, 1, micro * length, scored * length
    kind = workload.activation_checkpointing
    if critic.checkpointed is not None:
        kind = Checkpointing.FULL if critic.checkpointed else Checkpointing.NONE
    adapts = critic.adapters and workload.method is not Method.FULL
    return replace(
        workload,
        trainer=Trainer.SUPERVISED,
        loss=Loss.FULL_LOGITS,
        reference=None,
        rollout=None,
        critic=None,
        completion_length=None,
        log_prob_batch_size=None,
        entropy_bonus=False,
        method=workload.method if adapts else Method.FULL,
        lora=workload.lora if adapts else None,
        peft=workload.peft if adapts else None,
        fp32_norms_and_head=workload.fp32_norms_and_head if adapts else False,
        micro_batch_size=micro,
        sequence_length=length,
        packing=SequencePacking.NONE,
        activation_checkpointing=kind,
        selective_every=workload.selective_every if kind is Checkpointing.SELECTIVE else None,
        evaluation=Evaluation(
            batch_size=scored, sequence_length=joined if joined > 1 else None, kept_batches=0
        ),
    )


def build_value_model(policy: Architecture, critic: Critic) -> Architecture:
    """Return the model of a critic.

    Its head has one number per token. Raises NotModelledError and InvalidConfigError, of the field
    of its model.
    """
    try:
        if critic.config is not None:
            return _load(critic.config, is_config=True)
        spec = critic.spec or json.dumps(policy.describe(), sort_keys=True)
        return _load(spec, is_config=False)
    except EstimatorError as error:
        error.field = MODEL_FIELD
        raise


@keep_latest(64)
def _load(text: str, *, is_config: bool) -> Architecture:
    head, source = Head.TOKEN_CLASSIFICATION, json.loads(text)
    if is_config:
        return architecture_from_config(
            put_head_in_config({**source, **_NO_DROPOUT}, head, num_labels=1)
        )
    return architecture_from_spec(
        {**put_head_in_spec(source, head, num_labels=1), "head_dropout": 0.0}
    )


def _find_peak(trained: Estimate) -> Parts:
    """Return the parts of a step's own highest instant."""
    moments = [instant for instant in trained.instants if instant.name != EVALUATION]
    return max(moments, key=lambda instant: instant.allocated_bytes).parts


def _drop(parts: Parts, names: tuple[str, ...]) -> Parts:
    return {name: size for name, size in parts.items() if name not in names}


def _share(parts: Parts, trained: Estimate, context: int) -> GpuShare:
    """Return tensors of a critic, named as the policy's, with their owner."""
    tensors = sum(parts.values())
    by_name = {part.name: part for part in trained.components}
    components = tuple(
        Component(
            f"critic_{name}",
            size,
            by_name[name].basis if name in by_name else Basis.FORMULA,
            f"of the critic's training: {by_name[name].formula if name in by_name else name}",
            by_name[name].source if name in by_name else _SOURCE,
        )
        for name, size in parts.items()
        if size
    )
    if context:
        formula, source = "of the critic's own process", "OpenRLHF 0.11 trainer/ray/ppo_critic.py"
        components += (Component(CONTEXT, context, Basis.FORMULA, formula, source),)
    total = tensors + context
    return GpuShare(
        components=components,
        tensors=tensors,
        outside=context,
        interval=Interval(total, total),
    )
