"""GRPO of ms-swift: what is generated, by whom, and beside which reference.

ms-swift 4.6, ``rlhf_trainers/{grpo_trainer,rollout_mixin,args_mixin}.py`` and
``arguments/rlhf_args.py``. Its log-probabilities are TRL's of before 1.15, over whole logits of the
completion, which it divides in place.
"""

from service.formats.launches.ms_swift.swift_keys import OFF, POLICY_UNMODELLED, SWIFT
from service.formats.launches.ms_swift.swift_step import take_given
from service.formats.launches.policies.lengths import put_lengths
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, is_unset, make_default

_SOURCE = f"ms-swift {SWIFT}, swift"
_ROLLOUT = "workload.rollout"
_MODES = {"colocate": True, "server": False}
_LENGTHS = ("response_length", "max_new_tokens", "max_completion_length")
"""Names of the longest completion, of which the first that is said counts."""
_PENALTY = 0.04
_OFF = False
_LEVELS = {"0": 0, "1": 1, "2": 2}


def read_policy(config: Settings, training: Settings, draft: Draft, *, adapts: bool) -> None:
    """Set completions, reference and rollout of a policy."""
    source = f"{_SOURCE}/rlhf_trainers/rlhf_mixin.py, selective_log_softmax"
    draft.put("workload.loss", "selective", make_default("loss", "selective", source))
    _read_lengths(config, training, draft)
    _read_reference(config, draft, adapts=adapts)
    for name, reason in POLICY_UNMODELLED.items():
        setting = config.take(name)
        if setting is None:
            continue
        if is_unset(setting) or str(setting.value).strip().casefold() in {*OFF, "1", "1.0"}:
            draft.drop(setting)
        else:
            draft.ignore(setting, reason)
    loss = training.take("loss_type")
    if loss is not None:
        draft.note(loss, "a loss of the same log-probabilities")
    _read_rollout(config, training, draft)


def _read_lengths(config: Settings, training: Settings, draft: Draft) -> None:
    """Set prompt and completion: ``max_length`` is a prompt's."""
    named = [setting for name in _LENGTHS if (setting := config.take(name)) is not None]
    completion = next(
        (setting for setting in named if not is_unset(setting)), None
    ) or make_default("max_completion_length", 512, f"{_SOURCE}/arguments/rlhf_args.py")
    for setting in named:
        if setting is not completion:
            draft.drop(setting)
    put_lengths(
        draft,
        completion,
        prompt=training.take("max_length"),
        longest=config.peek("vllm_max_model_len"),
        unsaid="without max_length prompts are as long as the data's",
    )


def _read_reference(config: Settings, draft: Draft, *, adapts: bool) -> None:
    source = f"{_SOURCE}/arguments/rlhf_args.py"
    beta = take_given(config, "beta") or make_default("beta", _PENALTY, source)
    named = take_given(config, "ref_model")
    if not beta.as_float():
        draft.note(beta, "no penalty, and no reference model")
        if named is not None:
            draft.drop(named)
        return
    draft.put("workload.reference", "adapters_off" if adapts else "model", beta)
    if named is not None:
        draft.note(named, "a reference as large as the policy")


def _read_rollout(config: Settings, training: Settings, draft: Draft) -> None:
    """Set who generates: the policy, an engine or a server."""
    source = f"{_SOURCE}/rlhf_trainers/args_mixin.py"
    uses = config.take("use_vllm") or make_default("use_vllm", value=False, source=source)
    mode = take_given(config, "vllm_mode")
    number = _count_sequences(config, training, draft)
    if not uses.as_bool():
        draft.put(f"{_ROLLOUT}.engine", "transformers", uses)
        draft.put(f"{_ROLLOUT}.num_sequences", number)
        _drop_engine(config, draft)
        return
    if mode is None:
        raise uses.refuse("vllm_mode beside it: colocate or server")
    if not mode.as_choice(_MODES):
        draft.note(
            mode, "the engine is a server on GPUs of its own, which is a question of its own"
        )
        draft.drop(uses)
        _drop_engine(config, draft)
        return
    draft.put(f"{_ROLLOUT}.engine", "vllm", uses, mode)
    _read_engine(config, source, number, draft)


def _count_sequences(config: Settings, training: Settings, draft: Draft) -> int:
    """Return how many sequences of one GPU are generated together."""
    batch = training.peek("per_device_train_batch_size")
    rows = 1 if batch is None else batch.as_int(minimum=1)
    steps = take_given(config, "steps_per_generation")
    total = take_given(config, "generation_batch_size")
    if steps is not None:
        draft.note(steps, "micro batches that are generated together")
        return rows * steps.as_int(minimum=1)
    if total is not None:
        draft.note(total, "sequences of all GPUs that are generated together")
        processes = draft.get("layout.data_parallel")
        return max(
            rows, total.as_int(minimum=1) // (processes if isinstance(processes, int) else 1)
        )
    accumulated = training.peek("gradient_accumulation_steps")
    return rows * (1 if accumulated is None else accumulated.as_int(minimum=1))


def _read_engine(config: Settings, source: str, number: int, draft: Draft) -> None:
    """Set the engine that shares the trainer's GPUs and its process."""
    share = _take(config, "vllm_gpu_memory_utilization", 0.9, source)
    draft.put(f"{_ROLLOUT}.gpu_memory_fraction", share.as_float(), share)
    ranks = _take(config, "vllm_tensor_parallel_size", 1, source)
    degree = ranks.as_int(minimum=1)
    draft.put(f"{_ROLLOUT}.tensor_parallel", degree, ranks)
    level = _take(config, "sleep_level", 0, source)
    draft.put(f"{_ROLLOUT}.sleep_level", level.as_choice(_LEVELS), level)
    eager = _take(config, "vllm_enforce_eager", _OFF, source)
    draft.put(f"{_ROLLOUT}.enforce_eager", eager.as_bool(), eager)
    longest = config.take("vllm_max_model_len")
    if longest is not None and not is_unset(longest):
        draft.put(f"{_ROLLOUT}.max_model_len", longest.as_int(minimum=1), longest)
    limit = config.take("vllm_max_num_seqs")
    if limit is not None and not is_unset(limit):
        draft.put(f"{_ROLLOUT}.max_num_sequences", limit.as_int(minimum=1), limit)
    else:
        draft.put(f"{_ROLLOUT}.max_num_sequences", number * degree)
    for key, field in (("offload_model", "parameters"), ("offload_optimizer", "optimizer")):
        switch = _take(config, key, _OFF, source)
        draft.put(f"{_ROLLOUT}.offload_{field}", switch.as_bool(), switch)


def _drop_engine(config: Settings, draft: Draft) -> None:
    """Account for an engine that is not on these GPUs."""
    names = [name for name in config if name.startswith("vllm_")]
    for name in (*names, "sleep_level", "offload_model", "offload_optimizer", "async_generate"):
        setting = config.take(name)
        if setting is not None:
            draft.drop(setting)


def _take(config: Settings, name: str, value: object, source: str) -> Setting:
    return take_given(config, name) or make_default(name, value, source)
