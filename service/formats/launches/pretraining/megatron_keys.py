"""Megatron-LM's arguments that decide nothing here, and those without a term.

Megatron Core 0.20, ``megatron/training/arguments.py``, ``megatron/training/config`` and the fields
of ``core/transformer/transformer_config.py``, which are options too.
"""

from collections.abc import Mapping

from service.formats.launches.sources.argv import Grammar

MEGATRON = "0.20.0"
"""Release of Megatron Core whose arguments and defaults are known."""
SOURCE = f"Megatron Core {MEGATRON}, megatron/training/arguments.py"
PROGRAMS = frozenset(
    {
        *("pretrain_gpt*.py", "pretrain_hybrid.py", "pretrain_mamba.py", "pretrain_t5.py"),
        *("pretrain_vlm.py", "pretrain_qwen.py", "pretrain_deepseek*.py", "pretrain_llama.py"),
        "train_rl.py",
    }
)
"""Scripts of Megatron-LM and of projects around it that take its arguments."""
GRAMMAR = Grammar(
    flags=frozenset(
        {
            *("bf16", "fp16", "swiglu", "sequence_parallel", "use_distributed_optimizer"),
            *("group_query_attention", "disable_bias_linear", "add_qkv_bias", "qk_layernorm"),
            *("untie_embeddings_and_output_weights", "multi_latent_attention", "squared_relu"),
            *("recompute_activations", "moe_grouped_gemm", "use_megatron_fsdp", "use_torch_fsdp2"),
            *("optimizer_cpu_offload", "use_precision_aware_optimizer", "overlap_grad_reduce"),
            *("overlap_param_gather", "use_mcore_models", "use_flash_attn", "deterministic_mode"),
            *("accumulate_allreduce_grads_in_fp32", "grad_reduce_in_bf16", "no_load_optim"),
            *("no_load_rng", "no_position_embedding", "mock_data", "cross_entropy_loss_fusion"),
        }
    ),
    many=frozenset(
        {
            *("data_path", "train_data_path", "valid_data_path", "test_data_path", "spec"),
            *("rampup_batch_size", "recompute_modules", "moe_router_load_balancing_type"),
            *("moe_aux_loss_coeff", "cp_comm_type", "profile_ranks", "cuda_graph_modules"),
            *("cuda_graph_scope", "offload_modules", "iterations_to_skip", "mrope_section"),
            *("high_priority_stream_groups", "hierarchical_context_parallel_sizes"),
            *("tokenizer_special_tokens", "validation_set_names"),
        }
    ),
)
WITHOUT_EFFECT = (
    *("adam_*", "adlr_*", "allow_*", "async_*", "auto_detect*"),
    *("barrier_with_*", "bert_*", "block_data_path", "calculate_per_token_loss", "check_*"),
    *("ckpt_*", "config_logger_dir", "data_*_path", "data_path", "data_cache_path", "dataloader_*"),
    *("decoupled_*", "dgrad_*", "dist_ckpt_*", "distributed_backend", "distributed_timeout_*"),
    *("disable_bf16_reduced_precision_matmul", "disable_gloo_process_groups", "disable_straggler*"),
    *(
        "enable_experimental",
        "enable_ft_package",
        "enable_msc",
        "end_weight_decay",
        "eod_mask_loss",
    ),
    *(
        "error_injection_*",
        "eval_interval",
        "eval_iters",
        "exit_*",
        "fake_process_group",
        "fault_*",
    ),
    *("fim_*", "finetune", "flight_recorder_*", "full_validation", "gpu_sniff_test_interval"),
    *("head_lr_mult", "hysteresis", "inference_*", "init_method*", "initial_loss_scale"),
    *("init_model_with_meta_device", "initialization", "inprocess_*", "iterations_to_skip"),
    *("lazy_mpu_init", "lion_*", "load", "load_*", "local_rank", "log_*", "logging_level"),
    *("loss_scale*", "lr", "lr_*", "make_vocab_size_divisible_by", "manual_gc*", "mask_*"),
    *("memory_snapshot_path", "merge_file", "metadata_path", "mid_level_*", "min_loss_scale"),
    *("min_lr", "mmap_bin_files", "mock_data", "moe_aux_loss_coeff", "moe_per_layer_logging"),
    *("moe_router_bias_update_rate", "moe_router_force_*", "moe_router_topk_scaling_factor"),
    *("moe_routing_trace_*", "moe_z_loss_coeff", "mscale*", "mtp_loss_scaling_factor", "muon_*"),
    *("multiple_validation_sets", "nccl_communicator_config_path", "non_persistent_*"),
    *("norm_epsilon", "null_tokenizer_*", "num_dataset_builder_threads", "num_workers"),
    *("nvtx_ranges", "object_storage_*", "one_logger*", "enable_one_logger", "openai_gelu"),
    *("override_*", "pad_vocab_size", "per_dataset_*", "per_split_*", "perform_initialization"),
    *("persistent_save_interval", "phase_transition_*", "pretrained_checkpoint", "profile*"),
    *("pytorch_profiler_*", "query_in_block_prob", "record_*", "replication*", "rerun_*"),
    *("reset_position_ids", "reset_attention_mask", "result_rejected_*", "rope_scaling_factor"),
    *("rotary_base", "rotary_interleaved", "rotary_percent", "rotary_scaling_factor"),
    *("rotary_seq_len_*", "sample_rate", "save", "save_*", "seed", "sft*", "short_seq_prob"),
    *("skip_train", "split", "start_*", "straggler_*", "strict_*", "te_rng_tracker"),
    *("tensorboard_*", "test_data_path", "test_mode", "tiktoken_*", "timing_log_*"),
    *("titles_data_path", "tokenizer_*", "train_data_path", "train_iters", "train_samples"),
    *("train_sync_interval", "trust_remote_code", "use_checkpoint_*"),
    *("use_cpu_initialization", "use_dist_ckpt", "use_gigatoken", "use_mcore_models"),
    *("use_mp_args_*", "use_persistent_*", "use_pytorch_profiler", "use_rope_scaling"),
    *("use_tokenizer_*", "use_tp_pp_dp_mapping", "valid_data_path", "validation_set_names"),
    *("verify_integrity", "vocab_extra_ids", "vocab_file", "wandb_*", "warmup", "weight_decay*"),
    *("yarn_*", "no_weight_decay_cond_type", "apply_wd_to_qk_layernorm"),
    *("ddp_average_in_collective", "gradient_reduce_div_fusion", "use_one_sent_docs"),
    *("moe_router_load_balancing_type", "exp_name", "local_rank", "logits_*", "chat_template"),
    *("moe_router_score_function", "moe_router_pre_softmax", "moe_router_num_groups"),
    *("moe_router_group_topk", "apply_layernorm_1p", "empty_unused_memory_level", "rope_type"),
    *("use_flash_attn", "dump_param_*", "ict_*", "indexer_*", "embedding_path", "save_tokenizer*"),
    *(
        "moe_router_enable_expert_bias",
        "moe_router_padding_for_*",
        "cuda_graph_*",
        "offload_modules",
    ),
    *("export_*", "kitchen_*", "moe_permute_fusion", "enable_gpt_oss", "beta_*", "mask_prob"),
)
"""Patterns of names that decide neither memory nor time of a step."""
TIME_ALONE = {
    **dict.fromkeys(
        ("overlap_grad_reduce", "overlap_param_gather", "align_param_gather", "align_grad_reduce"),
        "traffic runs beside the computation, which decides time alone",
    ),
    **dict.fromkeys(
        (
            *("overlap_p2p_communication", "overlap_p2p_communication_warmup_flush"),
            *("use_ring_exchange_p2p", "use_sharp", "sharp_enabled_group", "cp_comm_type"),
            *("overlap_param_gather_with_optimizer_step", "microbatch_group_size_per_vp_stage"),
            *("microbatch_group_size_per_virtual_pipeline_stage", "hierarchical_context_*"),
            *("high_priority_stream_groups", "pipeline_model_parallel_comm_backend"),
            *("ddp_bucket_size", "ddp_num_buckets", "ddp_pad_buckets_for_high_nccl_busbw"),
        ),
        "how traffic is sent, which decides time alone",
    ),
    **dict.fromkeys(
        (
            *("bias_gelu_fusion", "bias_swiglu_fusion", "bias_dropout_fusion", "rope_fusion"),
            *("persist_layer_norm", "disable_jit_fuser"),
        ),
        "counted as its default: fused kernels of Transformer Engine keep the same tensors",
    ),
}
"""Arguments that are read and have no field, and why."""
WITHOUT_TERM: Mapping[str, str] = {
    **dict.fromkeys(
        ("fp4_format", "fp4_param_gather", "fp4_recipe"), "products are counted in 16 bits"
    ),
    **dict.fromkeys(
        ("enable_cuda_graph", "external_cuda_graph", "cuda_graph_impl"),
        "the pools of CUDA graphs are not counted",
    ),
    **dict.fromkeys(
        ("tp_comm_overlap", "use_nccl_ub", "gtp_remat_nccl_ub"),
        "its user buffers are not counted",
    ),
    **dict.fromkeys(
        ("window_size", "window_attn_skip_freq"), "every layer is counted as full attention"
    ),
    **dict.fromkeys(
        ("moe_expert_capacity_factor", "moe_pad_expert_input_to_capacity"),
        "tokens are counted as routed evenly, without a capacity",
    ),
    **dict.fromkeys(
        ("moe_shared_expert_overlap", "overlap_moe_expert_parallel_comm", "delay_wgrad_compute"),
        "what waits for the overlap is not counted",
    ),
    **dict.fromkeys(
        ("num_distributed_optimizer_instances", "outer_dp_sharding_strategy"),
        "states are counted as spread over all data-parallel ranks",
    ),
    **dict.fromkeys(
        ("tensor_parallel_num_weight_shards", "expert_tensor_parallel_num_weight_shards"),
        "weights are counted as whole on each tensor rank",
    ),
    **dict.fromkeys(
        ("glu_linear_offset", "activation_func_clamp_value", "attention_output_gate"),
        "it is counted as the plain kind",
    ),
    **dict.fromkeys(
        (
            *("fsdp_double_buffer", "fsdp_manual_registration", "megatron_fsdp_main_params_dtype"),
            *("megatron_fsdp_main_grads_dtype", "megatron_fsdp_grad_comm_dtype"),
        ),
        "Megatron-FSDP has no term",
    ),
    **dict.fromkeys(
        ("first_last_layers_bf16", "num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"),
        "every layer is counted in one format",
    ),
    "perform_rl_step": "generation and the reference are not counted, the update alone is",
    "moe_router_dtype": "the router is counted in the weights' format",
    "moe_router_fusion": "a fused router keeps fewer tensors than are counted",
    "moe_layer_recompute": "experts are counted as kept for backward",
    "moe_use_upcycling": "the experts are counted as given",
    "use_transformer_engine_op_fuser": "fused operations keep fewer tensors than are counted",
    "fp32_residual_connection": "the residual is counted in the weights' format",
    "distribute_saved_activations": "saved inputs are counted as whole on each tensor rank",
    "qk_l2_norm": "it is counted as no norm",
    "softmax_type": "attention is counted without a learned sink",
    "freeze_all_layers": "every layer is counted as trained",
    "use_torch_optimizer_for_cpu_offload": "the optimizer is counted as Megatron's own",
    "optimizer_cuda_graph": "the pools of CUDA graphs are not counted",
    "output_logit_dtype": "logits are counted in the weights' format",
    "mlp_chunks_for_training": "the feed-forward layer is counted as one piece",
    "reuse_grad_buf_for_mxfp8_param_ag": "the buffers are counted apart",
    "rampup_batch_size": "the answer is for global-batch-size, to which the batch grows",
    "eval_micro_batch_size": "the answer is for training",
    "eval_global_batch_size": "the answer is for training",
}
"""Arguments that count and have no word, and what is counted in their place."""
OTHER_LAYERS = (
    *("hybrid_layer_pattern", "hybrid_override_pattern", "is_hybrid_model", "spec", "img_h"),
    *("heterogeneous_layers_config_path", "heterogeneous_layers_config_encoded_json", "flextron"),
    *("experimental_attention_variant", "linear_attention_freq", "moe_latent_size"),
    *("enable_mhc_connections", "decoder_num_layers", "model_provider", "mamba_num_heads"),
    *("vision_model_type", "language_model_type", "vision_pretraining", "retro_add_retriever"),
)
"""Arguments of models whose layers are not GPT's."""
SIZES = (
    *("num_layers", "encoder_num_layers", "hidden_size", "num_attention_heads", "num_experts"),
    *("ffn_hidden_size", "kv_channels", "num_query_groups", "group_query_attention", "swiglu"),
    *("quick_geglu", "squared_relu", "max_position_embeddings", "disable_bias_linear"),
    *("add_qkv_bias", "normalization", "untie_embeddings_and_output_weights", "qk_layernorm"),
    *("attention_dropout", "hidden_dropout", "position_embedding_type", "position_embedding"),
    *("use_rotary_position_embeddings", "moe_layer_freq", "moe_router_topk", "moe_ffn_hidden_size"),
    *("moe_shared_expert_intermediate_size", "moe_shared_expert_gate", "multi_latent_attention"),
    *("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"),
    *("vocab_size", "padded_vocab_size", "make_vocab_size_divisible_by", "tokenizer_type"),
    "tokenizer_model",
)
"""Arguments that say what the model is."""
TRAINING = ("train_iters", "train_samples", "train_tokens")
"""Arguments of programs that train."""
OTHER_PROGRAMS = frozenset(
    {"pretrain_bert.py", "pretrain_ict.py", "pretrain_retro.py", "pretrain_vision_*.py"}
)
"""Scripts of Megatron-LM that build a model of their own."""
GENERATION = (
    *("num_tokens_to_generate", "max_tokens_to_oom", "incoming_requests_per_sec", "prompts"),
    "incoming_requests_per_step",
)
"""Arguments of programs that generate."""
