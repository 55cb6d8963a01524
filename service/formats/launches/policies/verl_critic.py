"""Critic of verl, in the policy's process.

(``verl/trainer/ppo/ray_trainer.py``, ``init_workers``; ``verl/workers/engine_workers.py``.)
"""

from service.formats.launches.policies.critic_model import put_critic_model
from service.formats.launches.policies.verl_settings import ACTOR, FSDP, MODEL, VerlTrainer, take
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings

_WITH_CRITIC = "gae"
"""Advantages of a critic (``verl/trainer/ppo/utils.py``, ``need_critic``)."""
_FIELD = "workload.critic"
_SHARDING = ("critic.fsdp", "critic.model.fsdp_config")
"""Groups of its FSDP: the second is that of releases before 0.7."""
_OFF = frozenset({"false", "none", "null", "0", ""})
_AS_POLICY = (
    (("critic.strategy",), (f"{ACTOR}.strategy",), "fsdp"),
    (
        ("critic.ulysses_sequence_parallel_size",),
        (f"{ACTOR}.ulysses_sequence_parallel_size",),
        1,
    ),
    (tuple(f"{group}.model_dtype" for group in _SHARDING), (f"{FSDP}.model_dtype",), "fp32"),
    (tuple(f"{group}.dtype" for group in _SHARDING), (f"{FSDP}.dtype",), "bfloat16"),
    (tuple(f"{group}.fsdp_size" for group in _SHARDING), (f"{FSDP}.fsdp_size",), -1),
    (
        tuple(f"{group}.reshard_after_forward" for group in _SHARDING),
        (f"{FSDP}.reshard_after_forward",),
        True,
    ),
    (
        tuple(f"{group}.offload_policy" for group in _SHARDING),
        (f"{FSDP}.offload_policy",),
        False,
    ),
    (("critic.optim.optimizer",), (f"{ACTOR}.optim.optimizer",), "AdamW"),
    (("critic.model.use_remove_padding",), (f"{MODEL}.use_remove_padding",), True),
)
"""Settings of a critic that count as the policy's do, with those and verl's default."""
_UNMODELLED = {
    "critic.model.enable_activation_offload": "its activations stay on the GPU here",
    "critic.model.use_liger": "Liger's kernels have no term over sharded weights",
    "critic.model.tiled_mlp.enabled": "layers are not cut into tiles here",
}


def is_with_critic(settings: Settings, draft: Draft) -> bool:
    """Return whether a value model is trained beside the policy."""
    estimator = take(settings, "algorithm.adv_estimator", _WITH_CRITIC)
    switch = settings.take("critic.enable")
    has_critic = estimator.as_text() == _WITH_CRITIC if switch is None else switch.as_bool()
    kind = "with" if has_critic else "without"
    draft.note(estimator, f"advantages {kind} a critic")
    if switch is not None:
        draft.note(switch, f"a policy {kind} a critic")
    return has_critic


def compare_critic(settings: Settings, draft: Draft) -> None:
    """Name settings of a critic that count as the policy's.

    It looks at the policy's settings, and is called before they are taken.
    """
    for names, policy, default in _AS_POLICY:
        setting = settings.take(*names)
        if setting is None:
            continue
        policys = settings.peek(policy[0])
        counted = default if policys is None else policys.value
        if str(setting.value).casefold() == str(counted).casefold():
            draft.note(setting, "as the policy's")
        else:
            draft.ignore(setting, f"the critic is counted as the policy is ({counted})")
    for name, reason in _UNMODELLED.items():
        switch = settings.take(name)
        if switch is not None and str(switch.value).casefold() not in _OFF:
            draft.ignore(switch, reason)
        elif switch is not None:
            draft.drop(switch)


def read_critic(trainer: VerlTrainer, handed_in: HandedIn, policy: Setting | None) -> None:
    """Set the critic's model, its batches and its offloading."""
    settings, draft = trainer.settings, trainer.draft
    put_critic_model(handed_in, draft, settings.take("critic.model.path"), policy)
    _read_adapters(trainer)
    _read_batch(trainer)
    checkpoints = trainer.take("critic.model.enable_gradient_checkpointing", value=True)
    draft.put(f"{_FIELD}.checkpointed", checkpoints.as_bool(), checkpoints)
    for name, word in (("param_offload", "parameters"), ("optimizer_offload", "optimizer")):
        switch = settings.take(*(f"{group}.{name}" for group in _SHARDING))
        switch = switch or trainer.take(f"{_SHARDING[0]}.{name}", value=False)
        draft.put(f"{_FIELD}.offload_{word}", switch.as_bool(), switch)


def _read_adapters(trainer: VerlTrainer) -> None:
    rank = trainer.take("critic.model.lora_rank", 0)
    if rank.as_int() > 0 and trainer.adapts:
        trainer.draft.put(f"{_FIELD}.adapters", rank.as_int() > 0, rank)
    elif rank.as_int() > 0:
        why = "all weights of a critic are trained beside a policy without adapters: more is needed"
        trainer.draft.ignore(rank, why)
    else:
        trainer.draft.drop(rank)


def _read_batch(trainer: VerlTrainer) -> None:
    """Set micro batches of update and values."""
    settings, draft, longest = trainer.settings, trainer.draft, trainer.prompt + trainer.response
    inherited = settings.peek(f"{ACTOR}.use_dynamic_bsz")
    dynamic = trainer.take(
        "critic.use_dynamic_bsz", value=inherited is not None and inherited.as_bool()
    )
    budget = trainer.take("critic.ppo_max_token_len_per_gpu", 32768)
    scored = settings.take("critic.forward_max_token_len_per_gpu")
    batch = _take_batch(settings, "critic.ppo_micro_batch_size")
    values = _take_batch(settings, "critic.forward_micro_batch_size")
    if dynamic.as_bool():
        tokens = max(longest, budget.as_int(minimum=1))
        draft.put(f"{_FIELD}.sequence_length", tokens, dynamic, budget)
        draft.put(f"{_FIELD}.micro_batch_size", 1)
        largest = budget if scored is None else scored
        draft.put(f"{_FIELD}.values_batch_size", -(-largest.as_int(minimum=1) // tokens))
        unused = (batch, values)
    else:
        draft.put(f"{_FIELD}.sequence_length", longest, dynamic)
        if batch is None:
            why = "critic.ppo_micro_batch_size_per_gpu is not said, and verl has no default"
            draft.ask(f"{_FIELD}.micro_batch_size", why, is_assumed=True)
        else:
            draft.put(f"{_FIELD}.micro_batch_size", _count(trainer, batch), batch)
        if values is not None:
            draft.put(f"{_FIELD}.values_batch_size", _count(trainer, values), values)
        unused = (None, None) if scored is None else (scored, None)
    if scored is not None and dynamic.as_bool():
        draft.note(scored, "tokens of a forward pass alone")
    for setting in unused:
        if setting is not None:
            draft.drop(setting)


def _take_batch(settings: Settings, name: str) -> Setting | None:
    return settings.take(f"{name}_per_gpu", name)


def _count(trainer: VerlTrainer, batch: Setting) -> int:
    """Return the sequences of one GPU."""
    parts = 1 if batch.key.endswith("_per_gpu") else trainer.num_gpus
    return max(1, batch.as_int(minimum=1) // parts)
