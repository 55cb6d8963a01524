"""Megatron-SWIFT, as arguments of Megatron-LM over a named model.

ms-swift 4.6, ``swift/megatron/arguments/*``, whose names are Megatron Core's but for a few.
"""

from collections.abc import Mapping

from service.formats.launches.ms_swift.swift_keys import SWIFT, WITHOUT_EFFECT
from service.formats.launches.ms_swift.swift_methods import name_unmodelled
from service.formats.launches.ms_swift.swift_step import take_given
from service.formats.launches.pretraining.launch_command import count_ranks
from service.formats.launches.pretraining.megatron import put_training
from service.formats.launches.pretraining.megatron_keys import MEGATRON
from service.formats.launches.pretraining.megatron_keys import WITHOUT_EFFECT as OF_MEGATRON
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.number_formats import DTYPES
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, is_unset, make_default

KEYS = frozenset(
    {
        *("micro_batch_size", "global_batch_size", "train_iters", "recompute_granularity"),
        *(
            "tensor_model_parallel_size",
            "pipeline_model_parallel_size",
            "expert_model_parallel_size",
        ),
    }
)
"""Keys that tell its files from those of ``swift``."""
_SOURCE = f"ms-swift {SWIFT}, swift/megatron/arguments/megatron_args.py"
_DEFAULTS: Mapping[str, object] = {
    "micro_batch_size": 1,
    "global_batch_size": 16,
    "recompute_granularity": "selective",
    "use_distributed_optimizer": True,
    "cross_entropy_loss_fusion": True,
    "attention_backend": "flash",
    "gradient_accumulation_fusion": True,
}
_OF_EXPERTS: Mapping[str, object] = {
    "moe_grouped_gemm": True,
    "expert_tensor_parallel_size": 1,
    "moe_token_dispatcher_type": "alltoall",
}
_RENAMED = {
    "virtual_pipeline_model_parallel_size": "num_virtual_stages_per_pipeline_rank",
    "apply_rope_fusion": "rope_fusion",
    "bias_activation_fusion": "bias_swiglu_fusion",
    "overlap_p2p_comm": "overlap_p2p_communication",
}
"""Its names for Megatron-LM's."""
_METHODS = {"full": "full", "lora": "lora"}
_OF_ADAPTERS = ("lora_alpha", "lora_dropout", "lora_dtype", "use_rslora", "target_regex")
_IDLE = (
    *("no_save_optim", "no_save_rng", "no_load_optim", "no_load_rng", "mcore_*", "bridge_backend"),
    *("save_missing_weights", "save_safetensors", "merge_lora", "vit_attn_impl", "manual_gc*"),
    *("vit_gradient_checkpointing_kwargs", "num_train_epochs", "output_dir", "logging_steps"),
    *("report_to", "eval_*", "metric_for_best_model", "greater_is_better", "dataloader_*"),
    *("data_sharding", "group_by_length", "nccl_comm_warmup", "batch_p2p_comm", "sgd_momentum"),
    *("seed", "data_parallel_random_init", "save_steps", "save_total_limit", "fp8_amax_*"),
    *("moe_token_drop_policy", "mtp_decoder_input_detach", "ref_model", "fp8_*"),
    *("distrib_optim_*", "ddp_*", "muon_*", "engram_tokenizer_map", "offload_bridge"),
)
_NOT_COUNTED = {
    "loss_type": "the loss is counted as cross-entropy",
    **dict.fromkeys(
        (
            *("dsa_indexer_loss_coeff", "dsa_indexer_use_sparse_loss", "apply_dsa_kernel_fusion"),
            *("csa_dense_mode", "use_fused_mhc", "linear_decoupled_in_proj"),
        ),
        "layers are counted as their family's are by default",
    ),
    "language_model_only": "modules of other inputs are counted",
    "enable_dft_loss": "the loss is counted as cross-entropy",
    "mlp_padding_free": "rows are counted with what they hold",
    "mtp_shared_weights": "predicting layers are counted with weights of their own",
    "megatron_extra_kwargs": "the model is counted as its config has it",
    "mhc_recompute_layer_num": "layers are counted as recompute_granularity says",
    "cp_partition_mode": "a sequence's parts are counted as even",
    "sequence_packing_scheduler": "rows are counted as full",
}


def read_megatron_swift(config: Settings, handed_in: HandedIn, draft: Draft) -> None:
    """Set the question of a training on Megatron-LM."""
    draft.set_version("megatron-core", MEGATRON)
    name = take_given(config, "model")
    if name is None:
        draft.ask("model", "the launch names no --model")
    else:
        draft.put("model", name.as_text(), name)
    _put_method(config, draft)
    processes = count_ranks(handed_in, draft)
    arguments = _translate(config, handed_in, None if name is None else name.as_text(), draft)
    put_training(arguments, _read_environment(handed_in), processes, draft, handed_in)
    draft.account(arguments, (*OF_MEGATRON, *WITHOUT_EFFECT, *_IDLE))


