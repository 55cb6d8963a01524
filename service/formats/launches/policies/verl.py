"""Configurations of verl: Hydra's YAML, and its overrides ``a.b=c``.

Names and defaults are those of verl 0.9 (``verl/trainer/config/_generated_ppo_trainer.yaml``,
``verl/workers/engine/fsdp/transformer_impl.py`` and ``verl/workers/engine_workers.py``).
"""

from service.formats.launches.policies.verl_critic import (
    compare_critic,
    is_with_critic,
    read_critic,
)
from service.formats.launches.policies.verl_keys import ABOVE_ONE, UNMODELLED, WITHOUT_EFFECT
from service.formats.launches.policies.verl_megatron import refuse_megatron
from service.formats.launches.policies.verl_rollout import read_rollout
from service.formats.launches.policies.verl_settings import (
    ACTOR,
    FSDP,
    MODEL,
    ROLLOUT,
    VERL,
    VerlTrainer,
    take,
)
from service.formats.launches.policies.verl_step import read_reference, read_step
from service.formats.launches.sources.argv import read_argv
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings

_SHARDING = {"fsdp": "fsdp1", "fsdp2": "fsdp2"}


def read_verl(handed_in: HandedIn, draft: Draft) -> None:
    """Read a configuration of verl's trainer of policies."""
    settings = _gather(handed_in, draft)
    strategy = settings.peek(f"{ACTOR}.strategy")
    if strategy is not None:
        refuse_megatron(settings, strategy)
    has_critic = is_with_critic(settings, draft)
    if has_critic:
        compare_critic(settings, draft)
    name = settings.take(f"{MODEL}.path")
    if name is None:
        draft.ask("model", "actor_rollout_ref.model.path names no model")
    else:
        draft.put("model", name.as_text(), name)
    draft.put("workload.task", "train")
    draft.put("workload.framework", "transformers")
    draft.put("workload.trainer", "grpo")
    draft.put("workload.loss", "flash_cross_entropy")
    draft.put("workload.attention", "flash")
    draft.put("workload.allocator", "expandable_segments")
    trainer = _read_trainer(settings, draft)
    _read_layout(trainer)
    if has_critic:
        read_critic(trainer, handed_in, name)
    _read_batch(trainer)
    read_reference(trainer)
    read_step(trainer)
    read_rollout(trainer)
    _ignore_unmodelled(settings, draft)
    draft.account(settings, WITHOUT_EFFECT)


def _gather(handed_in: HandedIn, draft: Draft) -> Settings:
    """Return all settings by their dotted names: overrides win over files.

    Interpolations are derived from settings that are there as well.
    """
    settings = _read_overrides(handed_in, draft).merge(handed_in.arguments)
    for document in handed_in.documents.values():
        settings = settings.merge(document)
    named = settings.take_all()
    return Settings(
        {
            name: setting
            for name, setting in named.items()
            if not str(setting.value).startswith("${")
        }
    )


def _read_overrides(handed_in: HandedIn, draft: Draft) -> Settings:
    """Return Hydra's overrides ``a.b=c``, ``+a.b=c`` and ``++a.b=c``."""
    command = handed_in.command
    if command is None:
        return Settings()
    options = read_argv(command.arguments, where=command.where)
    overrides: dict[str, Setting] = {}
    for name, option in options.take_all().items():
        text = str(option.value)
        if name.startswith("config_"):
            if "megatron" in text:
                strategy = Setting(key=option.key, value="megatron", where=option.where)
                overrides.setdefault(f"{ACTOR}.strategy", strategy)
            draft.note(option, "the defaults are those of verl's own trainer of policies")
        elif not name.startswith("argument_"):
            overrides[name] = option
        elif "=" in text:
            key, _, value = text.lstrip("+~").partition("=")
            unquoted = value.strip("'\"")
            overrides[key] = Setting(key=key, value=unquoted, where=command.where)
    return Settings(overrides)


