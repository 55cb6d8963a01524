"""Values of files by axolotl's own schema, in an environment that has axolotl.

Files come as JSON by name on stdin, values (or why there are none) leave so on stdout. The schema
is told of one H100.
"""

import json
import sys
from importlib import import_module
from typing import Any

import yaml

KEYS = (
    *("base_model", "micro_batch_size", "gradient_accumulation_steps", "sequence_len"),
    *("optimizer", "adapter", "lora_r", "lora_target_linear", "lora_target_modules"),
    *("gradient_checkpointing", "sample_packing", "load_in_4bit", "load_in_8bit"),
    *("fsdp_version", "fsdp_config", "max_grad_norm", "bf16", "fp16", "attn_implementation"),
    *("dp_shard_size", "dp_replicate_size", "tensor_parallel_size", "context_parallel_size"),
    *("peft_use_dora", "peft_use_rslora", "rl", "reward_model", "deepspeed"),
)
CAPABILITIES = {"bf16": True, "fp8": True, "n_gpu": 1, "n_node": 1, "compute_capability": "sm_90"}


def read_values(text: str) -> dict[str, Any]:
    """Return the values that axolotl trains with."""
    config: Any = import_module("axolotl.utils.config")
    wrapped = import_module("axolotl.utils.dict").DictDefault(yaml.safe_load(text))
    plugins = wrapped.pop("plugins", None)
    checked = config.validate_config(wrapped, CAPABILITIES, {"torch_version": "2.13.0"})
    config.is_torch_bf16_gpu_available = lambda: True
    config.resolve_dtype(checked)
    values = {key: checked.get(key) for key in KEYS}
    values["torch_dtype"] = str(checked.torch_dtype).removeprefix("torch.")
    values["plugins"] = plugins
    return {key: value for key, value in values.items() if value is not None}


def main() -> None:
    """Read files from stdin, and print their values."""
    results: dict[str, object] = {}
    output, sys.stdout = sys.stdout, sys.stderr
    for name, text in json.load(sys.stdin).items():
        try:
            results[name] = read_values(text)
        except Exception as error:  # noqa: BLE001 - the schema's refusal is a result
            results[name] = {"error": f"{type(error).__name__}: {error}"[:500]}
    output.write(json.dumps(results, default=str))


if __name__ == "__main__":
    main()
