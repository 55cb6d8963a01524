"""Keys of ms-swift by what becomes of each.

ms-swift 4.6, ``swift/arguments/*`` and ``swift/trainers/arguments.py``.
"""

from collections.abc import Mapping

SWIFT = "4.6.0"
"""Release whose keys and defaults are known."""
MANY = frozenset(
    {
        *("dataset", "val_dataset", "cached_dataset", "cached_val_dataset", "eval_dataset"),
        *("target_modules", "target_parameters", "modules_to_save", "adapters", "ref_adapters"),
        *("reward_adapters", "teacher_adapters", "reward_funcs", "reward_model", "reward_weights"),
        *("reward_model_type", "reward_model_plugin", "reward_model_revision", "reward_template"),
        *("loss_type", "loss_weights", "freeze_parameters", "trainable_parameters", "report_to"),
        *("external_plugins", "custom_register_path", "custom_dataset_info", "callbacks"),
        *("model_name", "model_author", "new_special_tokens", "interleave_prob", "stop_words"),
        *("vllm_server_host", "vllm_server_base_url", "vllm_server_port", "chord_sft_dataset"),
        *("recompute_modules", "moe_router_load_balancing_type", "cp_comm_type"),
        *("vllm_server_group_port", "galore_target_modules", "label_names", "reft_layers"),
    }
)
"""Options with any number of values."""
ADAPTERS = {
    "lora_rank": "r",
    "lora_alpha": "lora_alpha",
    "use_dora": "use_dora",
    "use_rslora": "use_rslora",
    "modules_to_save": "modules_to_save",
    "target_parameters": "target_parameters",
    "init_weights": "init_lora_weights",
}
"""Of ``LoraConfig`` (``pipelines/train/tuner.py``, ``prepare_adapter``)."""
DEEPSPEED: Mapping[str, Mapping[str, object]] = {
    "zero0": {"stage": 0},
    "zero1": {"stage": 1},
    "zero2": {"stage": 2},
    "zero2_offload": {"stage": 2, "offload_optimizer.device": "cpu"},
    "zero3": {"stage": 3},
    "zero3_offload": {
        "stage": 3,
        "offload_optimizer.device": "cpu",
        "offload_param.device": "cpu",
    },
}
"""What decides memory in the files that come with it (``swift/config``)."""
UNMODELLED = {
    "freeze_parameters": "every parameter is counted as the method trains it",
    "freeze_parameters_regex": "every parameter is counted as the method trains it",
    "freeze_parameters_ratio": "every parameter is counted as the method trains it",
    "trainable_parameters": "parameters are counted as the method trains them",
    "trainable_parameters_regex": "parameters are counted as the method trains them",
    "freeze_llm": "modules of other inputs are counted as the method trains them",
    "freeze_vit": "modules of other inputs are counted as the method trains them",
    "freeze_aligner": "modules of other inputs are counted as the method trains them",
    "vit_gradient_checkpointing": "every module is counted as gradient_checkpointing says",
    "experts_impl": "experts are counted in their default implementation",
    "enable_dft_loss": "the loss is counted as cross-entropy",
    "lisa_activated_layers": "every layer is counted as trained",
    "mrl_dims": "the loss is counted as cross-entropy",
    "use_swift_lora": "adapters are counted as PEFT's",
    "lora_bias": "biases are counted as frozen",
    "router_aux_loss_coef": "the loss that balances experts is counted as the model has it",
    "eval_use_evalscope": "what it generates in an evaluation is not counted",
    "use_flash_ckpt": "what it saves is not counted on the GPU",
    "reward_model": "a reward model on the same GPU is not counted",
    "teacher_model": "a teacher on the same GPU is not counted",
    "ref_adapters": "the reference's adapters take more",
    "callbacks": "what they do is not counted",
    "eval_metric": "what an evaluation keeps for it is not counted",
}
"""Keys that count where they are on, with what is counted in their place."""
OFF = frozenset({"", "0", "0.0", "none", "false", "no"})
WITHOUT_EFFECT = (
    *("dataset", "val_dataset", "cached_*", "split_dataset_ratio", "data_seed", "dataset_*"),
    *("load_from_cache_file", "val_dataset_shuffle", "streaming", "interleave_prob"),
    *("stopping_strategy", "shuffle_buffer_size", "download_mode", "columns", "strict"),
    *("disable_auto_column_mapping", "model_name", "model_author", "custom_dataset_info"),
    *("decision_*", "template", "template_backend", "system", "truncation_strategy"),
    *("agent_template", "norm_bbox", "use_chat_template", "padding_side", "loss_scale"),
    *("is_binary_loss_scale", "response_prefix", "enable_thinking", "preserve_thinking"),
    *("add_non_thinking_prefix", "disable_ignore_empty_think", "model_type", "model_revision"),
    *("local_repo_path", "init_strategy", "new_special_tokens", "problem_type", "max_model_len"),
    *("rope_scaling", "adapters", "external_plugins", "custom_register_path", "load_args"),
    *("load_data_args", "packing_*", "lazy_tokenize", "use_hf", "hub_token", "ignore_args_error"),
    *("enable_npu_model_patch", "hqq_axis", "bnb_4bit_quant_type", "bnb_4bit_quant_storage"),
    *("add_version", "create_checkpoint_symlink", "swanlab_*", "check_model", "acc_strategy"),
    *("train_dataloader_shuffle", "max_epochs", "aligner_lr", "vit_lr", "enable_channel_loss"),
    *("ds3_gather_for_generation", "resume_only_model", "early_stop_interval", "eval_dataset*"),
    *("eval_limit", "eval_generation_config*", "extra_eval_args", "safe_serialization"),
    *("max_shard_size", "lora_ga_*", "lorap_lr_ratio", "fourier_*", "boft_*", "vera_*"),
    *("adapter_act", "adapter_length", "adalora_*", "llamapro_*", "reft_*", "lora_alpha"),
    *("galore_*", "lisa_step_interval", "num_beams", "stop_words", "logprobs", "top_logprobs"),
    *("top_p", "top_k", "temperature", "repetition_penalty", "max_new_tokens", "stream"),
    *("ref_model_type", "ref_model_revision", "reward_model_*", "reward_adapters"),
    *("reward_template", "teacher_model_*", "teacher_adapters", "teacher_tag_key", "rpo_alpha"),
    *("label_smoothing", "discopop_tau", "loss_weights", "use_ray", "ray_*", "device_groups"),
    *("sft_alpha", "lmbda", "seq_kd", "gkd_*", "num_ppo_epochs", "whiten_rewards", "kl_coef"),
    *("cliprange*", "vf_coef", "gamma", "lam", "num_mini_batches", "missing_eos_penalty"),
    *("local_rollout_forward_batch_size", "num_sample_generations", "label_names", "ddp_*"),
    *("warmup_ratio", "logging_dir", "create_model_card", "use_logits_to_keep", "generation_*"),
    *("structured_outputs_regex", "accelerator_config", "sortish_sampler", "teacher_deepspeed"),
    *("cpo_alpha", "simpo_gamma", "alpha"),
)
"""Keys that decide neither the memory nor the time of a step, by patterns."""
OF_PICTURES = ("max_pixels", "model_kwargs")
"""Keys that decide how many tokens a picture has."""
POLICY_WITHOUT_EFFECT = (
    *("num_generations*", "reward_funcs", "reward_weights", "log_*", "num_iterations", "min_p"),
    *("epsilon*", "delta", "cosine_*", "repetition_*", "chord_*", "ref_model_*", "max_turns"),
    *("completion_length_limit_scope", "vllm_server_*", "use_gym_env", "gym_env", "fipo_*"),
    *("dynamic_sample", "max_resample_times", "overlong_filter", "soft_*", "scale_rewards"),
    *("importance_sampling_level", "tau_*", "advantage_*", "kl_in_reward", "teacher_kl_coef"),
    *("rlsd_*", "sdar_*", "real_tau", "rollout_importance_*", "off_policy_*", "wandb_log_*"),
    *("structured_outputs_regex", "enable_flattened_weight_sync", "multi_turn_scheduler"),
    *("vllm_disable_custom_all_reduce", "vllm_reasoning_parser", "vllm_disable_cascade_attn"),
    *("vllm_use_async_engine", "vllm_enable_prefix_caching", "vllm_limit_mm_per_prompt*"),
    *("sync_ref_model", "response_length", "max_completion_length", "offload_teacher_model"),
)
POLICY_UNMODELLED = {
    "vllm_quantization": "the engine's weights are counted in 16 bits, which take more",
    "vllm_enable_lora": "adapters are counted as merged into the engine's weights",
    "vllm_pipeline_parallel_size": "the engine is counted as one stage",
    "vllm_data_parallel_size": "the engine is counted as one replica a tensor group",
    "vllm_enable_expert_parallel": "experts are counted as cut with their layers",
    "vllm_speculative_config": "the engine is counted without a draft",
    "vllm_engine_kwargs": "the engine is counted with its defaults",
    "vllm_mm_processor_cache_gb": "a cache of encoded inputs has no term",
    "move_model_batches": "weights are counted as sent tensor by tensor",
    "top_entropy_quantile": "the entropy of each token is not counted",
    "log_entropy": "the entropy of each token is not counted",
    "use_liger_kernel": "log-probabilities are counted over whole logits, which take more",
    "padding_free": "rows are counted with their padding",
    "chord_sft_per_device_train_batch_size": "the batch of supervised rows takes more",
}
"""Of a policy alone."""
