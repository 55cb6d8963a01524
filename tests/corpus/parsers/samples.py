"""Launches whose values by their launchers' own parsers the suite compares."""

from collections.abc import Mapping
from pathlib import Path

from service.formats.launches.values.launch import Launch, Launcher, LaunchFile

FILES = Path(__file__).parents[2] / "unit" / "formats" / "launches" / "files"
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


def list_texts(parser: str) -> dict[str, object]:
    """Return the samples of a parser by name, as its environment reads them."""
    if parser == "accelerate":
        return dict(ACCELERATE)
    if parser == "trl":
        return {name: [launcher, words.split()] for name, (launcher, words) in TRL.items()}
    return {
        path.name: path.read_text(encoding="utf-8") for path in sorted(FILES.glob(f"{parser}_*"))
    }


def make_launch(parser: str, name: str) -> Launch:
    """Return a sample as a launch."""
    if parser == "trl":
        launcher, words = TRL[name]
        return Launch(launcher=Launcher(launcher), command=("python", "x.py", *words.split()))
    text = str(list_texts(parser)[name])
    return Launch(launcher=Launcher(parser), files=(LaunchFile(name=name, content=text),))
