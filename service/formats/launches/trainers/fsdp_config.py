"""FSDP's settings, in accelerate's words and in those of ``TrainingArguments``.

accelerate 1.15, ``utils/dataclasses.py`` and ``commands/launch.py``; transformers 5.23,
``training_args.py``, ``_process_fsdp_args``.
"""

from service.formats.launches.trainers.processes import Processes
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, is_unset, make_default

_FSDP2 = 2
_STRATEGIES = {
    **dict.fromkeys(("FULL_SHARD", "1"), "FULL_SHARD"),
    **dict.fromkeys(("SHARD_GRAD_OP", "2"), "SHARD_GRAD_OP"),
    **dict.fromkeys(("NO_SHARD", "3"), "NO_SHARD"),
    **dict.fromkeys(("HYBRID_SHARD", "4"), "HYBRID_SHARD"),
    **dict.fromkeys(("HYBRID_SHARD_ZERO2", "5"), "HYBRID_SHARD_ZERO2"),
}
"""``torch.distributed.fsdp.ShardingStrategy``, whose numbers accelerate reads too."""
_WITHOUT_EFFECT = (
    *("transformer_layer_cls_to_wrap", "transformer_cls_names_to_wrap", "backward_prefetch"),
    *("cpu_ram_efficient_loading", "sync_module_states", "use_orig_params", "state_dict_type"),
    *("final_state_dict_type", "min_num_params", "xla*", "cpu_offload_pin_memory"),
    *("limit_all_gathers", "forward_prefetch"),
)
_WRAPPED_BY_LAYERS = "TRANSFORMER_BASED_WRAP"
_OFFLOADS = ("cpu_offload", "offload_params")


def normalize_names(settings: Settings, draft: Draft, *, offload: str) -> Settings:
    """Return FSDP's settings without the prefix that some files have.

    ``offload`` is the name by which whoever reads them offloads, ``cpu_offload`` in what is
    returned; another's name is ignored, as there.
    """
    names = {name.removeprefix("fsdp_"): setting for name, setting in settings.take_all().items()}
    offloads = {name: names.pop(name) for name in _OFFLOADS if name in names}
    for name, setting in offloads.items():
        if name == offload:
            names["cpu_offload"] = setting
        elif not is_unset(setting) and setting.as_bool():
            draft.ignore(setting, f"nothing is offloaded by it: {offload} is the name that is read")
        else:
            draft.drop(setting)
    return Settings(names)


def read_arguments(settings: Settings, draft: Draft) -> Settings:
    """Return what ``TrainingArguments`` hands to accelerate of its own settings.

    It reads ``reshard_after_forward`` and no strategy, hands over no offload of activations, and a
    ``cpu_offload`` that is true alone: accelerate's file decides where it hands over nothing.
    """
    arguments = Settings(normalize_names(settings, draft, offload="cpu_offload").take_all())
    for name, reason in _UNREAD.items():
        setting = arguments.take(name)
        if setting is not None and str(setting.value).casefold() not in _AS_IT_IS:
            draft.ignore(setting, reason)
        elif setting is not None:
            draft.drop(setting)
    offload = arguments.peek("cpu_offload")
    if offload is not None and not offload.as_bool():
        draft.note(offload, "nothing is handed over: parameters stay unless accelerate's file says")
        arguments.take("cpu_offload")
    return Settings(dict(arguments.list_left()))


_AS_IT_IS = frozenset({"false", "full_shard", "1"})
"""Values that say what holds without them."""
_SOURCE = "transformers 5.23's Trainer"
_UNREAD = {
    "sharding_strategy": f"{_SOURCE} reads reshard_after_forward alone",
    "activation_checkpointing_offload": f"{_SOURCE} hands none over; accelerate's file says it",
    "activation_cpu_offload": f"{_SOURCE} hands none over; accelerate's file says it",
}
"""Settings of accelerate's file that the Trainer's ``fsdp_config`` has no part in."""


def apply_words(strategy_words: Setting, settings: Settings) -> None:
    """Add what ``fsdp`` says in the older words (``full_shard auto_wrap offload``).

    Raises LaunchFormatError for a word that there is not.
    """
    if isinstance(strategy_words.value, bool):
        return
    for word in strategy_words.as_list():
        name = str(word).casefold()
        if name in {"true", "auto_wrap"}:
            continue
        if name == "offload":
            settings.add(
                "cpu_offload",
                Setting(key=strategy_words.key, value=True, where=strategy_words.where),
            )
        elif name.upper() in _STRATEGIES:
            strategy = Setting(
                key=strategy_words.key, value=name.upper(), where=strategy_words.where
            )
            settings.add("reshard_after_forward", strategy)
        else:
            raise strategy_words.refuse(
                "full_shard, shard_grad_op, no_shard, hybrid_shard, offload or auto_wrap"
            )


