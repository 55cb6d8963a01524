"""Arguments of SGLang that may count and have no word, with why.

SGLang 0.5.23, ``srt/arg_groups/fields``.
"""

from service.formats.launches.values import ignored_reasons as reasons

_GRAPHS = "the graphs that the release captures by default are evaluated"
_HOST_CACHE = "a cache on the host or beyond has no term"
_ONE_ENGINE = "prompts and answers are evaluated on one engine"
_EXPERTS = "experts and dense layers are placed as the release has it by default"
_ON_HOST = "weights on the host, but those of cpu_offload_gb, have no term"
_PREFIXES = "prompts that share a prefix are evaluated as if they did not"
_GUESSING = "tokens are guessed as the release has it by default"
_FORMAT = "the format that quantization or the checkpoint's own config says is evaluated"
_COMPILED = "the model is evaluated as it is, not compiled"
_DIFFUSION = "a model that generates by diffusion has no term"
IGNORED = {
    "max_prefill_tokens": "prompts that are not cut into chunks are evaluated by the default",
    "page_size": "pages have the tokens that the release chooses",
    "swa_full_tokens_ratio": "windows have the share of the pool that the release chooses",
    "disable_hybrid_swa_memory": "windows have a pool of their own as the release has it",
    "enable_unified_memory": "the pools are evaluated apart",
    "max_mamba_cache_size": "states have the share of the pool that the release chooses",
    "mamba_full_memory_ratio": "states have the share of the pool that the release chooses",
    "cuda_graph_max_bs": _GRAPHS,
    "cuda_graph_bs": _GRAPHS,
    "cuda_graph_config": _GRAPHS,
    "cuda_graph_max_bs_decode": _GRAPHS,
    "cuda_graph_max_bs_prefill": _GRAPHS,
    "cuda_graph_bs_decode": _GRAPHS,
    "cuda_graph_bs_prefill": _GRAPHS,
    "cuda_graph_backend_decode": _GRAPHS,
    "cuda_graph_backend_prefill": _GRAPHS,
    "disable_decode_cuda_graph": _GRAPHS,
    "disable_prefill_cuda_graph": _GRAPHS,
    "enable_profile_cuda_graph": _GRAPHS,
    "disable_cuda_graph_padding": _GRAPHS,
    "enable_torch_compile": "the model is evaluated as it is, not compiled",
    "attention_backend": "the attention kernel that the release chooses is evaluated",
    "prefill_attention_backend": "the attention kernel that the release chooses is evaluated",
    "decode_attention_backend": "the attention kernel that the release chooses is evaluated",
    "enable_hierarchical_cache": _HOST_CACHE,
    "hicache_ratio": _HOST_CACHE,
    "hicache_size": _HOST_CACHE,
    "enable_lmcache": _HOST_CACHE,
    "enable_flexkv": _HOST_CACHE,
    "disable_radix_cache": "prompts that share a prefix are evaluated as if they did not",
    "enable_memory_saver": "the engine is evaluated awake, with the caching allocator",
    "enable_weights_cpu_backup": "a copy of the weights on the host has no term",
    "enable_eplb": "redundant experts have no term",
    "ep_num_redundant_experts": "redundant experts have no term",
    "enable_two_batch_overlap": "two batches at once have no term",
    "enable_single_batch_overlap": "what overlaps in a batch has no term",
    "enable_dp_lm_head": "the head is split over all tensor ranks",
    "moe_dense_tp_size": "dense layers are split over all tensor ranks",
    "moe_dp_size": "experts that are split by data have no term",
    "attn_cp_size": "prompts that are split over GPUs have no term",
    "dcp_size": "a cache that is split by tokens has no term",
    "enable_prefill_cp": "prompts that are split over GPUs have no term",
    "enable_kv_cache_sharding": "a cache that is split by tokens has no term",
    "disaggregation_mode": "prompts and answers are evaluated on one engine",
    "is_embedding": "the engine is evaluated as it generates",
    "language_only": "the towers of the model are counted",
    "language_model_only": "the towers of the model are counted",
    "encoder_only": "the language model is counted",
    "mm_enable_dp_encoder": "the tower is counted as the release has it by default",
    "json_model_override_args": "the model's own config is evaluated; hand in the model meant",
    "enable_fp32_lm_head": "logits have the format that the release gives them",
    "offload_group_size": "weights that are prefetched from the host have no term",
    "offload_num_in_group": "weights that are prefetched from the host have no term",
    "enable_paged_experts": "experts on the host have no term",
    "enable_mixed_chunk": "prompts and answers are evaluated in steps of their own",
    "enable_return_hidden_states": "states that answers list have no term",
    **dict.fromkeys(
        (
            *("cuda_graph_max_seq_len_prefill", "cuda_graph_prefill_max_context"),
            "debug_cuda_graph",
        ),
        _GRAPHS,
    ),
    **dict.fromkeys(
        (
            *("bf16_gemm_backend", "boundary_reduction", "c128_page_size", "deepep_config"),
            *("deepep_dispatcher_output_dtype", "deepep_v2_mode"),
            "disable_aiter_allreduce_fusion_in_decode",
            *("disable_aiter_allreduce_fusion_in_prefill", "disable_attn_tp_gather"),
            *("disable_chunked_prefix_cache", "disable_flashinfer_autotune"),
            *("disable_flashinfer_cutlass_moe_fp4_allgather", "dsa_decode_backend"),
            *("dsa_paged_mqa_logits_backend", "dsa_prefill_backend", "dsa_topk_backend"),
            *("dsa_triton_union", "dsv4_attn_backend", "dsv4_prefill_backend"),
            *("enable_aiter_allreduce_fusion", "enable_amd_monokernel"),
            *("enable_attn_tp_input_scattered", "enable_deepseek_v4_fp4_indexer"),
            *("enable_dsa_fused_indexer", "enable_fused_moe_sum_all_reduce"),
            *("enable_fused_qk_norm_rope", "enable_layernorm_sp", "enable_lean_attention"),
            *("enable_megamoe_for_layernorm_sp", "enable_nvidia_megakernel"),
            *("enable_precise_embedding_interpolation", "enable_quant_communications"),
            *("enable_scattered_sconv", "enable_tf32_matmul", "enable_torch_symm_mem"),
            *("enable_tp_lm_head_all_to_all", "enable_w4a4_mxfp4_megamoe", "enable_waterfill"),
            *("enforce_disable_flashinfer_allreduce_fusion", "enforce_shared_experts_fusion"),
            *("flashinfer_a2a_dispatch_type", "flashinfer_allreduce_fusion_backend"),
            *("flashinfer_autotune_skip_ops", "flashinfer_mxfp4_moe_precision", "fuseep_mode"),
            *("kv_canary", "linear_attn_backend", "linear_attn_decode_backend"),
            *("linear_attn_prefill_backend", "linear_attn_verify_backend", "mamba_backend"),
            *("mlx_enable_sampling", "monokernel_backend", "prefill_kv_cache_dequant_dtype"),
            *("qsa_indexer_dtype", "rl_on_policy_target"),
        ),
        reasons.KERNELS,
    ),
    **dict.fromkeys(
        (
            *("cp_strategy", "dcp_comm_backend", "dcp_replicate_q_proj"),
            *("enable_cp_decode_attn_tp", "enable_dsa_cache_layer_split"),
        ),
        reasons.SPLIT,
    ),
    **dict.fromkeys(
        (
            *("enable_int8_mamba_checkpoint", "enable_linear_replayssm"),
            *("enable_linear_replayssm_spec", "enable_mamba_cache_stochastic_rounding"),
            *("enable_page_major_kv_layout", "int8_mamba_ckpt_size", "linear_replayssm_cache_len"),
            *("mamba_cache_philox_rounds", "mamba_max_states_per_path"),
            *("mamba_radix_cache_strategy", "mamba_track_interval"),
        ),
        reasons.STATES,
    ),
    **dict.fromkeys(
        (
            *("decoupled_spec_bind_endpoint", "decoupled_spec_connect_endpoints"),
            *("decoupled_spec_rank", "decoupled_spec_role"),
            "disaggregation_decode_allocation_policy",
            "disaggregation_decode_enable_offload_kvcache",
            *("disaggregation_decode_enable_radix_cache", "disaggregation_decode_extra_slots"),
            "disaggregation_decode_host_receive_threshold",
            *("disaggregation_decode_polling_interval", "disaggregation_decode_retraction_backup"),
            *("disaggregation_enable_kv_checksum", "disaggregation_transfer_backend"),
            *("enable_adaptive_dispatch_to_encoder", "enable_pd_role_switch"),
            *("encoder_bootstrap_port", "encoder_register_urls", "encoder_transfer_backend"),
            *("encoder_urls", "optimistic_prefill_attempts"),
        ),
        _ONE_ENGINE,
    ),
    **dict.fromkeys(
        (
            *("enable_dynamic_chunking", "enable_mis", "enable_pdmux", "enable_prefill_delayer"),
            *("min_free_slots_delay", "num_reserved_decode_tokens", "pdmux_config_path"),
            *("pp_async_batch_depth", "pp_max_micro_batch_size", "prefill_decode_interval"),
            *("prefill_decode_interval_min_bs", "prefill_delayer_max_delay_ms"),
            *("prefill_delayer_max_delay_passes", "prefill_delayer_queue_min_ratio"),
            *("prefill_delayer_token_usage_low_watermark", "prefill_max_requests", "sm_group_num"),
            "tbo_token_distribution_threshold",
        ),
        reasons.SCHEDULE,
    ),
    **dict.fromkeys(
        (
            *("elastic_ep_backend", "elastic_ep_initial_size", "elastic_ep_scale_timeout"),
            *("enable_elastic_expert_backup", "ep_join_mode", "ep_join_rank_offset"),
            "max_ep_size",
        ),
        reasons.SPARE,
    ),
    **dict.fromkeys(
        (
            *("dwdp_size", "enable_dense_mlp_attn_tp", "enable_shared_experts_attn_tp"),
            *("ep_dispatch_algorithm", "eplb_algorithm"),
            *("eplb_min_rebalancing_utilization_threshold", "eplb_rebalance_layers_per_chunk"),
            *("eplb_rebalance_num_iterations", "expert_distribution_recorder_buffer_size"),
            *("expert_distribution_recorder_mode", "init_expert_location"),
            "shared_experts_tp_size",
        ),
        _EXPERTS,
    ),
    **dict.fromkeys(
        (
            *("enable_draft_weights_cpu_backup", "kt_cpuinfer"),
            *("kt_max_deferred_experts_per_token", "kt_method", "kt_num_gpu_experts"),
            *("kt_threadpool_count", "kt_weight_path", "offload_mode", "offload_prefetch_step"),
            *("paged_experts_num_resident", "ple_offload_backend", "ple_offload_dir"),
            "ple_offload_embedding",
        ),
        _ON_HOST,
    ),
    **dict.fromkeys(
        (
            *("enable_hisparse", "enable_linker_mla_dedup"),
            *("enable_unified_cache_external_linker", "flexkv_config_file", "hisparse_config"),
            *("lmcache_config_file", "radix_cache_backend"),
            *("unified_cache_external_linker_backend", "unified_cache_external_linker_config"),
        ),
        _HOST_CACHE,
    ),
    **dict.fromkeys(
        (
            *("enable_decoder_swa_bounded_replay", "enable_encoder_swa_bounded_replay"),
            *("enable_session_radix_cache", "enable_streaming_session", "strip_thinking_cache"),
            "swa_prefix_tails",
        ),
        _PREFIXES,
    ),
    **dict.fromkeys(
        (
            *("enable_broadcast_mm_inputs_process", "enable_mm_global_cache"),
            *("enable_prefix_mm_cache", "mm_feature_transport", "mm_global_cache_backend"),
        ),
        reasons.ENCODED,
    ),
    **dict.fromkeys(
        (*("limit_mm_data_per_request", "mm_process_config"),),
        reasons.PICTURES,
    ),
    **dict.fromkeys(
        (
            *("enable_return_aux_hidden_states", "enable_return_indexer_topk"),
            *("enable_return_routed_experts", "forward_hooks"),
            *("return_aux_hidden_state_layer_ids", "return_hidden_states_mode"),
        ),
        reasons.OUTPUTS,
    ),
    **dict.fromkeys(
        (
            *("enable_multi_layer_eagle", "speculative_adaptive", "speculative_adaptive_config"),
            *("speculative_dflash_block_size", "speculative_domino_candidate_pool_size"),
            *("speculative_draft_attention_backend", "speculative_draft_kv_cache_dtype"),
            *("speculative_draft_model_quantization", "speculative_draft_model_revision"),
            *("speculative_draft_sink_size", "speculative_draft_window_size"),
            "speculative_dsa_topk_backend",
            "speculative_dspark_align_verify_tokens_to_graph_tier",
            *("speculative_dspark_block_size", "speculative_dspark_confidence_sts_path"),
            *("speculative_dspark_sps_table_path", "speculative_enable_w4a4_mxfp4_megamoe"),
            *("speculative_moe_a2a_backend", "speculative_moe_runner_backend"),
            *("speculative_token_map", "speculative_use_block_verification"),
            *("speculative_use_rejection_sampling", "uno_lora_path"),
        ),
        _GUESSING,
    ),
    **dict.fromkeys(
        (*("modelopt_quant", "quantize_and_serve", "rl_quant_profile"),),
        _FORMAT,
    ),
    **dict.fromkeys(
        (*("decrypted_config_file", "decrypted_draft_config_file"),),
        reasons.OWN_CONFIG,
    ),
    **dict.fromkeys(
        (*("enable_torch_compile_debug_mode", "torch_compile_max_bs"),),
        _COMPILED,
    ),
    **dict.fromkeys(
        (*("dllm_algorithm", "dllm_algorithm_config", "dllm_fdfo"),),
        _DIFFUSION,
    ),
    **dict.fromkeys(
        ("prefill_only_disable_kv_cache",),
        "every prompt has its cache",
    ),
    **dict.fromkeys(
        (
            *("startup_weight_load_mode", "weight_cache_mode", "weight_cache_socket"),
            "weight_cache_timeout",
        ),
        "weights are loaded as the release has it by default",
    ),
}
