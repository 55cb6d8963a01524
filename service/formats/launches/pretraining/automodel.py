"""NeMo-Automodel's recipes: transformers' models on FSDP2.

NeMo-Automodel 0.7, ``recipes/llm/train_ft.py``, ``components/distributed/config.py``,
``components/_peft/lora.py``.
"""

from service.formats.launches.pretraining.automodel_step import (
    put_formats,
    put_method,
    put_step,
    take_or_default,
)
from service.formats.launches.pretraining.launch_command import count_ranks
from service.formats.launches.pretraining.mesh import Degrees, put_batches, put_ranks
from service.formats.launches.pretraining.nemo_keys import (
    AUTOMODEL,
    AUTOMODEL_WITHOUT_EFFECT,
    RECIPES,
)
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

_SOURCE = f"NeMo-Automodel {AUTOMODEL}"
_PATHS = (
    "model.pretrained_model_name_or_path",
    "model.config.pretrained_model_name_or_path",
    "model.config",
)
_LENGTHS = (
    *("packed_sequence.packed_sequence_size", "dataset.seq_length", "dataset.seq_len"),
    *("dataset.max_length", "dataset.block_size", "benchmark.seq_len", "seq_len"),
)
_STRATEGIES = {"fsdp2": "fsdp2", "ddp": "ddp", "megatron_fsdp": "fsdp2"}
_ATTENTION = {
    "eager": "eager",
    "sdpa": "sdpa",
    **dict.fromkeys(("flash_attention_2", "flash_attention_3", "flash", "flex_attention"), "flash"),
}
_UNMODELLED = {
    "model.backend.attn": "attention is counted as sdpa",
    "model.backend.linear": "matrix products keep torch's tensors",
    "model.backend.rms_norm": "norms keep torch's tensors",
    "model.backend.experts": "experts are counted as torch's",
    "model.backend.dispatcher": "experts' traffic is counted as alltoall",
    "fp8.enabled": "products are counted in 16 bits",
    "compile.enabled": "kernels are counted as torch's own, not compiled",
    "qat.enabled": "weights are counted in their own format",
    "model.use_liger_kernel": "kernels are counted as torch's own",
}


def read_automodel(config: Settings, draft: Draft, handed_in: HandedIn) -> None:
    """Read a recipe of Automodel.

    Raises LaunchFormatError for a recipe whose step has no model here.
    """
    recipe = config.take("recipe", "recipe._target_")
    name = "" if recipe is None else str(recipe.value).rpartition(".")[2]
    if name not in RECIPES and recipe is not None:
        raise recipe.refuse(f"one of {', '.join(sorted(RECIPES - {''}))}")
    if recipe is not None:
        draft.note(recipe, "what is trained")
    draft.put("workload.task", "train")
    draft.put("workload.framework", "transformers")
    _put_model(config, draft, name)
    _put_length(config, draft)
    micro = take_or_default(config, "step_scheduler.local_batch_size", 1)
    draft.put("workload.micro_batch_size", micro.as_int(minimum=1), micro)
    total = config.take("step_scheduler.global_batch_size")
    ranks = _put_layout(config, draft, handed_in, micro, total)
    put_batches(micro.as_int(minimum=1), total, ranks, draft)
    _warn_gradients(config, draft)
    attention = config.take("model.attn_implementation")
    if attention is not None:
        draft.put("workload.attention", attention.as_choice(_ATTENTION), attention)
    dtype = put_formats(config, draft)
    put_method(config, draft, dtype)
    put_step(config, draft)
    for key, reason in _UNMODELLED.items():
        setting = config.take(key)
        if setting is not None and str(setting.value).casefold() not in _PLAIN:
            draft.ignore(setting, reason)
        elif setting is not None:
            draft.drop(setting)
    draft.account(config, AUTOMODEL_WITHOUT_EFFECT)


_PLAIN = frozenset({"false", "torch", "sdpa", "none", ""})
"""Values of switches that change nothing."""


def _put_model(config: Settings, draft: Draft, recipe: str) -> None:
    path = config.take(*_PATHS)
    if path is None or not isinstance(path.value, str):
        draft.ask("model", "the recipe names no pretrained_model_name_or_path")
    else:
        draft.put("model", path.as_text(), path)
    if recipe == "FinetuneRecipeForVLM":
        draft.warn("images are not counted: say workload.num_images and image_tokens")


def _put_length(config: Settings, draft: Draft) -> None:
    packed = config.peek("packed_sequence.packed_sequence_size")
    if packed is not None and packed.as_int() == 0:
        config.take("packed_sequence.packed_sequence_size")
        draft.drop(packed)
    for name in _LENGTHS:
        length = config.peek(name)
        if length is not None and (name != _LENGTHS[0] or length.as_int() > 0):
            config.take(name)
            draft.put("workload.sequence_length", length.as_int(minimum=1), length)
            return
    draft.ask("workload.sequence_length", "the tokens of a batch's rows are the data's")


