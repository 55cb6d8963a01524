"""torchtitan's settings without effect or term, and its flavours.

torchtitan 0.2.2 ``config/job_config.py`` and 0.3.0 ``config/configs.py``, ``models/*/__init__.py``.
"""

from collections.abc import Mapping

TORCHTITAN = "0.3.0"
"""Release whose keys and defaults are known, beside those of the TOML of 0.1 and 0.2."""
SOURCE = f"torchtitan {TORCHTITAN}, config/configs.py"
TOML_SOURCE = "torchtitan 0.2.2, config/job_config.py"
PROGRAMS = frozenset(
    {"torchtitan.train", "torchtitan_train.py", "run_train.sh", "torchtitan/train.py"}
)
FLAVORS: Mapping[tuple[str, str], str] = {
    ("llama3", "8B"): "llama-3.1-8b",
    ("llama3", "70B"): "llama-3.1-70b",
    ("llama3", "405B"): "llama-3.1-405b",
    **{
        ("qwen3", size): f"qwen3-{size.casefold()}"
        for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B")
    },
    ("deepseek_v3", "671B"): "deepseek-v3-bf16",
    ("gpt_oss", "20b"): "gpt-oss-20b",
    ("gpt_oss", "120b"): "gpt-oss-120b",
    ("gpt_oss", "20B"): "gpt-oss-20b",
    ("gpt_oss", "120B"): "gpt-oss-120b",
}
"""Models of the catalogue by torchtitan's name and flavour."""
DEBUG_MODELS: Mapping[str, Mapping[str, object]] = {
    "llama3": {
        "model_type": "llama",
        "vocab_size": 2048,
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "intermediate_size": 768,
        "max_position_embeddings": 131072,
    },
    "qwen3": {
        "model_type": "qwen3",
        "vocab_size": 2048,
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    },
}
"""Configs of the flavour ``debugmodel``; 0.1 has its tokenizer's vocabulary."""
SHIPPED: Mapping[str, Mapping[str, object]] = {
    "llama3_debugmodel": {
        "model.name": "llama3",
        "model.flavor": "debugmodel",
        "training.local_batch_size": 8,
        "training.seq_len": 2048,
        "activation_checkpoint.kind": "SelectiveAC",
        "parallelism.pipeline_parallel_schedule": "Interleaved1F1B",
    },
    "llama3_8b": {
        "model.name": "llama3",
        "model.flavor": "8B",
        "training.local_batch_size": 1,
        "training.seq_len": 8192,
        "activation_checkpoint.kind": "SelectiveAC",
    },
    "llama3_70b": {
        "model.name": "llama3",
        "model.flavor": "70B",
        "training.local_batch_size": 8,
        "training.seq_len": 8192,
        "activation_checkpoint.kind": "FullAC",
        "parallelism.tensor_parallel_degree": 8,
    },
    "llama3_405b": {
        "model.name": "llama3",
        "model.flavor": "405B",
        "training.local_batch_size": 2,
        "training.seq_len": 8192,
        "activation_checkpoint.kind": "FullAC",
        "parallelism.tensor_parallel_degree": 8,
        "model.converters": ["Float8LinearConverter"],
        "compile.enable": True,
    },
}
"""Configurations of ``models/llama3/config_registry.py`` by their functions."""
WITHOUT_EFFECT = (
    *(
        "job.*",
        "profiling.*",
        "profiler.*",
        "metrics.*",
        "lr_scheduler.*",
        "checkpoint.*",
        "comm.*",
    ),
    *("validation.*", "validator.*", "dataloader.*", "fault_tolerance.*", "experimental.*"),
    *("optimizer.lr", "optimizer.beta*", "optimizer.eps", "optimizer.weight_decay", "tokenizer.*"),
    *("training.dataset*", "training.steps", "training.gc_*", "training.dataloader.*"),
    *("training.warmup_steps", "training.data_parallel_replicate_degree_check", "dump_folder"),
    *("model.hf_assets_path", "model.tokenizer_path", "model.print_after_conversion", "hf_assets*"),
    *(
        "debug.seed",
        "debug.deterministic_warn_only",
        "debug.print_config",
        "debug.save_config_file",
    ),
    *("debug.enable_structured_logging", "debug.spmd_typechecking", "debug.detect_anomaly"),
    *("debug.moe_force_load_balance", "override.*", "memory_estimation.*", "compile.backend"),
    *("activation_checkpoint.preserve_rng_state", "activation_checkpoint.determinism_check"),
    *("activation_checkpoint.debug", "activation_checkpoint.early_stop", "loss.*"),
    *("activation_checkpoint.visualize_memory_budget_pareto", "compile.components"),
    *("parallelism.context_parallel_load_balancer", "parallelism.spmd_backend"),
    *("parallelism.pipeline_parallel_schedule_csv", "parallelism.context_parallel_ptrr_mask_key"),
    *(
        "quantize.*precompute_*",
        "float8.precompute_*",
        "quantize.*.fqns",
        "encoder.*",
        "inference.*",
    ),
    *("quantize.*filter_fqns", "float8.filter_fqns", "model.fuse_qkv", "optimizer.*"),
)
"""Patterns of names that decide neither memory nor time of a step."""
WITHOUT_TERM: Mapping[str, str] = {
    "parallelism.enable_async_tensor_parallel": "its symmetric buffers are not counted",
    "compile.enable_async_tensor_parallel": "its symmetric buffers are not counted",
    "parallelism.enable_fsdp_symm_mem": "its symmetric buffers are not counted",
    "parallelism.disable_loss_parallel": "the loss is counted as split over tensor ranks",
    "float8.enable_fsdp_float8_all_gather": "weights are counted as gathered in 16 bits",
    "quantize.linear.float8.enable_fsdp_float8_all_gather": "weights are counted as gathered in "
    "16 bits",
    "activation_checkpoint.memory_budget": "no budget is counted, but the mode as a whole",
    "activation_checkpoint.force_recompute_mm_shapes_by_fqns": "the default products are saved",
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns": "the default products "
    "are saved",
    "model.attn_backend": "attention is counted as sdpa",
    "model.attn_type": "attention is counted as sdpa",
    "training.disable_cuda_graphs": "no pools of CUDA graphs are counted",
    "model.moe_comm_backend": "experts' traffic is counted as the standard one",
    "model.num_mtp_layers": "layers that predict further tokens are not counted",
    "debug.batch_invariant": "kernels are counted as the usual ones",
}
"""Settings that count and have no word, and what is counted in their place."""
