"""Sharding of ms-swift's states, and processes with several GPUs.

ms-swift 4.6, ``arguments/sft_args.py`` (``_init_deepspeed``, ``_init_fsdp``), ``swift/config/*``
and ``model/utils.py`` (``get_default_device_map``).
"""

from pathlib import PurePosixPath

from service.formats.launches.ms_swift.swift_keys import DEEPSPEED, SWIFT
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.deepspeed_config import SHIPPED
from service.formats.launches.trainers.launch_files import sort_files
from service.formats.launches.trainers.processes import count_processes, count_visible
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, is_unset, make_default

_SOURCE = f"ms-swift {SWIFT}, swift/config"
_FSDP = {
    "fsdp_version": 2,
    "reshard_after_forward": True,
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "activation_checkpointing": True,
}
"""What decides memory in ``fsdp2.json``."""
_INLINE = {
    "zero_hpz_partition_size": "deepspeed.zero_optimization.zero_hpz_partition_size",
    "deepspeed_autotp_size": "deepspeed.tensor_parallel.autotp_size",
}


def put_engines(
    config: Settings, training: Settings, handed_in: HandedIn, model: Settings, draft: Draft
) -> None:
    """Add DeepSpeed's or FSDP's settings by Trainer's names."""
    _open_deepspeed(config, training, handed_in, draft)
    _open_fsdp(config, training, handed_in, draft)
    degree = config.take("sequence_parallel_size")
    if degree is not None and degree.as_int(minimum=1) > 1:
        training.add("sequence_parallel_degree", degree)
        draft.warn(
            f"{degree.key} {degree.value} is counted as Ulysses; heads that it does not divide go "
            "round a ring, whose buffers are not counted"
        )
    elif degree is not None:
        draft.drop(degree)
    _read_device_map(config, handed_in, model, draft)


def _refuse_shipped(named: Setting, handed_in: HandedIn) -> None:
    """Refuse a file that another project ships by this name."""
    config = handed_in.find_document(str(named.value)) or sort_files(handed_in).deepspeed
    if config is None:
        raise named.refuse(f"one of {', '.join(DEEPSPEED)}, or a file that was handed in too")


def _open_deepspeed(
    config: Settings, training: Settings, handed_in: HandedIn, draft: Draft
) -> None:
    named = config.peek("deepspeed")
    values = None if named is None else DEEPSPEED.get(str(named.value))
    if named is not None and values is not None:
        config.take("deepspeed")
        draft.note(named, "a configuration that comes with ms-swift, by its name")
        source = f"{_SOURCE}/{named.value}.json"
        for key, value in values.items():
            name = f"zero_optimization.{key}"
            training.add(f"deepspeed.{name}", make_default(name, value, source))
        for half in ("bf16", "fp16"):
            name = f"{half}.enabled"
            training.add(f"deepspeed.{name}", make_default(name, "auto", source))
    elif named is not None and PurePosixPath(str(named.value)).name in SHIPPED:
        _refuse_shipped(named, handed_in)
    elif named is not None and is_unset(named):
        config.take("deepspeed")
        draft.drop(named)
    for key, name in _INLINE.items():
        setting = config.take(key)
        if setting is not None and not is_unset(setting):
            training.add(name, setting)


def _open_fsdp(config: Settings, training: Settings, handed_in: HandedIn, draft: Draft) -> None:
    """Add FSDP's settings: those of ``fsdp2``, or of a file's two keys."""
    named = config.take("fsdp")
    if named is None or is_unset(named) or str(named.value).casefold() == "false":
        if named is not None:
            draft.drop(named)
        return
    if str(named.value) == "fsdp2":
        draft.note(named, "a configuration that comes with ms-swift, by its name")
        source = f"{_SOURCE}/fsdp2.json"
        for key, value in _FSDP.items():
            training.add(f"fsdp_config.{key}", make_default(key, value, source))
        training.add("fsdp", make_default("fsdp", "full_shard auto_wrap", source))
        return
    text = str(named.value)
    if not text.endswith(".json"):
        raise named.refuse("fsdp2, or a JSON file of ms-swift's keys fsdp and fsdp_config")
    document = handed_in.find_document(text)
    if document is None:
        raise named.refuse("a file that was handed in too")
    draft.note(named, "FSDP's configuration, which was handed in")
    strategy = document.take("fsdp") or make_default("fsdp", "full_shard auto_wrap", text)
    training.add("fsdp", strategy)


def _read_device_map(config: Settings, handed_in: HandedIn, model: Settings, draft: Draft) -> None:
    """Set that layers are spread where a process has several GPUs.

    ``get_default_device_map`` spreads them unless ZeRO-3 or FSDP shards.
    """
    placed = config.take("device_map")
    limits = config.take("max_memory")
    if limits is not None:
        draft.ignore(limits, "every GPU is counted as free for its part")
    if placed is not None:
        model.add("device_map", placed)
    processes = count_processes(handed_in, None)
    visible, _ = count_visible(handed_in)
    local = processes.per_node or processes.count or 1
    if not processes.is_started and placed is None:
        source = f"ms-swift {SWIFT}, model/utils.py, get_default_device_map"
        model.add("device_map", make_default("device_map", "auto", source))
    elif processes.is_started and visible is not None and visible >= 2 * local:
        draft.warn(
            f"each of {local} processes has {visible // local} GPUs, over which ms-swift spreads "
            "the layers, of which there is no term: the answer is for all on one"
        )