def _put_method(config: Settings, draft: Draft) -> None:
    kind = take_given(config, "tuner_type") or take_given(config, "train_type")
    kind = kind or make_default("tuner_type", "full", _SOURCE)
    draft.put("workload.method", kind.as_choice(_METHODS), kind)
    rank = config.take("lora_rank")
    idle = [config.take(key) for key in _OF_ADAPTERS]
    saved, targets = config.take("modules_to_save"), take_given(config, "target_modules")
    if kind.value == "full":
        idle += [rank, saved, targets]
    for setting in idle:
        if setting is not None:
            draft.drop(setting)
    if kind.value == "full":
        return
    if saved is not None:
        draft.ignore(saved, "these modules are trained whole beside the adapters, which takes more")
    rank = rank or make_default("lora_rank", 8, _SOURCE)
    draft.put("workload.lora.rank", rank.as_int(minimum=1), rank)
    named = "all-linear" if targets is None else [str(name) for name in targets.as_list()]
    word = "all-linear" if named == ["all-linear"] else named
    draft.put("workload.lora.target_modules", word, *(() if targets is None else (targets,)))


def _translate(
    config: Settings, handed_in: HandedIn, model_name: str | None, draft: Draft
) -> Settings:
    """Return settings by Megatron-LM's names, with ms-swift's defaults."""
    checkpoint = handed_in.find_checkpoint(model_name)
    arguments = Settings()
    _add_length(config, arguments, draft)
    native = None if checkpoint is None else checkpoint.dtype
    _add_formats(config, arguments, native)
    for key, reason in _NOT_COUNTED.items():
        setting = config.take(key)
        if setting is not None and not is_unset(setting):
            draft.ignore(setting, reason)
    name_unmodelled(config, draft)
    for key, setting in config.list_left():
        config.take(key)
        if is_unset(setting) or (key == "recompute_granularity" and setting.value == "none"):
            draft.drop(setting)
        else:
            arguments.add(_RENAMED.get(key, key), setting)
    says_granularity = "recompute_granularity" in {*config}
    for key, value in _DEFAULTS.items():
        if not (key == "recompute_granularity" and says_granularity):
            arguments.add(key, make_default(key, value, _SOURCE))
    granularity = arguments.peek("recompute_granularity")
    if granularity is not None and granularity.value == "selective":
        modules = make_default("recompute_modules", ["core_attn"], _SOURCE)
        arguments.add("recompute_modules", modules)
    if checkpoint is not None and checkpoint.num_experts:
        source = "the model's config"
        arguments.add("num_experts", make_default("num_experts", checkpoint.num_experts, source))
        for key, value in _OF_EXPERTS.items():
            arguments.add(key, make_default(key, value, _SOURCE))
    return arguments


def _add_length(config: Settings, arguments: Settings, draft: Draft) -> None:
    """Add the tokens of a row, which packed samples fill."""
    packing, free = config.take("packing"), config.take("padding_free")
    for setting in (packing, free):
        if setting is not None:
            draft.note(setting, "rows are counted as full")
    length, packed = take_given(config, "max_length"), take_given(config, "packing_length")
    if packed is not None and length is not None:
        draft.note(length, "packing_length says how long rows are")
    chosen = packed or length
    if chosen is not None:
        arguments.add("seq_length", chosen)


def _add_formats(config: Settings, arguments: Settings, native: str | None) -> None:
    """Add the 16 bits: bf16 for a model in bf16, else fp16."""
    dtype = take_given(config, "torch_dtype")
    bf16, fp16 = take_given(config, "bf16"), take_given(config, "fp16")
    if bf16 is not None or fp16 is not None:
        for name, switch in (("bf16", bf16), ("fp16", fp16)):
            if switch is not None:
                arguments.add(name, switch)
        return
    word = DTYPES.get(str(native if dtype is None else dtype.value).casefold(), "bf16")
    name = "bf16" if word == "bf16" else "fp16"
    default = make_default(name, value=True, source=_SOURCE)
    if dtype is not None:
        default = Setting(key=dtype.key, value=True, where=dtype.where)
    arguments.add(name, default)


def _read_environment(handed_in: HandedIn) -> Settings:
    command = handed_in.command
    if command is None:
        return Settings()
    return Settings(
        [
            Setting(key=name, value=value, where=command.where)
            for name, value in command.environment.items()
        ]
    )
