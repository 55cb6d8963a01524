"""Names of the options of Text Generation Inference's launcher.

TGI 3.3.5, ``launcher/src/main.rs``; each has a variable of its name in capitals (clap's ``env``).
SageMaker's variables: ``sagemaker-entrypoint.sh``.
"""

FLAGS = frozenset(
    {
        *("trust_remote_code", "disable_custom_kernels", "json_output", "ngrok", "env", "e"),
        *("disable_grammar_support", "enable_prefill_logprobs"),
    }
)
SHORT = {
    "p": "port",
    "e": "env",
    "g": "graceful_termination_timeout",
    "max-input-length": "max_input_tokens",
    "max_input_length": "max_input_tokens",
}
_READ = (
    *("model_id", "sharded", "num_shard", "quantize", "dtype", "kv_cache_dtype"),
    *("max_input_tokens", "max_total_tokens", "max_batch_prefill_tokens", "max_batch_size"),
    *("cuda_memory_fraction", "max_batch_total_tokens"),
)
WITHOUT_EFFECT = (
    *("revision", "validation_workers", "trust_remote_code", "max_best_of", "max_stop_sequences"),
    *("max_top_n_tokens", "waiting_served_ratio", "max_waiting_tokens", "hostname", "port"),
    *("prometheus_port", "shard_uds_path", "master_addr", "master_port", "json_output"),
    *("huggingface_hub_cache", "weights_cache_override", "otlp_*", "cors_allow_origin"),
    *("api_key", "watermark_*", "ngrok*", "tokenizer_config_path", "disable_grammar_support"),
    *("env", "max_client_batch_size", "usage_stats", "payload_limit", "max_concurrent_requests"),
    "graceful_termination_timeout",
)
IGNORED = {
    "speculate": "tokens that n-grams or heads guess have no term",
    "cuda_graphs": "captured graphs have no term",
    "rope_scaling": "the model's own positions are counted; say max_model_len",
    "rope_factor": "the model's own positions are counted; say max_model_len",
    "lora_adapters": "adapters that are loaded at the start have no term",
    "enable_prefill_logprobs": "scores of a prompt's tokens have no term",
    "disable_custom_kernels": "kernels of flash attention are counted",
}
_PATTERNS = tuple(name for name in WITHOUT_EFFECT if not name.endswith("*"))
OPTIONS = {
    **{name.upper(): name for name in (*_READ, *IGNORED, *_PATTERNS) if name != "env"},
    "MAX_INPUT_LENGTH": "max_input_tokens",
    "HF_MODEL_ID": "model_id",
    "SM_NUM_GPUS": "num_shard",
    "HF_MODEL_QUANTIZE": "quantize",
}
"""Options by their variables; those of SageMaker's entry point are last."""
VARIABLES_WITHOUT_EFFECT = (
    *("AIP_*", "HUGGINGFACE_*", "LOG_*", "RUST_*"),
    *("OTLP_*", "WATERMARK_*", "NGROK*", "HF_MODEL_*"),
)
