"""ms-swift's servers, as the engines that they start.

ms-swift 4.6, ``swift/arguments/{deploy,infer}_args.py`` and ``rlhf_trainers/args_mixin.py``: names
are the engine's behind its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from service.formats.launches.engines.engine_environment import account_environment
from service.formats.launches.engines.sglang import SGLANG, read_sglang
from service.formats.launches.engines.vllm import VLLM, read_vllm
from service.formats.launches.ms_swift.swift_keys import SWIFT, WITHOUT_EFFECT
from service.formats.launches.ms_swift.swift_methods import name_unmodelled
from service.formats.launches.ms_swift.swift_step import take_given
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, is_unset, make_default

SERVING = frozenset({"deploy", "rollout", "infer"})
"""Commands that start an engine."""
_SOURCE = f"ms-swift {SWIFT}, swift/arguments"
_ROLLOUT = "rollout"
_OTHERS = {
    "transformers": "its own generate(): ask of it by launcher generate",
    "pt": "its own generate(): ask of it by launcher generate",
    "lmdeploy": "LMDeploy: ask of lmdeploy serve api_server MODEL",
}
_IDLE = (
    *("host", "port", "api_key", "ssl_*", "owned_by", "served_model_name", "verbose"),
    *("log_interval", "log_level", "max_logprobs", "result_path", "write_batch_size", "metric"),
    *("val_dataset_sample", "reranker_use_activation", "max_batch_size", "multi_turn_scheduler"),
    *("max_turns", "use_gym_env", "gym_env", "merge_lora", "max_length", "attn_impl", "loss_type"),
    *("vllm_use_async_engine", "seed", "lmdeploy_*", "vllm_*", "sglang_*", "tuner_type", "use_ray"),
    *("quant_*", "bnb_4bit_*", "num_labels", "experts_impl"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Engine:
    """An engine's reader, its options' prefix and ms-swift's defaults."""

    read: Callable[[HandedIn, Draft], None]
    version: str
    prefix: str
    model: str
    defaults: Mapping[str, object]


_ENGINES = {
    "vllm": _Engine(
        read=read_vllm,
        version=VLLM,
        prefix="vllm_",
        model="model",
        defaults={
            "gpu_memory_utilization": 0.9,
            "max_num_seqs": 256,
            "disable_custom_all_reduce": True,
        },
    ),
    "sglang": _Engine(
        read=read_sglang,
        version=SGLANG,
        prefix="sglang_",
        model="model_path",
        defaults={"disable_custom_all_reduce": True},
    ),
}


def read_serving(kind: str, config: Settings, handed_in: HandedIn, draft: Draft) -> None:
    """Read the engine that a command starts.

    Raises LaunchFormatError for a backend that has no reader behind this one.
    """
    backend = take_given(config, "infer_backend")
    if kind == _ROLLOUT:
        backend = make_default("infer_backend", "vllm", f"{_SOURCE}/deploy_args.py, rollout")
    command = handed_in.command
    # A refusal of a default stands where the command does, which leaves it out.
    where = "files" if command is None else command.where
    backend = backend or Setting(key="infer_backend", value="transformers", where=where)
    if str(backend.value) in _OTHERS:
        raise backend.refuse(f"vllm or sglang; it runs {_OTHERS[str(backend.value)]}")
    engine = backend.as_choice(_ENGINES)
    arguments = _translate(engine, config)
    draft.note(backend, "the engine that runs")
    draft.set_version(str(backend.value), engine.version)
    engine.read(replace(handed_in, command=None, documents={}, arguments=arguments), draft)
    account_environment(draft, handed_in)
    name_unmodelled(config, draft)
    draft.account(config, (*WITHOUT_EFFECT, *_IDLE))


def _translate(engine: _Engine, config: Settings) -> Settings:
    """Return settings by the engine's names."""
    arguments = Settings()
    for name in list(config):
        if name.startswith(engine.prefix) and name != "vllm_use_async_engine":
            setting = take_given(config, name)
            if setting is not None:
                arguments.add(name.removeprefix(engine.prefix), setting)
    for name, word in (("model", engine.model), ("torch_dtype", "dtype")):
        setting = take_given(config, name)
        if setting is not None:
            arguments.add(word, setting)
    _add_adapters(config, arguments)
    for name, value in engine.defaults.items():
        arguments.add(name, make_default(name, value, f"{_SOURCE}/infer_args.py"))
    return arguments


def _add_adapters(config: Settings, arguments: Settings) -> None:
    """Add a slot for each adapter that is not merged."""
    merges, named = config.peek("merge_lora"), config.peek("adapters")
    is_merged = merges is not None and not is_unset(merges) and merges.as_bool()
    if named is None or is_unset(named) or is_merged:
        return
    config.take("adapters")
    number = max(1, len(named.as_list()))
    arguments.add("enable_lora", Setting(key=named.key, value=True, where=named.where))
    arguments.add("max_loras", Setting(key=named.key, value=number, where=named.where))
