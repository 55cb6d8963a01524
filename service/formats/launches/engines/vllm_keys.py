"""Names of vLLM's arguments.

vLLM 0.33.0, ``vllm/engine/arg_utils.py`` (``EngineArgs``) and
``vllm/entrypoints/common/cli_args.py``.
"""

FLAGS = frozenset(
    {
        *("trust_remote_code", "enforce_eager", "enable_expert_parallel", "enable_lora"),
        *("enable_prefix_caching", "enable_chunked_prefill", "disable_log_stats", "enable_eplb"),
        *(
            "disable_log_requests",
            "enable_log_requests",
            "enable_reasoning",
            "enable_auto_tool_choice",
        ),
        *("enable_sleep_mode", "disable_custom_all_reduce", "disable_sliding_window"),
        *("disable_cascade_attn", "skip_tokenizer_init", "enable_prompt_embeds", "enable_dbo"),
        *("enable_mm_embeds", "interleave_mm_strings", "skip_mm_profiling", "fully_sharded_loras"),
        *("disable_chunked_mm_input", "disable_hybrid_kv_cache_manager", "async_scheduling"),
        *("kv_sharing_fast_prefill", "calculate_kv_scales", "use_tqdm_on_load", "headless"),
        "data_parallel_multi_port_external_lb",
        *("data_parallel_hybrid_lb", "data_parallel_external_lb", "aggregate_engine_logging"),
        *("ray_workers_use_nsight", "language_model_only", "mm_encoder_only", "enable_elastic_ep"),
        *("disable_uvicorn_access_log", "disable_fastapi_docs", "enable_server_load_tracking"),
        *(
            "enable_force_include_usage",
            "enable_prompt_tokens_details",
            "return_tokens_as_token_ids",
        ),
        *("enable_request_id_headers", "allow_credentials", "enable_ssl_refresh"),
        *("disable_frontend_multiprocessing", "enable_tokenizer_info_endpoint", "log_config_file"),
        *("allow_deprecated_quantization", "cohere_is_reasoning_model", "cudagraph_metrics"),
        *("dcp_q_replicate", "disable_nccl_for_dp_synchronization", "enable_cumem_allocator"),
        *("enable_batch_sharded_sampling", "enable_ep_weight_filter", "enable_fault_tolerance"),
        *("enable_flash_late_interaction", "enable_flashinfer_autotune", "enable_hc_sp"),
        *("enable_layerwise_nvtx_tracing", "enable_log_deltas", "enable_log_outputs"),
        *("enable_logging_iteration_details", "enable_mamba_cache_stochastic_rounding"),
        *("enable_mamba_shared_prefix_checkpoint", "enable_mfu_metrics", "enable_offline_docs"),
        *("enable_mixed_moe_lora_format", "enable_moe_shared_loras", "enable_mm_processor_stats"),
        *("enable_nccl_comm_suspend", "enable_per_request_metrics", "enable_scale_out", "grpc"),
        *("enable_return_routed_experts", "enable_shm_tensor_arena", "enable_trace_replay"),
        *("enable_tower_connector_lora", "exclude_tools_when_tool_choice_none", "numa_bind"),
        *("fail_on_environ_validation", "jit_monitor_verbose", "kv_cache_metrics", "monokernel"),
        *("log_error_stack", "long_prefill_token_threshold_adaptive", "mm_device_do_normalize"),
        *("return_sampling_mask", "scheduler_reserve_full_isl", "sleep_mode_offload_cudagraph"),
        *("specialize_active_lora", "swa_bounded_replay", "tokens_only", "use_fp64_gumbel"),
        *("trust_request_chat_template", "trust_request_mm_kwargs", "use_replayssm"),
        *("O0", "O1", "O2", "O3"),
    }
)
SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dpl": "data_parallel_size_local",
    "dpn": "data_parallel_rank",
    "dpr": "data_parallel_start_rank",
    "dpa": "data_parallel_address",
    "dpp": "data_parallel_rpc_port",
    "dpb": "data_parallel_backend",
    "dcp": "decode_context_parallel_size",
    "pcp": "prefill_context_parallel_size",
    "ep": "enable_expert_parallel",
    "n": "nnodes",
    "r": "node_rank",
    "q": "quantization",
    "O": "optimization_level",
    "O.mode": "compilation_config.mode",
    "cc": "compilation_config",
    "sc": "speculative_config",
    "dc": "diffusion_config",
    "ac": "attention_config",
    "dph": "data_parallel_hybrid_lb",
    "dpe": "data_parallel_external_lb",
    "dpm": "data_parallel_multi_port_external_lb",
    "asc": "api_server_count",
}
MANY = frozenset(
    {"served_model_name", "api_key", "lora_modules", "cudagraph_capture_sizes", "middleware"}
)
ABBREVIATED = (
    *("tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "max_num_seqs"),
    *("max_num_batched_tokens", "gpu_memory_utilization", "kv_cache_dtype", "cpu_offload_gb"),
)
LORA_SLOTS = ("enable_lora", "max_loras", "max_lora_rank")
LORA = (
    *("enable_mixed_moe_lora_format", "enable_moe_shared_loras", "max_lora_cls_labels"),
    *("max_cpu_loras", "lora_dtype", "fully_sharded_loras"),
    *("lora_extra_vocab_size", "lora_modules", "lora_target_modules"),
    *("default_mm_loras", "enable_tower_connector_lora", "specialize_active_lora"),
)
GRAPHS = "the graphs and the compilation of the release's defaults are evaluated"
_KERNELS = "the kernels that the release chooses are evaluated"
_STATES = "states are kept as the release has it by default"
_SPLIT = "a cache that is split by tokens has no term"
_TOWER = "the tower is counted as the release has it by default"
_PICTURES = "workload.inputs says which images a prompt has"
_SPARE = "ranks that come and go have no term"
_SCHEDULE = "steps are evaluated as the release schedules them by default"
_OUTPUTS = "what answers hold beside tokens has no term"
_PREFETCHED = "weights that are prefetched from the host have no term"
_ENCODED = "a cache of encoded inputs has no term"
_OWN_CONFIG = "the model's own config is evaluated; hand in the model that is meant"
IGNORED = {
    **dict.fromkeys(
        (
            *("enable_flashinfer_autotune", "gdn_prefill_backend", "ir_op_priority", "monokernel"),
            *("kda_decode_backend", "kda_prefill_backend", "kernel_config", "linear_backend"),
            *("mamba_backend", "mamba_config", "mamba_ssu_algorithm", "moe_backend"),
            *("sparse_indexer_topk_backend", "use_fp64_gumbel", "enable_batch_sharded_sampling"),
            *("enable_hc_sp", "kv_sharing_fast_prefill"),
        ),
        _KERNELS,
    ),
    **dict.fromkeys(
        (
            *("mamba_cache_mode", "mamba_cache_philox_rounds", "replayssm_buffer_len"),
            *("enable_mamba_cache_stochastic_rounding", "use_replayssm"),
            "enable_mamba_shared_prefix_checkpoint",
        ),
        _STATES,
    ),
    **dict.fromkeys(
        (
            *("cp_kv_cache_interleave_size", "dcp_kv_cache_interleave_size", "dcp_q_replicate"),
            "dcp_comm_backend",
        ),
        _SPLIT,
    ),
    **dict.fromkeys(
        (
            *("mm_encoder_attn_backend", "mm_encoder_attn_dtype", "mm_encoder_fp8_scale_path"),
            *("mm_encoder_fp8_scale_save_margin", "mm_encoder_fp8_scale_save_path"),
            *("mm_device_do_normalize", "mm_processor_device"),
        ),
        _TOWER,
    ),
    **dict.fromkeys(
        ("mm_processor_kwargs", "video_pruning_method", "video_pruning_rate"), _PICTURES
    ),
    **dict.fromkeys(
        (
            *("enable_elastic_ep", "elastic_ep_max_dp_size", "enable_fault_tolerance"),
            "fault_tolerance_config",
        ),
        _SPARE,
    ),
    **dict.fromkeys(
        (
            *("dbo_decode_token_threshold", "dbo_prefill_token_threshold", "ubatch_size"),
            *("dp_sync_interval", "max_num_scheduled_tokens", "prefill_schedule_interval"),
            *("long_prefill_token_threshold_adaptive", "swa_bounded_replay"),
        ),
        _SCHEDULE,
    ),
    **dict.fromkeys(
        (
            *("aux_output_config", "enable_return_routed_experts", "return_sampling_mask"),
            "enable_trace_replay",
        ),
        _OUTPUTS,
    ),
    **dict.fromkeys(("offload_backend", "offload_params"), _PREFETCHED),
    **dict.fromkeys(("ec_manager_config", "ec_transfer_config"), _ENCODED),
    **dict.fromkeys(("hf_config_path", "model_class_overrides"), _OWN_CONFIG),
    "max_num_active_seqs": "workload.num_sequences says how many run at once",
    "cpu_offload_params": "cpu_offload_gb says how much is on the host, whatever it is",
    "kv_cache_dtype_skip_layers": "the cache of every layer has the one format",
    "watermark": "requests are admitted to the whole cache: no blocks of it are left free",
    "pooler_config": "the model's head says how it is pooled",
    "engram_config": "tables of n-grams have no term",
    "weight_transfer_config": "buffers for weights that come while it serves have no term",
    "enable_flash_late_interaction": "scores that a server computes beside have no term",
    "enable_cumem_allocator": "the engine is evaluated awake, with the caching allocator",
    "block_size": "blocks have the tokens that the engine chooses on the GPU",
    "decode_context_parallel_size": "a cache that is split by tokens has no term",
    "prefill_context_parallel_size": "prompts that are split over GPUs have no term",
    "language_model_only": "the towers of the model are counted",
    "mm_encoder_only": "the language model is counted",
    "mm_encoder_tp_mode": "the tower is counted as the release has it by default",
    "skip_mm_profiling": "the tower's peak is counted",
    "mm_ipc_gpu_memory_gb": "memory for the processor's tensors has no term",
    "enable_sleep_mode": "the engine is evaluated awake, with the caching allocator",
    "kv_transfer_config": "the buffers of a connector have no term",
    "enable_eplb": "redundant experts have no term",
    "eplb_config": "redundant experts have no term",
    "num_redundant_experts": "redundant experts have no term",
    "enable_dbo": "two halves of a batch at once have no term",
    "offload_group_size": "weights that are prefetched from the host have no term",
    "offload_num_in_group": "weights that are prefetched from the host have no term",
    "offload_prefetch_step": "weights that are prefetched from the host have no term",
    "compilation_config": GRAPHS,
    "optimization_level": GRAPHS,
    **dict.fromkeys(("O0", "O1", "O2", "O3"), GRAPHS),
    "cudagraph_capture_sizes": GRAPHS,
    "max_cudagraph_capture_size": GRAPHS,
    "cuda_graph_sizes": GRAPHS,
    "attention_config": "the attention kernel that the release chooses is evaluated",
    "diffusion_config": "a model that generates by diffusion has no term",
    "attention_backend": "the attention kernel that the release chooses is evaluated",
    "disable_hybrid_kv_cache_manager": "windows give their blocks back as the release has it",
    "disable_sliding_window": "windows are evaluated as the model has them",
    "hf_overrides": _OWN_CONFIG,
    "rope_scaling": "positions are the model's own; workload.max_model_len says the length",
    "mamba_cache_dtype": "states have the format that the release gives them",
    "mamba_ssm_cache_dtype": "states have the format that the release gives them",
    "mamba_block_size": "states have the blocks that the release gives them",
    "quantization_config": "the format that the checkpoint's own config says is evaluated",
    "runner": "the model's head says whether it generates or is pooled",
    "task": "the model's head says whether it generates or is pooled",
    "convert": "the engine is evaluated as it generates",
    "enable_prefix_caching": "prompts that share a prefix are evaluated as if they did not",
    "kv_offloading_size": "a cache on the host has no term",
    "kv_offloading_backend": "a cache on the host has no term",
    "max_logprobs": "logarithms of probabilities that answers list have no term",
}
"""Arguments that may count and have no word, with why."""
WITHOUT_EFFECT = (
    *("host", "port", "uds", "api_key", "ssl_*", "root_path", "middleware", "allow*", "headless"),
    *("served_model_name", "chat_template*", "response_role", "tool_*", "enable_auto_tool_choice"),
    *(
        "reasoning_parser*",
        "enable_reasoning",
        "default_chat_template_kwargs",
        "trust_request_chat_template",
    ),
    *("tokenizer*", "skip_tokenizer_init", "trust_remote_code", "seed", "revision"),
    *("code_revision", "hf_token", "config_format", "model_weights", "load_format"),
    *("download_dir", "safetensors_load_strategy", "model_loader_extra_config*", "ignore_patterns"),
    *("use_tqdm_on_load", "pt_load_map_location", "generation_config", "io_processor_plugin"),
    *("override_generation_config*", "logits_process*", "logprobs_mode", "model_impl"),
    *("disable_log_*", "enable_log_*", "max_log_len", "log_*", "uvicorn_*", "disable_uvicorn_*"),
    *("disable_fastapi_docs", "enable_server_load_tracking", "enable_prompt_tokens_details"),
    *("enable_force_include_usage", "enable_request_id_headers", "return_tokens_as_token_ids"),
    *("aggregate_engine_logging", "otlp_*", "collect_detailed_traces", "show_hidden_metrics_*"),
    *("kv_cache_metrics*", "enable_layerwise_*", "enable_mfu_metrics", "profiler_config*"),
    *("distributed_executor_backend", "node_rank", "master_addr", "master_port", "worker_*"),
    *("data_parallel_rank", "data_parallel_start_rank", "data_parallel_address"),
    *("data_parallel_rpc_port", "data_parallel_backend", "data_parallel_*_lb", "device_ids"),
    *("max_parallel_loading_workers", "ray_workers_use_nsight", "api_server_count", "device"),
    *("disable_custom_all_reduce", "all2all_backend", "expert_placement_strategy"),
    *("prefix_caching_hash_algo", "prefix_cache_retention_interval", "swap_space"),
    *("calculate_kv_scales", "scheduling_policy", "scheduler_*", "async_scheduling"),
    *("long_prefill_token_threshold", "max_num_partial_prefills", "max_long_partial_prefills"),
    *("max_num_queued_*", "stream_interval", "structured_outputs_config*", "guided_decoding_*"),
    *("mm_processor_cache_*", "mm_shm_*", "media_io_kwargs*", "interleave_mm_strings"),
    *(
        "disable_mm_preprocessor_cache",
        "limit_mm_*",
        "allowed_*",
        "renderer_*",
        "kv_events_config*",
    ),
    *("enable_prompt_embeds", "enable_mm_embeds", "disable_cascade_attn", "lora_*", "max_*_loras"),
    *("disable_frontend_multiprocessing", "enable_tokenizer_info_endpoint", "additional_config*"),
    *("fail_on_environ_validation", "shutdown_timeout", "enable_offline_docs", "watermark_config"),
    *("disable_nccl_for_dp_synchronization", "disable_chunked_mm_input", "nnodes"),
    *("anthropic_*", "cohere_*", "*distributed_timeout_seconds", "cudagraph_metrics"),
    *("custom_histogram_buckets", "data_parallel_supervisor_port", "dp_supervisor_*"),
    *("data_parallel_master_port", "disable_access_log_for_endpoints", "enable_scale_out"),
    *("enable_ep_weight_filter", "enable_logging_iteration_details", "enable_mm_processor_stats"),
    *("enable_nccl_comm_suspend", "enable_per_request_metrics", "enable_shm_tensor_arena"),
    *("enable_ssl_refresh", "exclude_tools_when_tool_choice_none", "fingerprint_*", "grpc*"),
    *("h11_*", "jit_monitor_*", "logging_config", "mm_hasher_algorithm", "mm_tensor_ipc"),
    *("numa_bind*", "per_request_spec_decode_metrics", "prefix_match_unit", "reasoning_config*"),
    *("reasoning_effort_map", "safetensors_prefetch_*", "sleep_*", "sse_keep_alive_interval"),
    *("tokens_only", "trust_request_mm_kwargs", "watchdog_config*"),
)
