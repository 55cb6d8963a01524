"""Launches whose values by their launchers' own parsers the suite compares."""

from collections.abc import Mapping
from pathlib import Path

from service.formats.launches.values.launch import Checkpoint, Launch, Launcher, LaunchFile

FILES = Path(__file__).parents[2] / "unit" / "formats" / "launches" / "files"
QWEN = Checkpoint(model_type="qwen2", dtype="bfloat16")
_FSDP = "distributed_type: FSDP\ncompute_environment: LOCAL_MACHINE\nmixed_precision: bf16\n"
_GPUS = "num_processes: 8\nnum_machines: 1\nmachine_rank: 0\nuse_cpu: false\n"
_DEEPSPEED = "distributed_type: DEEPSPEED\ncompute_environment: LOCAL_MACHINE\n"
ACCELERATE: Mapping[str, str] = {
    "fsdp1.yaml": f"{_FSDP}{_GPUS}fsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n"
    "  fsdp_offload_params: true\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n",
    "fsdp1_default.yaml": f"{_FSDP}{_GPUS}fsdp_config:\n  fsdp_offload_params: false\n",
    "fsdp2.yaml": f"{_FSDP}{_GPUS}fsdp_config:\n  fsdp_version: 2\n"
    "  fsdp_reshard_after_forward: false\n  fsdp_activation_checkpointing: true\n",
    "fsdp2_strategy.yaml": f"{_FSDP}{_GPUS}fsdp_config:\n  fsdp_version: 2\n"
    "  fsdp_sharding_strategy: SHARD_GRAD_OP\n",
    "deepspeed.yaml": f"{_DEEPSPEED}{_GPUS}deepspeed_config:\n  zero_stage: 3\n"
    "  offload_optimizer_device: cpu\n  offload_param_device: none\n",
    "deepspeed_default.yaml": f"{_DEEPSPEED}{_GPUS}deepspeed_config:\n"
    "  gradient_accumulation_steps: 4\n",
    "two_machines.yaml": "distributed_type: MULTI_GPU\ncompute_environment: LOCAL_MACHINE\n"
    "num_processes: 16\nnum_machines: 2\nmachine_rank: 0\nmixed_precision: 'no'\n"
    "main_process_ip: a\nmain_process_port: 1\nuse_cpu: false\n",
}
"""Files of ``accelerate config``."""
_LORA = "--use_peft --lora_r 32 --lora_target_modules q_proj v_proj --bf16 False"
_MODEL = "--model_name_or_path a/b --output_dir out"
TRL: Mapping[str, tuple[str, str]] = {
    "sft": ("trl_sft", _MODEL),
    "sft_packed": ("trl_sft", f"{_MODEL} --packing --max_length 4096 --use_liger_kernel"),
    "sft_lora": (
        "trl_sft",
        f"{_MODEL} {_LORA} --gradient_checkpointing False --optim adamw_8bit",
    ),
    "sft_padding_free": ("trl_sft", f"{_MODEL} --padding_free --dtype bfloat16 --loss_type dft"),
    "dpo": ("trl_dpo", f"{_MODEL} --per_device_train_batch_size 2 --max_grad_norm 0"),
    "dpo_qlora": (
        "trl_dpo",
        f"{_MODEL} --use_peft --load_in_4bit --lora_target_modules all-linear --max_length 512",
    ),
    "kto": ("trl_kto", f"{_MODEL} --desirable_weight 1.33 --precompute_ref_log_probs"),
    "reward": ("trl_reward", f"{_MODEL} --gradient_accumulation_steps 8 --save_total_limit 3"),
    "trainer": ("trainer", f"{_MODEL} --bf16 --learning_rate 1e-4"),
    "trainer_short": (
        "trainer",
        f"{_MODEL} --gradient_checkpointing --optim adafactor --torch_compile",
    ),
}
"""Launchers and words of commands."""
_DATA = "--model a/b --dataset x"
MS_SWIFT: Mapping[str, str] = {
    "sft": f"sft {_DATA} --max_length 2048",
    "sft_targets": f"sft {_DATA} --max_length 512 --target_modules q_proj v_proj --lora_rank 64 "
    "--lora_dropout 0 --use_rslora true --gradient_accumulation_steps 4 --max_grad_norm 0",
    "sft_full": f"sft {_DATA} --tuner_type full --torch_dtype bfloat16 --max_length 4096 "
    "--per_device_train_batch_size 2 --gradient_checkpointing false --optim adamw_torch "
    "--split_dataset_ratio 0.01 --save_total_limit 2",
    "sft_fp32": f"sft {_DATA} --torch_dtype float32 --max_length 512 --use_dora true",
    "sft_fp16": f"sft {_DATA} --torch_dtype float16 --max_length 512 --save_strategy no "
    "--split_dataset_ratio 0.1",
    "qlora": f"sft {_DATA} --quant_method bnb --quant_bits 4 --max_length 2048 --bf16 true",
    "qlora_8": f"sft {_DATA} --quant_method bnb --quant_bits 8 --max_length 2048 "
    "--bnb_4bit_use_double_quant false --lora_dtype bfloat16",
    "packed": f"pt {_DATA} --packing true --attn_impl flash_attn --max_length 8192 "
    "--per_device_train_batch_size 16 --tuner_type full",
    "padding_free": f"sft {_DATA} --padding_free true --attn_impl flash_attention_2 "
    "--max_length 4096 --eval_strategy epoch --val_dataset y --per_device_eval_batch_size 4",
    "dpo": f"rlhf {_DATA} --max_length 2048",
    "dpo_full": f"rlhf {_DATA} --rlhf_type dpo --tuner_type full --max_length 1024 --rpo_alpha 0.1",
    "kto": f"rlhf {_DATA} --rlhf_type kto --max_length 1024",
    "orpo": f"rlhf {_DATA} --rlhf_type orpo --max_length 1024",
    "simpo": f"rlhf {_DATA} --rlhf_type simpo --max_length 1024 --tuner_type full",
    "rm": f"rlhf {_DATA} --rlhf_type rm --max_length 1024 --task_type seq_cls",
    "grpo": f"rlhf {_DATA} --rlhf_type grpo --max_length 1024 --num_generations 4 "
    "--per_device_train_batch_size 4",
    "grpo_engine": f"rlhf {_DATA} --rlhf_type grpo --tuner_type full --max_length 2048 "
    "--use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.4 --sleep_level 1 "
    "--offload_model true --max_completion_length 1024 --per_device_train_batch_size 2 "
    "--steps_per_generation 4 --num_generations 8 --beta 0",
}
"""Words behind ``swift``."""


def list_texts(parser: str) -> dict[str, object]:
    """Return the samples of a parser by name, as its environment reads them."""
    if parser == "accelerate":
        return dict(ACCELERATE)
    if parser == "trl":
        return {name: [launcher, words.split()] for name, (launcher, words) in TRL.items()}
    if parser == "ms_swift":
        return {name: words.split() for name, words in MS_SWIFT.items()}
    return {
        path.name: path.read_text(encoding="utf-8") for path in sorted(FILES.glob(f"{parser}_*"))
    }


def make_launch(parser: str, name: str) -> Launch:
    """Return a sample as a launch."""
    if parser == "trl":
        launcher, words = TRL[name]
        return Launch(launcher=Launcher(launcher), command=("python", "x.py", *words.split()))
    if parser == "ms_swift":
        return Launch(
            command=("swift", *MS_SWIFT[name].split()), find_checkpoint=lambda _name: QWEN
        )
    text = str(list_texts(parser)[name])
    return Launch(launcher=Launcher(parser), files=(LaunchFile(name=name, content=text),))