def _put_layout(
    config: Settings, draft: Draft, handed_in: HandedIn, micro: Setting, total: Setting | None
) -> int:
    """Set who shards and how; return the data-parallel ranks."""
    strategy = config.take("distributed.strategy", "distributed._target_")
    word = "fsdp2" if strategy is None else str(strategy.value)
    strategy = strategy or make_default("strategy", "fsdp2", _SOURCE)
    named = word if word in _STRATEGIES else _name_manager(word)
    sharding = Setting(key=strategy.key, value=named, where=strategy.where).as_choice(_STRATEGIES)
    draft.put("layout.sharding", sharding, strategy)
    draft.put("layout.zero_stage", 3 if sharding == "fsdp2" else 0)
    if named == "megatron_fsdp":
        draft.ignore(strategy, "Megatron-FSDP is counted as FSDP2")
    model, settings = 1, list[Setting]()
    for kind, key in (("tensor", "tp_size"), ("context", "cp_size"), ("pipeline", "pp_size")):
        setting = config.take(f"distributed.{key}")
        if setting is not None:
            draft.put(f"layout.{kind}_parallel", setting.as_int(minimum=1), setting)
            model *= setting.as_int(minimum=1)
            settings.append(setting)
    _put_switches(config, draft)
    processes = count_ranks(handed_in, draft)
    stated, copies = (
        config.take("distributed.dp_size"),
        config.take("distributed.dp_replicate_size"),
    )
    if stated is not None and processes.count is None:
        ranks = stated.as_int(minimum=1)
        draft.put("layout.data_parallel", ranks, stated)
    else:
        batches = None if total is None else total.as_int(minimum=1) // micro.as_int(minimum=1)
        spread, context = draft.get("layout.expert_parallel"), draft.get("layout.context_parallel")
        degrees = Degrees(
            model=model,
            experts=spread if isinstance(spread, int) else 1,
            stage_ranks=context if isinstance(context, int) else 1,
            settings=tuple(settings),
        )
        ranks = put_ranks(degrees, processes, batches, draft, handed_in)
        if stated is not None and stated.as_int(minimum=1) != ranks:
            raise stated.refuse(f"{ranks}, the processes over tensor x context x pipeline")
        if stated is not None:
            draft.note(stated, "data-parallel ranks")
    _put_copies(copies, ranks, draft)
    return ranks


def _warn_gradients(config: Settings, draft: Draft) -> None:
    """Tell that gradients which wait for the last micro-batch are not counted."""
    setting = config.take("distributed.defer_fsdp_grad_sync")
    steps = draft.get("workload.gradient_accumulation_steps")
    waits = setting is None or setting.as_bool()
    if waits and steps not in {None, 1} and draft.get("layout.sharding") == "fsdp2":
        draft.warn(
            "gradients are reduced at the last micro-batch (defer_fsdp_grad_sync); that they stay "
            "whole until then is not counted"
        )
    if setting is not None:
        draft.note(setting, "when gradients are reduced")


def _name_manager(target: str) -> str:
    """Return the strategy of an older recipe's manager."""
    name = target.rpartition(".")[2].casefold()
    return next((word for word in ("megatron_fsdp", "fsdp2", "ddp") if word in name), name)


def _put_copies(copies: Setting | None, ranks: int, draft: Draft) -> None:
    if copies is None:
        return
    number = copies.as_int(minimum=1)
    if number > 1 and ranks % number:
        raise copies.refuse(f"a divisor of the {ranks} data-parallel ranks")
    if number > 1:
        draft.put("layout.shard_size", ranks // number, copies)
    else:
        draft.note(copies, "one copy of the shards")


def _put_switches(config: Settings, draft: Draft) -> None:
    """Set sequence parallelism, experts and checkpointing."""
    sequence = config.take("distributed.sequence_parallel")
    if sequence is not None and sequence.as_bool():
        draft.put("layout.sequence_parallel", value=True)
        draft.note(sequence, "layout.sequence_parallel = true")
    elif sequence is not None:
        draft.drop(sequence)
    experts = config.take("distributed.ep_size")
    if experts is not None and experts.as_int(minimum=1) > 1:
        draft.put("layout.expert_parallel", experts.as_int(), experts)
    elif experts is not None:
        draft.drop(experts)
    recomputes = config.take("distributed.activation_checkpointing")
    if recomputes is not None and str(recomputes.value).casefold() in {"true", "false", "full"}:
        is_on = str(recomputes.value).casefold() != "false"
        draft.put("workload.activation_checkpointing", "full" if is_on else "none", recomputes)
    elif recomputes is not None:
        draft.ignore(recomputes, "nothing is counted as computed again")
    for name, setting in config.take_group("distributed.pipeline").take_all().items():
        schedule = config.peek("distributed.pp_size")
        reason = "the order of a pipeline that has one stage" if schedule is None else name
        draft.note(setting, reason)
    reshard = config.take("distributed.reshard_after_forward")
    if reshard is not None:
        draft.put("layout.reshard_after_forward", reshard.as_bool(), reshard)
    offload = config.take("distributed.offload_policy._target_", "distributed.offload_policy")
    if offload is not None:
        draft.put("workload.offload.parameters", "cpu", offload)
        draft.put("workload.offload.optimizer", "cpu")