def _read_trainer(settings: Settings, draft: Draft) -> VerlTrainer:
    nodes = take(settings, "trainer.nnodes", 1)
    per_node = take(settings, "trainer.n_gpus_per_node", 8)
    prompt = take(settings, "data.max_prompt_length", 512)
    response = take(settings, "data.max_response_length", 512)
    rank = take(settings, f"{MODEL}.lora_rank", 0)
    trainer = VerlTrainer(
        settings=settings,
        draft=draft,
        num_gpus=nodes.as_int(minimum=1) * per_node.as_int(minimum=1),
        prompt=prompt.as_int(minimum=1),
        response=response.as_int(minimum=1),
        adapts=rank.as_int() > 0,
    )
    for setting in (nodes, per_node):
        draft.note(setting, f"layout of {trainer.num_gpus} GPUs")
    draft.note(prompt, "part of workload.sequence_length")
    draft.put("workload.completion_length", trainer.response, response)
    targets = settings.take(f"{MODEL}.target_modules")
    if not trainer.adapts:
        draft.drop(rank)
        if targets is not None:
            draft.drop(targets)
        return trainer
    draft.put("workload.method", "lora")
    draft.put("workload.lora.rank", rank.as_int(minimum=1), rank)
    is_all = targets is None or str(targets.value) == "all-linear"
    names = "all-linear" if targets is None or is_all else _split(targets)
    draft.put("workload.lora.target_modules", names, *(() if targets is None else (targets,)))
    return trainer


def _split(targets: Setting) -> list[str]:
    if isinstance(targets.value, str):
        return [str(name) for name in _unbracket(targets).as_list()]
    return [str(name) for name in targets.as_list()]


def _unbracket(setting: Setting) -> Setting:
    """Return a setting whose list is written as Hydra writes it."""
    text = str(setting.value).strip("[]").replace("'", "").replace('"', "")
    return Setting(key=setting.key, value=text, where=setting.where)