def read_fsdp(settings: Settings, draft: Draft, version: Setting, processes: Processes) -> Settings:
    """Set the layout of FSDP; return arguments that it fills."""
    number = version.as_choice({"1": 1, "2": _FSDP2})
    strategy = settings.take("sharding_strategy")
    reshard = settings.take("reshard_after_forward")
    if strategy is not None and number == _FSDP2:
        draft.ignore(strategy, "FSDP2 reads reshard_after_forward alone, which keeps nothing")
        strategy = None
    sources = [setting for setting in (strategy, reshard) if setting is not None]
    word = _read_strategy(strategy, reshard, number)
    if word == "NO_SHARD":
        draft.put("layout.sharding", "ddp", *sources)
        draft.put("layout.zero_stage", 0)
    else:
        draft.put("layout.sharding", f"fsdp{number}", version)
        draft.put("layout.zero_stage", 3)
        keeps = word in {"SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2"}
        draft.put("layout.reshard_after_forward", not keeps, *sources)
    if word.startswith("HYBRID"):
        _put_copies(processes, draft, *sources)
    _read_offload(settings, draft)
    return _read_rest(settings, draft)


def _put_copies(processes: Processes, draft: Draft, *sources: Setting) -> None:
    """Set the ranks that share one copy of the states: a node's."""
    if processes.per_node is not None:
        draft.put("layout.shard_size", processes.per_node, *sources)
    elif processes.count is None or processes.nodes != 1:
        why = "hybrid sharding: each node has a copy, and its number of GPUs is not said"
        draft.ask("layout.shard_size", why)


def _read_strategy(strategy: Setting | None, reshard: Setting | None, version: int) -> str:
    """Return the strategy, which FSDP2 says by a truth value.

    Raises LaunchFormatError for the other version's word.
    """
    for setting in (reshard, strategy):
        if setting is None:
            continue
        is_switch = str(setting.value).casefold() in {"true", "false"}
        if version == 1 and is_switch:
            raise setting.refuse("a strategy such as FULL_SHARD: true and false are FSDP2's")
        if is_switch:
            return "FULL_SHARD" if setting.as_bool() else "SHARD_GRAD_OP"
        word = setting.as_choice(_STRATEGIES)
        if version == _FSDP2 and word not in {"FULL_SHARD", "SHARD_GRAD_OP"}:
            raise setting.refuse("FULL_SHARD or SHARD_GRAD_OP: FSDP2 has no other, FSDP1 has")
        return word
    return "FULL_SHARD"


def _read_offload(settings: Settings, draft: Draft) -> None:
    offload = settings.take("cpu_offload")
    if offload is not None:
        target = "cpu" if offload.as_bool() else "none"
        draft.put("workload.offload.parameters", target, offload)
        draft.put("workload.offload.optimizer", target)


def _read_rest(settings: Settings, draft: Draft) -> Settings:
    filled = Settings()
    recomputes = settings.take("activation_checkpointing")
    if recomputes is not None and recomputes.as_bool():
        filled.add("gradient_checkpointing", recomputes)
        filled.add(
            "gradient_checkpointing_kwargs.use_reentrant",
            make_default("use_reentrant", value=False, source="accelerate 1.15, accelerator.py"),
        )
    elif recomputes is not None:
        draft.note(recomputes, "FSDP recomputes nothing; the trainer's own switch decides")
    offloads = settings.take("activation_checkpointing_offload", "activation_cpu_offload")
    if offloads is not None and offloads.as_bool():
        draft.put("workload.offload.activations", "cpu", offloads)
    elif offloads is not None:
        draft.note(offloads, "activations stay on the GPU")
    wrap = settings.take("auto_wrap_policy")
    if wrap is not None and str(wrap.value).upper() != _WRAPPED_BY_LAYERS:
        draft.ignore(wrap, "units are counted as the model's layers")
    elif wrap is not None:
        draft.note(wrap, "units are the model's layers")
    precision = settings.take("mixed_precision_policy")
    if precision is not None:
        draft.note(precision, "the format that weights are gathered in")
    draft.account(settings, _WITHOUT_EFFECT)
    return filled


def override_checkpointing(filled: Settings, training: Settings, draft: Draft) -> None:
    """Account for the trainer's own switch where FSDP recomputes."""
    switch = training.peek("gradient_checkpointing")
    if switch is None or "gradient_checkpointing" not in filled:
        return
    if switch.as_bool():
        draft.note(switch, "FSDP recomputes the layers, the trainer once more")
    else:
        draft.drop(switch)
