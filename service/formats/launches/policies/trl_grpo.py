"""Keyword arguments of scripts with TRL's GRPOTrainer.

Names and defaults are those of TRL 1.16 (``trl/trainer/grpo_config.py`` and
``trl/generation/vllm_generation.py``).
"""

from dataclasses import dataclass

from service.formats.launches.policies.lengths import put_lengths
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.lowering import lower_trainer
from service.formats.launches.trainers.setup import PEFT, TRANSFORMERS, TRL, Client, TrainerSetup
from service.formats.launches.trainers.trainer import gather_arguments, gather_setup, note_config
from service.formats.launches.trainers.trl_config import put_older_loss, take_word
from service.formats.launches.trainers.trl_releases import SCORED
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

_SOURCE = f"TRL {TRL}, trl/trainer"
_OLDER = {"max_completion_length": 256, "vllm_mode": "server"}
"""Defaults of TRL 0.14 to 1.0 that are others now."""
_BATCHED_TOKENS = 4096
"""``max_num_batched_tokens`` of its engine (``vllm_generation.py``, ``_init_vllm``)."""
_SLEEP_LEVEL = 2
_MODES = {"colocate": True, "server": False}
FLAGS = frozenset(
    {
        *("use_vllm", "vllm_enable_sleep_mode", "sync_ref_model", "cast_lm_head_to_fp32"),
        *("use_transformers_paged", "use_transformers_continuous_batching", "scale_rewards"),
        *("mask_truncated_completions", "vllm_importance_sampling_correction"),
        "use_adaptive_entropy",
    }
)
_WITHOUT_EFFECT = (
    *("num_generations*", "temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
    *("generation_kwargs*", "chat_template_kwargs*", "cache_implementation", "max_tool_calling_*"),
    *("epsilon*", "delta", "sapo_*", "vespo_*", "importance_sampling_level", "num_iterations"),
    *("reward_weights*", "multi_objective_aggregation", "scale_rewards", "ref_model_*"),
    *("mask_truncated_completions", "top_entropy_quantile", "use_bias_correction_kl"),
    *("vllm_importance_sampling_*", "off_policy_mask_threshold", "num_completions_to_print"),
    *("vllm_server_*", "vllm_group_port", "vllm_structured_outputs_regex", "vllm_model_impl"),
    *("pad_to_multiple_of", "environment_factory", "tools", "rollout_func", "entropy_*"),
    *("transformers_continuous_batching_config*", "router_aux_loss_coef"),
    *("use_adaptive_entropy", "reward_processing_classes", "ds3_gather_for_generation"),
)
_UNMODELLED = {
    "cast_lm_head_to_fp32": "a head in fp32 is larger, and so are its tiles",
    "use_transformers_continuous_batching": "its cache of pages is not that of generate()",
    "use_transformers_paged": "its cache of pages is not that of generate()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One of TRL's trainers of policies.

    ``penalty`` is the default of ``beta``, whose sign decides whether a reference is held;
    ``older_penalty`` is that of some releases before 1.0, None where it has always been the same.
    """

    client: Client
    config: str
    penalty: float
    older_penalty: str | None = None
    losses: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Where its defaults stand."""
        return f"{_SOURCE}/{self.config}"


_GRPO = Policy(
    client=Client.GRPO,
    config="grpo_config.py",
    penalty=0.0,
    older_penalty="before 0.19 beta is 0.04, and a reference is held: say beta where it is",
    losses=("dapo", "grpo", "bnpo", "dr_grpo", "luspo", "cispo", "sapo", "vespo"),
)


def read_grpo(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a script with GRPOTrainer."""
    read_policy(_GRPO, gather_arguments(handed_in, FLAGS), handed_in, draft)


def read_policy(policy: Policy, training: Settings, handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a script that trains a policy by TRL."""
    note_config(training, handed_in, draft, is_required=True)
    setup = gather_setup(policy.client, training, draft)
    _add_older_defaults(policy, setup, draft)
    _read_lengths(training, draft)
    _read_reference(policy, setup, draft)
    steps = _read_generation_steps(training, draft)
    _read_rollout(training, steps, draft)
    losses = take_word(training, "loss_type") if policy.losses else None
    if losses is not None:
        losses.as_choice({name: name for name in policy.losses})
        draft.note(losses, "a loss of the same log-probabilities")
    _read_rewards(training, draft)
    for name, reason in _UNMODELLED.items():
        draft.ignore_switch(training.take(name), reason)
    lower_trainer(setup, draft, handed_in, (*_WITHOUT_EFFECT, *policy.without_effect))


def _add_older_defaults(policy: Policy, setup: TrainerSetup, draft: Draft) -> None:
    """Add the defaults of a release before 1.0."""
    if setup.trl_before is None:
        return
    for name, value in _OLDER.items():
        setup.training.add(name, make_default(name, value, "TRL before 1.0"))
    put_older_loss(setup, draft, SCORED)
    if policy.older_penalty is not None and "beta" not in setup.training:
        draft.warn(policy.older_penalty)


def _read_lengths(training: Settings, draft: Draft) -> None:
    """Set prompt and completion, of which the config says the latter alone."""
    put_lengths(
        draft,
        _take(training, "max_completion_length", 512),
        prompt=training.take("max_prompt_length", "prompt_length"),
        longest=training.peek("vllm_max_model_length"),
        unsaid="the tokens of a prompt are the data's",
    )


def _read_reference(policy: Policy, setup: TrainerSetup, draft: Draft) -> None:
    beta = setup.training.take("beta") or make_default("beta", policy.penalty, policy.source)
    if beta.as_float():
        # Adapters that are switched off leave the reference.
        word = "adapters_off" if len(setup.adapters) > 0 else "model"
        draft.put("workload.reference", word, beta)
    else:
        draft.note(beta, "no penalty, and no reference model")
    synced = setup.training.take("sync_ref_model")
    if synced is not None:
        draft.note(synced, "the reference is copied into between steps, in place")


def _read_generation_steps(training: Settings, draft: Draft) -> int:
    """Return how many micro batches of one GPU are generated together."""
    steps = training.take("steps_per_generation")
    if steps is not None:
        draft.note(steps, "micro batches that are generated together")
        return steps.as_int(minimum=1)
    batch = training.take("generation_batch_size")
    if batch is not None:
        processes = draft.get("layout.data_parallel")
        each = _get_batch(training) * (processes if isinstance(processes, int) else 1)
        draft.note(batch, "sequences of all GPUs that are generated together")
        return max(1, batch.as_int(minimum=1) // each)
    accumulated = training.peek("gradient_accumulation_steps")
    return 1 if accumulated is None else accumulated.as_int(minimum=1)


def _get_batch(training: Settings) -> int:
    batch = training.peek("per_device_train_batch_size")
    return 8 if batch is None else batch.as_int(minimum=1)


def _read_rollout(training: Settings, steps: int, draft: Draft) -> None:
    uses = _take(training, "use_vllm", value=False)
    num_sequences = _get_batch(training) * steps
    if not uses.as_bool():
        draft.put("workload.rollout.engine", "transformers", uses)
        draft.put("workload.rollout.num_sequences", num_sequences)
        for name in training:
            if name.startswith("vllm_") and (setting := training.take(name)) is not None:
                draft.drop(setting)
        return
    mode = _take(training, "vllm_mode", "colocate")
    if mode.as_choice(_MODES):
        draft.put("workload.rollout.engine", "vllm", uses, mode)
        _read_engine(training, num_sequences, draft)
        return
    draft.note(mode, "the engine is a server on GPUs of its own, which is a question of its own")
    draft.drop(uses)
    for name in ("gpu_memory_utilization", "tensor_parallel_size", "enable_sleep_mode"):
        setting = training.take(f"vllm_{name}")
        if setting is not None:
            draft.drop(setting)
    longest = training.take("vllm_max_model_length")
    if longest is not None:
        draft.drop(longest)


def _read_engine(training: Settings, num_sequences: int, draft: Draft) -> None:
    """Set the engine that shares the trainer's GPUs and its process."""
    share = _take(training, "vllm_gpu_memory_utilization", 0.3)
    draft.put("workload.rollout.gpu_memory_fraction", share.as_float(), share)
    ranks = _take(training, "vllm_tensor_parallel_size", 1)
    degree = ranks.as_int(minimum=1)
    draft.put("workload.rollout.tensor_parallel", degree, ranks)
    sleeps = _take(training, "vllm_enable_sleep_mode", value=False)
    level = _SLEEP_LEVEL if sleeps.as_bool() else 0
    draft.put("workload.rollout.sleep_level", level, sleeps)
    longest = training.take("vllm_max_model_length")
    if longest is not None:
        draft.put("workload.rollout.max_model_len", longest.as_int(minimum=1), longest)
    draft.put("workload.rollout.max_num_batched_tokens", _BATCHED_TOKENS)
    draft.put("workload.rollout.max_num_sequences", num_sequences * degree)


def _read_rewards(training: Settings, draft: Draft) -> None:
    rewards = training.take("reward_funcs", "reward_model_name_or_path")
    if rewards is None:
        return
    names = rewards.as_list() if isinstance(rewards.value, str | list | tuple) else []
    if any(isinstance(name, str) and "/" in name for name in names):
        draft.ignore(rewards, "a reward model on the same GPU is not counted")
    else:
        draft.drop(rewards)


def _take(training: Settings, name: str, value: object) -> Setting:
    return training.take(name) or make_default(name, value, f"{_SOURCE}/grpo_config.py")


READERS = {
    Launcher.TRL_GRPO: Reader(
        launcher=Launcher.TRL_GRPO,
        versions={"transformers": TRANSFORMERS, "peft": PEFT, "trl": TRL},
        read=read_grpo,
        programs=frozenset(
            {"grpo.py", "grpo_*.py", "gspo.py", "gspo_*.py", "trl grpo", "*_grpo.py"}
        ),
        marks=frozenset(
            {
                *("num_generations", "max_completion_length", "vllm_mode", "use_vllm"),
                *("vllm_gpu_memory_utilization", "steps_per_generation", "epsilon_high"),
            }
        ),
    )
}
