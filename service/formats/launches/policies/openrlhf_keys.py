"""Options of OpenRLHF 0.11 by what they lack: value, effect, term.

(``openrlhf/cli/train_ppo_ray.py``.)
"""

FLAGS = frozenset(
    {
        *("train.colocate_actor_ref", "train.colocate_critic_reward", "train.colocate_all"),
        *("train.async_enable", "train.partial_rollout_enable", "train.enable_ema"),
        *("train.dynamic_batch_enable", "train.full_determinism_enable", "vllm.sync_with_ray"),
        *("vllm.enable_prefix_caching", "vllm.enforce_eager", "vllm.enable_sleep"),
        *("ckpt.save_hf", "ckpt.disable_ds", "ckpt.load_enable", "ds.use_universal_ckpt"),
        *("actor.gradient_checkpointing_enable", "actor.gradient_checkpointing_reentrant"),
        *("ds.deepcompile", "ds.adam_offload", "ds.use_liger_kernel", "ds.overlap_comm"),
        *("ds.enable_sleep", "ds.packing_samples", "ds.load_in_4bit", "ref.offload"),
        *("reward.offload", "reward.normalize_enable", "critic.save_value_network"),
        *("algo.kl.use_loss", "algo.kl.unbiased_gradient", "algo.advantage.no_std_norm"),
        *("algo.dynamic_filtering_enable", "data.apply_chat_template", "use_ms"),
        *("data.disable_fast_tokenizer", "actor.freeze_visual_encoder", "actor.muon.nesterov"),
        *("actor.muon.no_nesterov", "critic.muon.nesterov", "critic.muon.no_nesterov"),
    }
)
MANY = frozenset(
    {
        *("ds.lora.target_modules", "actor.adam.betas", "critic.adam.betas", "reward.clip_range"),
        *("actor.eps_clip_low_high", "algo.dynamic_filtering_range"),
        "algo.advantage.is_correction_threshold",
    }
)
WITHOUT_EFFECT = (
    *("ref.num_*", "reward.*", "critic.*", "algo.*", "eval.*", "ckpt.*", "logger.*", "local_rank"),
    *("data.max_samples", "data.prompt_*", "data.input_*", "data.label_key", "data.image_key"),
    *("data.apply_chat_template", "data.disable_fast_tokenizer", "data.dataloader_num_workers"),
    *("train.colocate_critic_reward", "train.async_queue_size", "train.ema_beta", "train.seed"),
    *("train.num_episodes", "train.max_epochs", "train.full_determinism_enable", "use_ms"),
    *("train.agent_func_path", "rollout.batch_size", "rollout.vllm_generate_batch_size"),
    *("rollout.top_p", "rollout.temperature", "rollout.n_samples_per_prompt"),
    *("vllm.sync_*", "vllm.enable_prefix_caching", "actor.adam.*", "actor.muon.*", "actor.lr_*"),
    *("actor.min_lr_ratio", "actor.eps_clip*", "actor.dual_clip", "actor.policy_loss_type"),
    *("actor.loss_agg_mode", "ds.lora.alpha", "ds.use_universal_ckpt"),
    *("ds.ring_attn_head_stride", "ds.value_head_prefix", "ds.experts_implementation"),
    *("train.partial_rollout_enable", "actor.gradient_checkpointing_reentrant"),
)
"""By patterns."""
UNMODELLED = {
    "reward.model_name_or_path": "a reward model on the same GPUs is not counted",
    "train.enable_ema": "the moving average of the weights is not counted",
    "ds.zpg": "weights are not shared out a second time within groups here",
    "ds.grad_accum_dtype": "gradients are added up in their own format here",
    "ds.overlap_comm": "gradients have contiguous buffers of their own",
    "ds.use_liger_kernel": "Liger's kernels have no term beside a policy's loss",
    "ds.deepcompile": "nothing is compiled here",
    "data.max_images_per_prompt": "text alone is trained here",
    "actor.freeze_visual_encoder": "text alone is trained here",
    "actor.aux_loss_coef": "the router's balancing loss is not counted",
}
"""Settings that change the bytes and have no word here."""
