"""Values of files by LLaMA-Factory's own parser, in an environment that has it.

Files come as JSON by name on stdin, values (or why there are none) leave so on stdout.
"""

import json
import os
import sys
from importlib import import_module
from typing import Any

import yaml

KEYS = (
    *("model_name_or_path", "stage", "finetuning_type", "lora_rank", "lora_target", "cutoff_len"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "max_grad_norm", "optim"),
    *("bf16", "fp16", "pure_bf16", "quantization_bit", "double_quantization", "flash_attn"),
    *("packing", "neat_packing", "enable_liger_kernel", "disable_gradient_checkpointing"),
    *("use_reentrant_gc", "use_dora", "use_rslora", "pref_loss"),
    *("use_galore", "use_apollo", "use_muon"),
)


def read_values(text: str) -> dict[str, Any]:
    """Return the values that LLaMA-Factory trains with."""
    parser: Any = import_module("llamafactory.hparams.parser")
    arguments: Any = import_module("transformers.training_args")
    arguments.TrainingArguments._validate_args = lambda _self: None  # noqa: SLF001 - a GPU's
    named = {key: value for key, value in yaml.safe_load(text).items() if key != "deepspeed"}
    kinds = parser.HfArgumentParser(parser._TRAIN_ARGS)  # noqa: SLF001 - its own door
    parsed = parser._parse_args(kinds, named, allow_extra_keys=True)  # noqa: SLF001
    values: dict[str, Any] = {}
    for part in parsed:
        values |= {key: getattr(part, key) for key in KEYS if hasattr(part, key)}
    if hasattr(values.get("optim"), "value"):
        values["optim"] = values["optim"].value
    return {key: value for key, value in values.items() if value is not None}


def main() -> None:
    """Read files from stdin, and print their values."""
    os.environ["DISABLE_VERSION_CHECK"] = "1"
    results: dict[str, object] = {}
    output, sys.stdout = sys.stdout, sys.stderr
    for name, text in json.load(sys.stdin).items():
        try:
            results[name] = read_values(text)
        except BaseException as error:  # noqa: BLE001 - the parser's refusal is a result
            results[name] = {"error": f"{type(error).__name__}: {error}"[:500]}
    output.write(json.dumps(results, default=str))


if __name__ == "__main__":
    main()
