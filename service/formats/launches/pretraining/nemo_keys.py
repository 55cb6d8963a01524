"""Names of NeMo and Megatron-Bridge by Megatron-LM's, and settings that decide nothing.

NeMo 2.5 (``collections/llm``, ``examples/nlp/language_modeling/conf``), Megatron-Bridge 0.5
(``training/config.py``), NeMo-Automodel 0.7 (``examples``, ``components/distributed/config.py``).
"""

from collections.abc import Mapping

NEMO, BRIDGE, AUTOMODEL = "2.5.0", "0.5.0", "0.7.0"
"""Releases whose keys and defaults are known."""
RENAMED: Mapping[str, str] = {
    "virtual_pipeline_model_parallel_size": "num_virtual_stages_per_pipeline_rank",
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "activations_checkpoint_granularity": "recompute_granularity",
    "activations_checkpoint_method": "recompute_method",
    "activations_checkpoint_num_layers": "recompute_num_layers",
    "num_moe_experts": "num_experts",
    "gradient_clip_val": "clip_grad",
    "encoder_seq_length": "seq_length",
    "sequence_length": "seq_length",
    "max_seq_length": "seq_length",
    "fp8": "fp8_format",
    "fsdp": "use_torch_fsdp2",
}
"""Names that Megatron-LM has in other words."""
SAME = frozenset(
    {
        *("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"),
        *("expert_model_parallel_size", "expert_tensor_parallel_size", "sequence_parallel"),
        *("pipeline_model_parallel_layout", "account_for_embedding_in_pipeline_split"),
        *("account_for_loss_in_pipeline_split", "micro_batch_size", "global_batch_size"),
        *("seq_length", "recompute_granularity", "recompute_method", "recompute_num_layers"),
        *("recompute_modules", "use_distributed_optimizer", "use_megatron_fsdp", "clip_grad"),
        *("data_parallel_sharding_strategy", "optimizer_cpu_offload", "optimizer_offload_fraction"),
        *("use_precision_aware_optimizer", "main_grads_dtype", "main_params_dtype"),
        *("exp_avg_dtype", "exp_avg_sq_dtype", "num_layers", "hidden_size", "ffn_hidden_size"),
        *("num_attention_heads", "num_query_groups", "kv_channels", "max_position_embeddings"),
        *("moe_router_topk", "moe_ffn_hidden_size", "moe_shared_expert_intermediate_size"),
        *("moe_layer_freq", "moe_token_dispatcher_type", "moe_grouped_gemm", "attention_backend"),
        *("cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "overlap_grad_reduce"),
        *("overlap_param_gather", "attention_dropout", "hidden_dropout", "vocab_size"),
        *("make_vocab_size_divisible_by", "position_embedding_type", "qk_layernorm"),
        *("add_qkv_bias", "multi_latent_attention", "q_lora_rank", "kv_lora_rank", "qk_head_dim"),
        *("qk_pos_emb_head_dim", "v_head_dim", "mtp_num_layers", "cpu_offloading_num_layers"),
        *(
            "tp_comm_overlap",
            "deterministic_mode",
            "gradient_accumulation_fusion",
            "cuda_graph_impl",
        ),
        *("enable_cuda_graph", "external_cuda_graph", "rampup_batch_size", "grad_reduce_in_bf16"),
        *("masked_softmax_fusion", "persist_layer_norm", "fp32_residual_connection"),
        *("distribute_saved_activations", "make_vocab_size_divisible_by"),
        *("defer_embedding_wgrad_compute", "wgrad_deferral_limit"),
    }
)
"""Names that are Megatron-LM's own."""
SECTIONS = frozenset(
    {
        *("model", "train", "training", "data", "dataset", "ddp", "optimizer", "optim", "strategy"),
        *("config", "trainer", "comm_overlap", "mixed_precision", "pretrain", "plugins", ""),
    }
)
"""Last sections above such names."""
WITHOUT_EFFECT = (
    *("exp_manager*", "s3_checkpointing*", "log.*", "logger.*", "resume.*", "checkpoint.*"),
    *("scheduler.*", "rng.*", "profiling.*", "dist.*", "validation.*", "tokenizer.*", "nvrx.*"),
    *("trainer.max_*", "trainer.val_check*", "trainer.limit_*", "trainer.log_every*"),
    *("trainer.logger", "trainer.accelerator", "trainer.enable_*", "trainer.use_distributed_*"),
    *("trainer.accumulate_grad_batches", "trainer.benchmark", "trainer.callbacks*"),
    *(
        "train.train_iters",
        "train.eval_*",
        "train.manual_gc*",
        "train.exit_*",
        "train.train_samples",
    ),
    *("optimizer.lr", "optimizer.min_lr", "optimizer.weight_decay", "optimizer.adam_*"),
    *("optim.lr_scheduler*", "optim.config.lr", "optim.config.weight_decay", "optim.config.adam_*"),
    *(
        "model.optim.*",
        "model.data.*",
        "model.tokenizer.*",
        "model.nsys_profile.*",
        "data.*",
        "name",
    ),
    *("model.init_method_std", "model.use_scaled_init_method", "model.seed", "model.hysteresis"),
    *("model.native_amp_*", "model.restore_from_*", "model.resume_from_checkpoint", "dataset.*"),
    *("model.layernorm_epsilon", "model.pre_process", "model.post_process", "model.dist_ckpt_*"),
    *("model.mcore_gpt", "model.skip_train", "model.*_fusion", "model.apex_*", "model.gc_interval"),
    *("model.rotary_*", "model.openai_gelu", "model.onnx_safe", "model.do_layer_norm_weight_decay"),
    *("model.nccl_*", "model.overlap_p2p_comm", "model.batch_p2p_comm", "model.sync_batch_comm"),
    *(
        "model.reset_lr*",
        "model.drop_layers",
        "model.use_cpu_initialization",
        "defaults*",
        "hydra*",
    ),
    *(
        "model.gradient_as_bucket_view",
        "model.validation_*",
        "model.grad_allreduce_*",
        "inference*",
    ),
    *("model.inspect_grads", "model.seq_len_interpolation_factor", "model.scale_positional_*"),
    *("model.normalize_attention_scores", "model.apply_query_key_layer_scaling", "mode"),
    *("model.peft.*", "peft.*", "model.fp8_*", "model.reduce_amax", "model.answer_only_loss"),
    *("model.fp16_lm_cross_entropy", "model.save_nemo_*", "model.use_flash_attention"),
    *("model.transformer_block_type", "model.headscale", "model.attention_type", "_target_"),
)
"""Of NeMo's and Megatron-Bridge's trainings, by patterns."""
AUTOMODEL_WITHOUT_EFFECT = (
    *("recipe", "dist_env.*", "rng.*", "dataset.*", "validation_dataset*", "dataloader.*", "ci.*"),
    *("validation_dataloader*", "lr_scheduler.*", "checkpoint.*", "wandb.*", "mlflow.*", "seed"),
    *("step_scheduler.*", "optimizer.lr", "optimizer.min_lr", "optimizer.betas", "optimizer.eps"),
    *("optimizer.weight_decay", "peft.alpha", "peft.dropout*", "peft.lora_A_init", "peft._target_"),
    *("peft.use_triton", "peft.use_memory_efficient_lora", "benchmark.*", "auto_resume", "slurm.*"),
    *("model._target_", "model.trust_remote_code", "model.revision", "compile.*", "tokenizer*"),
    *("model.config._target_", "model.config.trust_remote_code", "loss_fn.*", "processor.*"),
    *("packed_sequence.*", "distributed._target_", "clip_grad_norm.*", "skypilot.*", "launcher.*"),
    *("freeze_config.*", "comet.*", "metric_logger*", "nsys*", "model.backend.rope_fusion"),
    *("model.backend.enable_hf_state_dict_adapter", "model.backend.fake_balanced_gate"),
    *("model.backend._target_", "model.backend.enable_fsdp_optimizations", "optimizer.*_mode"),
    *("model.text_config.use_cache", "model.output_hidden_states", "model.use_cache", "nvtx"),
    *(
        "model.mtp_loss_scaling_factor",
        "model.force_hf",
        "model.load_base_model",
        "distributed.moe*",
    ),
    *("fp8.*", "performance.*", "optimizer.bias_correction", "quantization.bnb_4bit_*"),
    *("distributed.enable_fsdp2_prefetch", "distributed.mp_policy.*", "model.use_sdpa_patching"),
)
"""Of NeMo-Automodel's recipes, by patterns."""
RECIPES = frozenset(
    {
        *("TrainFinetuneRecipeForNextTokenPrediction", "BenchmarkingRecipeForNextTokenPrediction"),
        *("FinetuneRecipeForVLM", "TrainFinetuneRecipeForSequenceClassification", ""),
    }
)
"""Automodel's recipes whose steps have a model here."""
