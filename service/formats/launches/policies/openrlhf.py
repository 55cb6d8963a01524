"""Arguments of OpenRLHF's trainer of policies (``train_ppo_ray``).

Names and defaults are those of OpenRLHF 0.11 (``openrlhf/cli/train_ppo_ray.py``).
"""

from service.formats.launches.policies.openrlhf_critic import read_critic
from service.formats.launches.policies.openrlhf_keys import FLAGS, MANY, UNMODELLED, WITHOUT_EFFECT
from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

OPENRLHF = "0.11.2"
_SOURCE = f"OpenRLHF {OPENRLHF}, openrlhf/cli/train_ppo_ray.py"
_GRAMMAR = Grammar(flags=FLAGS, many=MANY)
_PRECISIONS = {"bf16": "deepspeed_bf16"}
_ATTENTION = {
    **dict.fromkeys(("flash_attention_2", "flash_attention_3"), "flash"),
    "sdpa": "sdpa",
    "eager": "eager",
}
_HOST_LEVEL = 1
"""Level of sleep of its engines (``openrlhf/trainer/ray/vllm_engine.py``)."""


def read_openrlhf(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a trainer of policies."""
    settings = handed_in.arguments
    for document in handed_in.documents.values():
        settings = settings.merge(document)
    command = handed_in.command
    if command is not None:
        settings = read_argv(command.arguments, _GRAMMAR, where=command.where).merge(settings)
    read_critic(handed_in, settings, draft, _take)
    name = settings.take("actor.model_name_or_path")
    if name is None:
        draft.ask("model", "actor.model_name_or_path names no model")
    else:
        draft.put("model", name.as_text(), name)
    draft.put("workload.task", "train")
    draft.put("workload.framework", "transformers")
    draft.put("workload.trainer", "grpo")
    draft.put("workload.loss", "full_logits")
    adapts = _read_adapters(settings, draft)
    num_gpus = _read_layout(settings, draft)
    _read_batch(settings, draft, num_gpus)
    _read_step(settings, draft)
    _read_reference(settings, draft, adapts=adapts)
    _read_rollout(settings, draft)
    _ignore_unmodelled(settings, draft)
    draft.account(settings, WITHOUT_EFFECT)


def _read_adapters(settings: Settings, draft: Draft) -> bool:
    rank = _take(settings, "ds.lora.rank", 0)
    targets = settings.take("ds.lora.target_modules")
    packs = _take(settings, "ds.load_in_4bit", value=False)
    dropout = _take(settings, "ds.lora.dropout", 0)
    if not rank.as_int():
        for setting in (rank, packs, dropout, *(() if targets is None else (targets,))):
            draft.drop(setting)
        return False
    draft.put("workload.lora.dropout", dropout.as_float(), dropout)
    draft.put("workload.method", "qlora" if packs.as_bool() else "lora", packs)
    draft.put("workload.lora.rank", rank.as_int(minimum=1), rank)
    names = ["all-linear"] if targets is None else [str(name) for name in targets.as_list()]
    word = "all-linear" if names == ["all-linear"] else names
    draft.put("workload.lora.target_modules", word, *(() if targets is None else (targets,)))
    return True


def _read_layout(settings: Settings, draft: Draft) -> int:
    """Set DeepSpeed's layout; return the data-parallel ranks."""
    nodes = _take(settings, "actor.num_nodes", 1)
    per_node = _take(settings, "actor.num_gpus_per_node", 8)
    ring = _take(settings, "ds.ring_attn_size", 1)
    split = _take(settings, "ds.tensor_parallel_size", 1)
    degrees = ring.as_int(minimum=1), split.as_int(minimum=1)
    num_gpus = nodes.as_int(minimum=1) * per_node.as_int(minimum=1)
    if num_gpus % (degrees[0] * degrees[1]):
        raise ring.refuse(f"with ds.tensor_parallel_size a divisor of the {num_gpus} GPUs")
    ranks = num_gpus // (degrees[0] * degrees[1])
    draft.put("layout.data_parallel", ranks, nodes, per_node)
    if degrees[0] > 1:
        draft.put("layout.context_parallel", degrees[0], ring)
    if degrees[1] > 1:
        draft.put("layout.tensor_parallel", degrees[1], split)
    stage = _take(settings, "ds.zero_stage", 2)
    draft.put("layout.zero_stage", stage.as_int(), stage)
    draft.put("layout.sharding", "deepspeed")
    for setting, degree in ((ring, degrees[0]), (split, degrees[1])):
        if degree == 1:
            draft.drop(setting)
    return ranks


def _read_batch(settings: Settings, draft: Draft, ranks: int) -> None:
    """Set micro batches, of sequences or of tokens."""
    longest = _take(settings, "data.max_len", 2048)
    generated = settings.take("rollout.max_new_tokens")
    length = longest.as_int(minimum=1)
    dynamic = _take(settings, "train.dynamic_batch_enable", value=False)
    budget = _take(settings, "train.max_tokens_per_gpu", 16192)
    scored = settings.take("rollout.max_tokens_per_gpu")
    micro = _take(settings, "train.micro_batch_size", 1)
    batch = _take(settings, "train.batch_size", 128)
    scored_batch = _take(settings, "rollout.micro_batch_size", 1)
    packs = _take(settings, "ds.packing_samples", value=False)
    if dynamic.as_bool():
        tokens = max(length, budget.as_int(minimum=1))
        draft.put("workload.sequence_length", tokens, dynamic, budget)
        draft.put("workload.micro_batch_size", 1)
        count, largest = max(1, tokens // length), budget if scored is None else scored
        sequences = -(-largest.as_int(minimum=1) // tokens)
        draft.note(largest, "tokens of a forward pass alone")
        draft.drop(micro)
        draft.drop(scored_batch)
    else:
        count, sequences = micro.as_int(minimum=1), scored_batch.as_int(minimum=1)
        draft.put("workload.sequence_length", length)
        draft.put("workload.micro_batch_size", count, micro)
        draft.put("workload.packing", "padding_free" if packs.as_bool() else "none", packs)
        draft.note(scored_batch, "sequences of a forward pass alone")
        for setting in (budget, *(() if scored is None else (scored,))):
            draft.drop(setting)
    draft.note(longest, "prompt and completion together")
    if sequences != (1 if dynamic.as_bool() else count):
        draft.put("workload.log_prob_batch_size", sequences)
    steps = max(1, batch.as_int(minimum=1) // ranks // count)
    draft.put("workload.gradient_accumulation_steps", steps, batch)
    if generated is not None and generated.as_int(minimum=1) < length:
        draft.put("workload.completion_length", generated.as_int(minimum=1), generated)
    elif generated is not None:
        draft.note(generated, "every token may be one of the completion")


def _read_step(settings: Settings, draft: Draft) -> None:
    dtype = _take(settings, "ds.param_dtype", "bf16")
    draft.put("workload.precision", dtype.as_choice(_PRECISIONS), dtype)
    attention = _take(settings, "ds.attn_implementation", "flash_attention_2")
    draft.put("workload.attention", attention.as_choice(_ATTENTION), attention)
    optimizer = _take(settings, "actor.optim", "adam")
    word = optimizer.as_choice({"adam": "adamw_fused", "muon": "muon"})
    draft.put("workload.optimizer", word, optimizer)
    clips = _take(settings, "actor.max_norm", 1.0)
    draft.put("workload.gradient_clipping", clips.as_float() > 0, clips)
    checkpoints = _take(settings, "actor.gradient_checkpointing_enable", value=False)
    runs = checkpoints.as_bool()
    draft.put("workload.activation_checkpointing", "full" if runs else "none", checkpoints)
    reentrant = settings.take("actor.gradient_checkpointing_reentrant")
    if reentrant is not None and runs:
        draft.put("workload.reentrant_checkpointing", reentrant.as_bool(), reentrant)
    offloads = _take(settings, "ds.adam_offload", value=False)
    draft.put("workload.offload.optimizer", "cpu" if offloads.as_bool() else "none", offloads)
    bonus = settings.take("actor.entropy_coef")
    if bonus is not None:
        draft.put("workload.entropy_bonus", value=True)
        draft.note(bonus, "the entropy is computed with its graph, whatever its weight")


def _read_reference(settings: Settings, draft: Draft, *, adapts: bool) -> None:
    """Set the reference where it shares the policy's GPUs.

    It is a model of its own, with adapters as without.
    """
    penalty = _take(settings, "algo.kl.init_coef", 0.01)
    joins = _take(settings, "train.colocate_actor_ref", value=False)
    everything = settings.peek("train.colocate_all")
    offloads = _take(settings, "ref.offload", value=False)
    shares = joins.as_bool() or (everything is not None and everything.as_bool())
    if penalty.as_float() > 0 and shares:
        word = "offloaded" if offloads.as_bool() else "model"
        draft.put("workload.reference", word, penalty, joins, offloads)
        return
    draft.note(penalty, "no reference on the policy's GPUs")
    for setting in (joins, offloads):
        draft.drop(setting)
    if adapts:
        draft.warn("the reference is a model of its own, with adapters as without")


def _read_rollout(settings: Settings, draft: Draft) -> None:
    """Set the engine where it shares the policy's GPUs."""
    field = "workload.rollout"
    everything = _take(settings, "train.colocate_all", value=False)
    behind = _take(settings, "train.async_enable", value=False)
    engines = _take(settings, "vllm.num_engines", 0)
    if not engines.as_int() or behind.as_bool() or not everything.as_bool():
        draft.note(engines, "engines have GPUs of their own, which are a question of their own")
        for setting in (everything, behind, *settings.take_group("vllm").take_all().values()):
            draft.drop(setting)
        return
    draft.put(f"{field}.engine", "vllm", engines, everything)
    draft.drop(behind)
    draft.put(f"{field}.own_process", value=True)
    share = _take(settings, "vllm.gpu_memory_utilization", 0.95)
    draft.put(f"{field}.gpu_memory_fraction", share.as_float(), share)
    ranks = _take(settings, "vllm.tensor_parallel_size", 1)
    draft.put(f"{field}.tensor_parallel", ranks.as_int(minimum=1), ranks)
    sleeps = _take(settings, "vllm.enable_sleep", value=False)
    draft.put(f"{field}.sleep_level", _HOST_LEVEL * sleeps.as_bool(), sleeps)
    eager = _take(settings, "vllm.enforce_eager", value=False)
    draft.put(f"{field}.enforce_eager", eager.as_bool(), eager)
    longest = settings.peek("data.max_len")
    draft.put(f"{field}.max_model_len", 2048 if longest is None else longest.as_int(minimum=1))
    moves = _take(settings, "ds.enable_sleep", value=False)
    draft.put(f"{field}.offload_optimizer", moves.as_bool(), moves)


def _ignore_unmodelled(settings: Settings, draft: Draft) -> None:
    for name, reason in UNMODELLED.items():
        setting = settings.take(name)
        if setting is not None and str(setting.value).casefold() not in {"false", "0", "1"}:
            draft.ignore(setting, reason)
        elif setting is not None:
            draft.drop(setting)


def _take(settings: Settings, name: str, value: object) -> Setting:
    return settings.take(name) or make_default(name, value, _SOURCE)


READERS = {
    Launcher.OPENRLHF: Reader(
        launcher=Launcher.OPENRLHF,
        versions={"openrlhf": OPENRLHF},
        read=read_openrlhf,
        programs=frozenset({"openrlhf.cli.train_ppo_ray", "train_ppo_ray.py"}),
        marks=frozenset(
            {
                *("algo.advantage.estimator", "vllm.num_engines", "train.colocate_all"),
                *("actor.num_gpus_per_node", "rollout.n_samples_per_prompt"),
            }
        ),
    )
}
