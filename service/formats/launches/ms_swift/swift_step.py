"""Batch, formats, rows and evaluations of ms-swift's trainers.

ms-swift 4.6, ``trainers/arguments.py``, ``trainers/mixin.py`` and ``arguments/*``.
"""

from service.formats.launches.ms_swift.swift_keys import SWIFT
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.number_formats import DTYPES
from service.formats.launches.trainers.processes import count_processes
from service.formats.launches.trainers.setup import Client
from service.formats.launches.trainers.trainer import parse_object
from service.formats.launches.trainers.trl_config import take_word
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Checkpoint
from service.formats.launches.values.settings import Setting, Settings, is_unset, make_default

_SOURCE = f"ms-swift {SWIFT}, swift"
_ARGUMENTS = f"{_SOURCE}/trainers/arguments.py"
_TOTAL = 16
"""Rows of a step where nothing says its accumulation (``TrainArgumentsMixin.__post_init__``)."""
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attn")
_OPTIMIZERS = {"galore": "galore_adamw", "muon": "muon", "muonclip": "muon"}
_GROUPED = frozenset({"default", "lorap", "multimodal"})
"""Optimizer plugins that group parameters of the one that ``optim`` names."""
_DISTRIBUTED = frozenset({"NPROC_PER_NODE", "NNODES"})
_VALIDATION = ("val_dataset", "cached_val_dataset", "eval_dataset")
_DEFAULT_LENGTH = 2048