def _read_layout(trainer: VerlTrainer) -> None:
    """Set FSDP's layout.

    One rank casts unit by unit, as FSDP2 does.
    """
    draft, num_gpus = trainer.draft, trainer.num_gpus
    strategy = trainer.take(f"{ACTOR}.strategy", "fsdp")
    if str(strategy.value) not in _SHARDING:
        raise strategy.refuse(f"one of {', '.join(_SHARDING)}")
    ulysses = trainer.take(f"{ACTOR}.ulysses_sequence_parallel_size", 1)
    degree = ulysses.as_int(minimum=1)
    if num_gpus % degree:
        raise ulysses.refuse(f"a divisor of the {num_gpus} GPUs")
    draft.put("layout.data_parallel", num_gpus // degree)
    if degree > 1:
        draft.put("layout.context_parallel", degree, ulysses)
        draft.put("layout.context_parallel_method", "ulysses")
    else:
        draft.drop(ulysses)
    sharding = "fsdp2" if num_gpus == 1 else _SHARDING[str(strategy.value)]
    draft.put("layout.sharding", sharding, strategy)
    draft.put("layout.zero_stage", 3)
    reshards = trainer.take(f"{FSDP}.reshard_after_forward", value=True)
    draft.put("layout.reshard_after_forward", reshards.as_bool(), reshards)
    size = trainer.take(f"{FSDP}.fsdp_size", -1)
    shard = size.as_int(minimum=None)
    if 0 < shard < num_gpus:
        draft.put("layout.shard_size", shard, size)
    else:
        draft.note(size, "all ranks share one copy")


def _read_batch(trainer: VerlTrainer) -> None:
    """Set micro batches, of sequences or of tokens."""
    draft, longest = trainer.draft, trainer.prompt + trainer.response
    dynamic = trainer.take(f"{ACTOR}.use_dynamic_bsz", value=False)
    packing = _read_packing(trainer)
    mini = trainer.take(f"{ACTOR}.ppo_mini_batch_size", 256)
    repeats = trainer.take(f"{ROLLOUT}.n", 1)
    of_rank = max(1, mini.as_int(minimum=1) * repeats.as_int(minimum=1) // trainer.num_gpus)
    budget = trainer.take(f"{ACTOR}.ppo_max_token_len_per_gpu", 16384)
    batch = trainer.settings.take(
        f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.ppo_micro_batch_size"
    )
    if dynamic.as_bool():
        tokens = max(longest, budget.as_int(minimum=1))
        draft.put("workload.sequence_length", tokens, dynamic, budget)
        draft.put("workload.micro_batch_size", 1)
        micro = max(1, tokens // longest)
    else:
        draft.drop(budget)
        draft.put("workload.sequence_length", longest)
        if batch is None:
            why = "ppo_micro_batch_size_per_gpu is not said, and verl has no default"
            draft.ask("workload.micro_batch_size", why)
            return
        parts = 1 if batch.key.endswith("_per_gpu") else trainer.num_gpus
        micro = max(1, batch.as_int(minimum=1) // parts)
        draft.put("workload.micro_batch_size", micro, batch)
        draft.put("workload.packing", packing)
    steps = max(1, of_rank // micro)
    draft.put("workload.gradient_accumulation_steps", steps, mini)
    _read_scored(trainer, micro, dynamic=dynamic.as_bool())


def _read_packing(trainer: VerlTrainer) -> str:
    removes = trainer.take(f"{MODEL}.use_remove_padding", value=True)
    trainer.draft.note(removes, "sequences share one row")
    return "padding_free" if removes.as_bool() else "none"


def _read_scored(trainer: VerlTrainer, micro: int, *, dynamic: bool) -> None:
    """Set the sequences of the largest forward pass alone."""
    names = (f"{ROLLOUT}.log_prob", "actor_rollout_ref.ref.log_prob")
    sizes = []
    for name in names:
        switch = trainer.settings.take(f"{name}_use_dynamic_bsz")
        if switch is not None:
            trainer.draft.note(switch, "whether its batches are of tokens, as the update's are")
        tokens = trainer.settings.take(f"{name}_max_token_len_per_gpu")
        batch = trainer.settings.take(
            f"{name}_micro_batch_size_per_gpu", f"{name}_micro_batch_size"
        )
        if dynamic and tokens is not None:
            longest = trainer.draft.get("workload.sequence_length")
            unit = longest if isinstance(longest, int) else 1
            sizes.append((-(-tokens.as_int(minimum=1) // unit), tokens))
        elif not dynamic and batch is not None:
            parts = 1 if batch.key.endswith("_per_gpu") else trainer.num_gpus
            sizes.append((max(1, batch.as_int(minimum=1) // parts), batch))
    if sizes and max(size for size, _ in sizes) != micro:
        size = max(size for size, _ in sizes)
        trainer.draft.put("workload.log_prob_batch_size", size)
    for _, setting in sizes:
        trainer.draft.note(setting, "sequences of a forward pass alone")


def _ignore_unmodelled(settings: Settings, draft: Draft) -> None:
    for name, reason in UNMODELLED.items():
        setting = settings.take(name)
        if setting is not None and str(setting.value).casefold() not in {"false", "none", "null"}:
            draft.ignore(setting, reason)
        elif setting is not None:
            draft.drop(setting)
    for name, reason in ABOVE_ONE.items():
        degree = settings.take(name)
        if degree is not None and degree.as_int() > 1:
            draft.ignore(degree, reason)
        elif degree is not None:
            draft.drop(degree)


READERS = {
    Launcher.VERL: Reader(
        launcher=Launcher.VERL,
        versions={"verl": VERL},
        read=read_verl,
        programs=frozenset({"verl.trainer.main_ppo", "main_ppo.py", "recipe.*.main_*"}),
        marks=frozenset(
            {
                *("algorithm.adv_estimator", "actor_rollout_ref.model.path"),
                *("actor_rollout_ref.rollout.name", "data.max_response_length"),
            }
        ),
    )
}
