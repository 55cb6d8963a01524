"""Axolotl's keys by the arguments that they become."""

TRAINING = {
    "micro_batch_size": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "max_grad_norm": "max_grad_norm",
    "tf32": "tf32",
    "fp16": "fp16",
    "bf16": "bf16",
    "torch_compile_backend": "torch_compile_backend",
    "torch_compile_mode": "torch_compile_mode",
    "torch_empty_cache_steps": "torch_empty_cache_steps",
    "neftune_noise_alpha": "neftune_noise_alpha",
    "auto_find_batch_size": "auto_find_batch_size",
    "optim_args": "optim_args",
    "optim_target_modules": "optim_target_modules",
    "precompute_ref_log_probs": "precompute_ref_log_probs",
    "cpo_alpha": "cpo_alpha",
    "fsdp": "fsdp",
    "fsdp_version": "fsdp_version",
    "dp_shard_size": "dp_shard_size",
    "dp_replicate_size": "dp_replicate_size",
    "tensor_parallel_size": "tensor_parallel_size",
    "context_parallel_size": "context_parallel_size",
    "sequence_parallel_degree": "sequence_parallel_degree",
}
"""Of ``TrainingArguments`` (axolotl 0.19, ``core/builders/base.py``)."""
ADAPTERS = {
    "lora_r": "r",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "lora_fan_in_fan_out": "fan_in_fan_out",
    "lora_modules_to_save": "modules_to_save",
    "lora_rank_pattern": "rank_pattern",
    "lora_target_parameters": "target_parameters",
    "lora_exclude_modules": "exclude_modules",
    "peft_use_dora": "use_dora",
    "peft_use_rslora": "use_rslora",
    "peft_layers_to_transform": "layers_to_transform",
    "peft_layers_pattern": "layers_pattern",
    "peft_init_lora_weights": "init_lora_weights",
    "peft_trainable_token_indices": "trainable_token_indices",
}
"""Of ``LoraConfig`` (axolotl 0.19, ``loaders/adapter.py``)."""
LEGACY_ATTENTION = {
    "xformers_attention": "xformers",
    "sage_attention": "sage",
    "flex_attention": "flex_attention",
    "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
"""Older switches (axolotl 0.19, ``utils/schemas/enums.py``)."""
KERNELS = ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel")
UNMODELLED = {
    "unfrozen_parameters": "every parameter is counted as trained",
    "layer_offloading": "layers are counted on the GPU",
    "selective_checkpointing": "every layer is counted as recomputed whole",
    "tiled_mlp": "the MLP is counted as one",
    "fp8": "matrix products are counted in 16 bits",
    "fp32_norms": "norms are counted in the weights' format",
    "relora": "adapters are counted as trained once",
    "quantize_moe_experts": "experts are counted as they are loaded",
    "experts_implementation": "experts are counted in their default implementation",
    "fused_attn_kernel": "attention is counted without fused kernels",
    "qat": "weights are counted without fake quantisation",
    "lisa_n_layers": "every layer is counted as trained",
    "large_head_attention": "attention is counted as attn_implementation says",
    "flash_attn_fuse_mlp": "the MLP is counted as the model's own",
    "freeze_mm_modules": "modules of other inputs are counted as the model trains them",
    "resize_token_embeddings_to_32x": "the vocabulary is counted as the config has it",
    "process_reward_model": "training is counted as supervised",
    "model_quantization_config": "weights are counted as they are loaded",
    "cut_cross_entropy": "the loss is counted over whole logits",
    "chunked_cross_entropy": "the loss is counted over whole logits",
    "expert_parallel_size": "experts are counted on every GPU",
    "deepcompile": "gathers are counted as DeepSpeed makes them without its compiler",
    "do_causal_lm_eval": "what it generates after an evaluation is not counted",
    "do_bench_eval": "its benchmark after an evaluation is not counted",
    "lm_eval_post_train": "lm_eval after training is not counted",
}
UNFROZEN_BESIDE_ADAPTERS = (
    "adapters are counted as trained and nothing else: the patterns are matched with the beginning "
    "of PEFT's names, base_model.model.…, and adapters that match none are frozen, too"
)
"""axolotl 0.21, ``train.py`` and ``utils/freeze.py``, which come after the adapters are made."""
OVERRIDES = {
    "overrides_of_model_config": "the config is counted as the model's own",
    "overrides_of_model_kwargs": "the model is counted as the other keys load it",
}
"""Beginnings of keys that may change what is loaded."""
OF_PREFERENCES = {
    "dpo_use_liger_kernel": "logits of preferences are counted whole",
    "dpo_padding_free": "rows of preferences are counted as padded",
}
"""Keys that count where preferences are trained on."""
WITHOUT_EFFECT = (
    *("base_model_config", "base_model_ignore_patterns", "model_type", "type_of_model", "plugins"),
    *("tokenizer_*", "processor_*", "is_*_derived_model", "trust_remote_code", "strict", "rl_beta"),
    *(
        "datasets",
        "test_datasets.*",
        "dataset*",
        "pretraining_dataset",
        "shuffle_*",
        "push_dataset*",
    ),
    *("hub_*", "hf_use_auth_token", "output_dir", "num_epochs", "max_steps"),
    *("lr_*", "learning_rate", "lr_scheduler*", "cosine_*", "warmup_*", "weight_decay", "adam_*"),
    *(
        "wandb_*",
        "mlflow_*",
        "comet_*",
        "trackio_*",
        "use_wandb",
        "use_tensorboard",
        "use_*_logger",
    ),
    *("logging_steps", "eval_causal_lm_metrics", "eval_table_size", "eval_max_new_tokens"),
    *("save_*", "saves_per_epoch", "seed", "debug"),
    *("train_on_inputs", "group_by_length", "early_stopping_patience", "resume_from_checkpoint"),
    *("auto_resume_from_checkpoints", "local_rank", "special_tokens*", "tokens", "chat_template*"),
    *("loss_watchdog_*", "dataloader_*", "remove_unused_columns", "lora_model_dir", "ddp*"),
    *("excess_length_strategy", "sample_packing_*", "default_system_*"),
    *("multipack_real_batches", "pad_to_sequence_len", "gc_steps", "gc_collect_steps", "device*"),
    *("load_best_model_at_end", "metric_for_best_model", "greater_is_better"),
    *("loraplus_*", "merge_lora", "low_cpu_mem_usage", "lora_on_cpu", "include_*", "profiler_*"),
    *("eot_tokens", "fix_untrained_tokens", "skip_prepare_dataset", "streaming*", "is_preprocess"),
    *("dpo_*", "kto_*", "simpo_gamma", "orpo_alpha", "center_rewards_coefficient"),
    *("ray_*", "use_ray", "embeddings_skip_upcast", "reinit_weights", "added_tokens_overrides"),
    *("min_sample_len", "curriculum_sampling", "ebft*"),
    *("revision_of_model", "use_otel_metrics", "otel_*", "generate_samples", "num_labels"),
    *("liger_use_token_scaling", "gptq_disable_exllama", "accelerator_config*", "world_size"),
    *("fsdp_final_state_dict_type", "batch_flattening", "pretrain*", "heads_k_stride"),
    *("ring_attn_func", "torchdistx_path", "bfloat16", "float16"),
    *("tokens.*", "use_swanlab", "swanlab_*", "experimental_skip_move_to_device", "*.eta_min"),
    *("lora_alpha_pattern", "save_first_step", "gptq", "model_config.*", "eta_min"),
    *("bnb_config_kwargs.*", "flex_attn_compile_kwargs.*", "qgalore_*", "dion_*", "early_*"),
)
"""Keys that decide neither the memory nor the time of a step."""
OFFLOADS = frozenset({"offload", "offload_disk"})
"""Values of ``gradient_checkpointing`` that keep activations on the host."""
OFFLOAD = dict.fromkeys(("offload_params", "fsdp_offload_params"), "fsdp_config.cpu_offload")
"""Names of FSDP's offload, which axolotl turns on itself (``utils/trainer.py``)."""
