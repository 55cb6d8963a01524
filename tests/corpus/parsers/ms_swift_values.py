"""Values of commands by ms-swift's own arguments, in an environment that has it.

Words come as JSON by name on stdin, values (or why there are none) leave so on stdout. The model is
a small Qwen2 of this machine, whatever the command names, so that nothing is fetched.
"""

import json
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

KEYS = (
    *("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps"),
    *("bf16", "fp16", "optim", "max_grad_norm", "max_length", "tuner_type", "lora_rank"),
    *("lora_dropout", "lora_dtype", "target_modules", "use_dora", "use_rslora", "quant_method"),
    *("quant_bits", "bnb_4bit_use_double_quant", "packing", "padding_free", "eval_strategy"),
    *("use_liger_kernel", "gradient_checkpointing", "rlhf_type", "beta", "ref_model", "use_vllm"),
    *("max_completion_length", "sleep_level", "vllm_gpu_memory_utilization", "vllm_mode"),
    *("vllm_tensor_parallel_size", "vllm_enforce_eager", "offload_model", "offload_optimizer"),
    *("steps_per_generation", "vllm_max_model_len", "attn_impl", "save_total_limit", "loss_type"),
    *("cpo_alpha", "torch_dtype"),
)
_CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 32768,
    "dtype": "bfloat16",
}
_KNOWN = ("--model_type", "qwen2", "--template", "qwen", "--output_dir", "out")
_TAKEN = frozenset({"--model", "--model_type", "--template", "--output_dir", "--ref_model"})


def read_values(words: list[str], model: str) -> dict[str, Any]:
    """Return the values that ms-swift trains with."""
    package: Any = import_module("swift.arguments")
    parser: Any = import_module("transformers")
    arguments: Any = import_module("transformers.training_args")
    arguments.TrainingArguments._validate_args = lambda _self: None  # noqa: SLF001 - a GPU's
    kinds = {
        "sft": package.SftArguments,
        "pt": package.PretrainArguments,
        "rlhf": package.RLHFArguments,
    }
    kept = [*_leave_out(words[1:]), "--model", model, *_KNOWN]
    (parsed,) = parser.HfArgumentParser([kinds[words[0]]]).parse_args_into_dataclasses(kept)
    ours = {key: getattr(parsed, key) for key in KEYS if hasattr(parsed, key)}
    theirs = parsed.training_args
    for key in ("bf16", "fp16", "optim", "eval_strategy", "steps_per_generation"):
        value = getattr(theirs, key, None)
        ours[key] = getattr(value, "value", value)
    return {key: value for key, value in ours.items() if value is not None}


def _leave_out(words: list[str]) -> list[str]:
    """Return words without options that name a model or a folder."""
    kept: list[str] = []
    skips = False
    for word in words:
        skips = word in _TAKEN or (skips and not word.startswith("--"))
        kept += [] if skips else [word]
    return kept


def main() -> None:
    """Read commands from stdin, and print their values."""
    os.environ |= {"USE_HF": "1", "CUDA_VISIBLE_DEVICES": "0"}
    results: dict[str, object] = {}
    output, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        model = Path(folder, "model")
        model.mkdir()
        (model / "config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
        for name, words in json.load(sys.stdin).items():
            try:
                results[name] = read_values(words, str(model))
            except BaseException as error:  # noqa: BLE001 - the parser's refusal is a result
                results[name] = {"error": f"{type(error).__name__}: {error}"[:500]}
    output.write(json.dumps(results, default=str))


if __name__ == "__main__":
    main()
