"""Values of commands by ``HfArgumentParser`` over TRL's configs.

Commands come as JSON by name on stdin (words without the script), values (or why there are none)
leave so on stdout; an environment with TRL and transformers runs it.
"""

import json
import sys
from importlib import import_module
from typing import Any

KEYS = (
    *("model_name_or_path", "dtype", "attn_implementation", "use_peft", "lora_r"),
    *("lora_target_modules", "load_in_4bit", "load_in_8bit", "use_dora", "use_rslora"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "max_grad_norm", "optim"),
    *("bf16", "fp16", "gradient_checkpointing", "use_liger_kernel", "torch_compile"),
    *("max_length", "packing", "padding_free", "loss_type", "precompute_ref_log_probs"),
    *("activation_offloading", "save_total_limit"),
)
CONFIGS = {
    "trl_sft": "SFTConfig",
    "trl_dpo": "DPOConfig",
    "trl_kto": "KTOConfig",
    "trl_reward": "RewardConfig",
    "trainer": "TrainingArguments",
}


def read_values(launcher: str, words: list[str]) -> dict[str, Any]:
    """Return the values that a command trains with."""
    transformers: Any = import_module("transformers")
    trl: Any = import_module("trl")
    transformers.training_args.TrainingArguments._validate_args = lambda _self: None  # noqa: SLF001
    source = transformers if launcher == "trainer" else trl
    models = () if launcher == "trainer" else (trl.ModelConfig,)
    kinds = (getattr(source, CONFIGS[launcher]), *models)
    parser = transformers.HfArgumentParser(kinds)
    parts = parser.parse_args_into_dataclasses(words, return_remaining_strings=True)
    values: dict[str, Any] = {}
    for part in parts[: len(kinds)]:
        named = {key: getattr(part, key) for key in KEYS if hasattr(part, key)}
        values |= {key: getattr(value, "value", value) for key, value in named.items()}
    return {key: value for key, value in values.items() if value is not None}


def main() -> None:
    """Read commands from stdin, and print their values."""
    results: dict[str, object] = {}
    output, sys.stdout = sys.stdout, sys.stderr
    for name, (launcher, words) in json.load(sys.stdin).items():
        try:
            results[name] = read_values(launcher, words)
        except BaseException as error:  # noqa: BLE001 - the parser's refusal is a result
            results[name] = {"error": f"{type(error).__name__}: {error}"[:500]}
    output.write(json.dumps(results, default=str))


if __name__ == "__main__":
    main()
