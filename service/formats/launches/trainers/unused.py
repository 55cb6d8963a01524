"""Arguments that decide neither the memory nor the time of a step."""

WITHOUT_EFFECT = (
    *("output_dir", "overwrite_output_dir", "run_name", "project", "trackio_*", "report_to"),
    *("num_train_epochs", "max_steps", "learning_rate", "lr_scheduler_*", "warmup_*"),
    *("weight_decay", "adam_*", "label_names", "seed", "data_seed", "resume_from_checkpoint"),
    *("logging_*", "log_*", "disable_tqdm", "skip_memory_metrics", "debug", "push_to_hub", "hub_*"),
    *("do_train", "do_predict", "eval_steps", "eval_delay", "eval_use_gather_object"),
    *("greater_is_better", "load_best_model_at_end", "bf16_full_eval", "fp16_full_eval"),
    *("save_strategy", "save_steps", "save_on_each_node", "save_only_model", "save_safetensors"),
    *("dataloader_*", "remove_unused_columns", "train_sampling_strategy", "length_column_name"),
    *("group_by_length", "ignore_data_skip", "restore_callback_states_from_checkpoint"),
    *("average_tokens_across_devices", "include_*", "local_rank", "ddp_timeout", "ddp_backend"),
    *("dataset_*", "eos_token", "pad_token", "chat_template_path", "truncation_mode"),
    *("shuffle_dataset", "completion_only_loss", "assistant_only_loss", "trust_remote_code"),
    *("enable_jit_checkpoint", "use_cache", "accelerator_config.*"),
    *("beta", "loss_weights", "ld_alpha", "f_divergence_type", "label_smoothing*"),
    *("desirable_weight", "undesirable_weight", "ref_model_mixup_alpha", "ref_model_sync_steps"),
    *("center_rewards_coefficient", "disable_dropout", "tokenizer_name*", "processing_class"),
    *("fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params"),
    *("model_revision", "model_code_revision", "chat_template"),
    *("train_dataset", "eval_dataset", "callbacks", "data_collator", "tokenizer"),
)
"""Of ``TrainingArguments`` and TRL's configs, by patterns."""
MODEL_WITHOUT_EFFECT = (
    *(
        "cache_dir",
        "device_map*",
        "local_files_only",
        "revision",
        "token",
        "trust_remote_code",
        "use_safetensors",
    ),
    *("low_cpu_mem_usage", "variant", "subfolder", "use_cache"),
    "quantization_config.bnb_4bit_quant_storage",
    *("quantization_config.quant_method", "quantization_config.bnb_4bit_quant_type"),
    "quantization_config.llm_int8_threshold",
)
"""Of ``from_pretrained``."""
ADAPTERS_WITHOUT_EFFECT = (
    *("lora_alpha", "init_lora_weights", "inference_mode", "fan_in_fan_out"),
    *("base_model_name_or_path", "revision", "peft_type", "auto_mapping", "peft_version"),
)
"""Of ``LoraConfig``."""