def put_batch(
    config: Settings, training: Settings, handed_in: HandedIn, client: Client, draft: Draft
) -> None:
    """Add the batch.

    Sixteen rows of all processes are a step, one batch of a policy.
    """
    for name in ("per_device_train_batch_size", "per_device_eval_batch_size"):
        training.add(name, take_given(config, name) or make_default(name, 1, _ARGUMENTS))
    name = "gradient_accumulation_steps"
    steps = take_given(config, name)
    if steps is not None:
        training.add(name, steps)
        return
    batch = training.peek("per_device_train_batch_size")
    rows = 1 if batch is None else batch.as_int(minimum=1)
    processes = count_processes(handed_in, None)
    world = 1 if processes.count is None else processes.count
    number = 1 if client is Client.GRPO else max(1, -(-_TOTAL // (rows * world)))
    if processes.count is None and processes.is_started and number > 1:
        why = f"ms-swift makes {_TOTAL} rows of all processes' batches, and their number is open"
        draft.ask(f"workload.{name}", why, (number, 1), is_assumed=True)
    training.add(name, make_default(name, number, _ARGUMENTS))


def put_formats(
    config: Settings, training: Settings, model: Settings, checkpoint: Checkpoint | None
) -> None:
    """Add the weights' format and autocast's: bf16 over bf16, else fp16."""
    source = f"{_SOURCE}/arguments/base_args/model_args.py"
    dtype = take_given(config, "torch_dtype")
    model.add("dtype", dtype or make_default("torch_dtype", "auto", source))
    native = None if checkpoint is None else checkpoint.dtype
    word = DTYPES.get(str(native if dtype is None else dtype.value).casefold(), "bf16")
    for half, is_on in (("bf16", word == "bf16"), ("fp16", word != "bf16")):
        switch = take_given(config, half)
        training.add(half, switch or make_default(half, value=is_on, source=source))


def put_checkpointing(config: Settings, training: Settings, handed_in: HandedIn) -> None:
    """Add that layers are computed again, and how (``_fix_gradient_checkpointing``).

    Checkpoints are reentrant on one process, and under DeepSpeed or FSDP.
    """
    source = f"{_SOURCE}/trainers/mixin.py"
    name = "gradient_checkpointing"
    switch = take_given(config, name) or make_default(name, value=True, source=_ARGUMENTS)
    training.add("activation_checkpointing", switch)
    below = config.take_group(f"{name}_kwargs")
    text = take_given(config, f"{name}_kwargs")
    chosen = (below if text is None else parse_object(text)).take("use_reentrant")
    command = handed_in.command
    names = frozenset() if command is None else frozenset(command.environment)
    is_alone = not (_DISTRIBUTED & names) and not count_processes(handed_in, None).is_started
    shards = any(name.partition(".")[0] in {"deepspeed", "fsdp"} for name in (*config, *training))
    reentrant = make_default("use_reentrant", value=is_alone or shards, source=source)
    if switch.as_bool():
        training.add("activation_checkpointing_kwargs.use_reentrant", chosen or reentrant)


def put_optimizer(config: Settings, training: Settings, draft: Draft) -> None:
    """Add the optimizer that a plugin is."""
    plugin, galore = take_given(config, "optimizer"), config.take("use_galore")
    if galore is not None and galore.as_bool():
        plugin = plugin or Setting(key=galore.key, value="galore", where=galore.where)
    elif galore is not None:
        draft.drop(galore)
    if plugin is None:
        return
    if str(plugin.value) in _GROUPED:
        draft.note(plugin, "groups of parameters, each with the optimizer that optim names")
        return
    former = config.take("optim")
    if former is not None:
        draft.drop(former)
    word = plugin.as_choice({**_OPTIMIZERS, **{name: name for name in sorted(_GROUPED)}})
    training.add("optim", Setting(key=plugin.key, value=word, where=plugin.where))


def put_rows(config: Settings, training: Settings, client: Client, draft: Draft) -> None:
    """Set how rows are filled, and how long they are.

    A policy's are prompts and completions.
    """
    is_packed = _read_filling(config, client, draft)
    length, packed = take_given(config, "max_length"), take_given(config, "packing_length")
    if packed is not None and not is_packed:
        draft.drop(packed)
    elif packed is not None:
        if length is not None:
            draft.note(length, "packing_length says how long rows are")
        length = packed
    if length is not None:
        training.add("max_length", length)
    elif not client.is_policy:
        why = "without max_length rows are as long as the data's, up to the model's limit"
        draft.ask("workload.sequence_length", why)
        training.add("max_length", make_default("max_length", _DEFAULT_LENGTH, why))


def _read_filling(config: Settings, client: Client, draft: Draft) -> bool:
    """Set whether rows hold several samples; return whether they are packed."""
    fills = False
    for name, word in (("packing", "packed"), ("padding_free", "padding_free")):
        setting = config.take(name)
        if setting is None:
            continue
        if not setting.as_bool():
            draft.drop(setting)
        elif client is not Client.TRAINER:
            draft.ignore(setting, "rows are counted with their padding")
        elif fills:
            draft.note(setting, "packed rows have no padding")
        else:
            draft.put("workload.packing", word, setting)
        fills = fills or (name == "packing" and setting.as_bool())
    return fills


def put_attention(config: Settings, model: Settings, draft: Draft) -> None:
    """Add the attention; without a word transformers chooses it."""
    attention = take_given(config, "attn_impl")
    if attention is not None and str(attention.value) in _ATTENTION:
        model.add("attn_implementation", attention)
    elif attention is not None:
        draft.ignore(attention, "attention is counted as SDPA's")


def put_evaluation(config: Settings, training: Settings, draft: Draft) -> None:
    """Add when an evaluation runs: as often as it saves.

    It needs data of its own (``sft_args.py``, ``_init_eval_strategy``; ``trainers/mixin.py``).
    """
    ratio = config.peek("split_dataset_ratio")
    has_data = any(name in config for name in _VALIDATION)
    has_data = has_data or (ratio is not None and ratio.as_float() > 0.0)
    source = f"{_SOURCE}/arguments/sft_args.py"
    strategy, saved = take_given(config, "eval_strategy"), config.peek("save_strategy")
    if has_data:
        word = "steps" if saved is None else str(saved.value)
        training.add("eval_strategy", strategy or make_default("eval_strategy", word, source))
    elif strategy is not None:
        draft.drop(strategy)


def put_loss(config: Settings, training: Settings, client: Client, draft: Draft) -> None:
    """Account for the loss: of supervised rows the model's own or Liger's."""
    loss, liger = take_word(config, "loss_type"), config.peek("use_liger_kernel")
    if loss is not None and client is not Client.TRAINER:
        training.add("loss_type", loss)
    if client is not Client.TRAINER:
        return
    if loss is not None:
        draft.ignore(loss, "the loss is counted as cross-entropy")
    # Losses of single tokens are made of logits, whatever kernels there are.
    names = ("enable_dft_loss", "enable_channel_loss")
    switches = [config.peek(name) for name in names]
    on = [switch for switch in switches if switch is not None and switch.as_bool()]
    if on and liger is not None and liger.as_bool():
        draft.put("workload.loss", "full_logits", on[0])


def take_given(config: Settings, name: str) -> Setting | None:
    """Return a setting that says something."""
    setting = config.take(name)
    return None if setting is None or is_unset(setting) else setting
