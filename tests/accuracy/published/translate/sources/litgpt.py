"""LitGPT's figures: its resource tables of October 2023 and those of its config hub.

Inference has a short prompt and 50 new tokens, the cache made for as many. Training is that of the
scripts: on data of its own lengths, each batch as long as its longest sample.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from service.estimator.model.families.registry import architecture_from_config
from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._generating import NF4, NF4_DOUBLE, case
from tests.accuracy.published.translate._training import readings

_SCHEMES = {"bitsandbytes nf4": NF4, "bitsandbytes nf4-dq": NF4_DOUBLE}
_PROMPT_TOKENS, _NEW_TOKENS = 9, 50
""""What food do llamas eat?", the default prompt, and the default number of new tokens."""
_TABLES = "2023-10-27"
"""The day on which the resource tables came in (pull request 663)."""
_HUB = {
    "phi-3": "2024-07-05",
    "gemma2": "2024-07-23",
    "llama-3.1": "2024-07-24",
    "llama-3.2": "2024-09-27",
}
_HUB_FIRST = "2024-04-26"
"""Days on which lines of the config hub's table came in, by the folder of their config."""
_DEFAULT = {"rank": 8, "dropout": 0.05, "targets": ["query", "value"]}
"""What ``finetune/lora.py`` says at the top: the resource tables' trainable parameters."""
_SMALL = {"rank": 32, "dropout": 0.05, "targets": ["query", "value"]}
"""What the files for Llama 3.2 say, whose rows do not state it."""
_KINDS: Mapping[str, dict[str, Any]] = {
    "gemma-2-": {"model_type": "gemma2", "sliding_window": 4096},
    "gemma": {"model_type": "gemma"},
    "llama": {"model_type": "llama"},
    "mistral": {"model_type": "mistral", "sliding_window": None},
    "phi-1.5": {"model_type": "phi", "partial_rotary_factor": 0.5},
    "phi-2": {"model_type": "phi", "partial_rotary_factor": 0.4},
    "phi-3": {"model_type": "phi3"},
    "stablelm": {"model_type": "gpt_neox", "rotary_pct": 0.25},
}
"""What LitGPT's ``config.py`` says of a model beside the sizes that the row has."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a generation, or a step of a fine-tuning script."""
    if row["task"] != "inference":
        yield _translate_training(row)
        return
    scheme = (row.get("quantization") or {}).get("scheme")
    workload = {
        "num_sequences": 1,
        "prompt_tokens": _PROMPT_TOKENS,
        "output_tokens": _NEW_TOKENS,
        "cache": "static",
        "client": "loop",
        "weight_dtype": "bf16",
    }
    yield case(row, row["model"]["hf_id"], workload, _SCHEMES[scheme] if scheme else None)


def _translate_training(row: Mapping[str, Any]) -> dict[str, Any]:
    method, folder = _find_method(row), _find_folder(row)
    config = _build_config(row)
    if config["model_type"] == "gemma2":
        message = "LitGPT's own gemma 2, whose scores are capped"
        raise Untranslatable(message)
    if _count_gpus(row, method, folder) > 1:
        message = "LitGPT on several GPUs, under Lightning's FSDP"
        raise Untranslatable(message)
    if row["precision"]["policy"] == "bf16-mixed":
        message = "LitGPT's layers under autocast"
        raise Untranslatable(message)
    batch, scheme = row["batch"], (row.get("quantization") or {}).get("scheme")
    is_packed = method == "qlora" or (method == "adapter" and scheme is not None)
    longest = batch.get("longest_sample_tokens")
    workload = {
        "framework": "litgpt",
        "framework_version": _find_day(folder),
        "method": method,
        "precision": "bf16",
        "optimizer": "paged_adamw" if is_packed else "adamw",
        "micro_batch_size": batch["micro_batch"],
        "gradient_accumulation_steps": _count_micro_batches(batch),
        "sequence_length": longest or batch["seq_len"],
        # The longest sample is one of many; of a bound nothing else is known.
        **({"sequence_lengths": [longest]} if longest else {}),
    }
    if method == "adapter":
        is_second = row["lora"]["method"] == "Adapter v2"
        workload |= {
            "method": "peft",
            "peft": {"type": "adapter_v2" if is_second else "adapter"},
        }
    elif method != "full":
        stated = row.get("lora") or {}
        lora = stated if stated.get("rank") else _SMALL if "3.2" in folder else _DEFAULT
        workload["lora"] = {
            "rank": lora["rank"],
            "dropout": lora.get("dropout", _DEFAULT["dropout"]),
            "target_modules": lora["targets"],
        }
    if method == "qlora":
        workload["double_quantization"] = scheme == "bitsandbytes nf4-dq"
    source = row["source"]
    return {
        "id": row["id"],
        "group": row["weight_group"],
        "class": "training" if method == "full" else "adapters",
        "source": f"{source['repo']}@{source['commit']}/{source['path']}",
        "model": {"hf_config": config | _pack(scheme if method == "adapter" else None)},
        "workload": {"task": "train", **workload},
        "layout": {},
        "gpu": "A10G" if "A10G" in row["hardware"]["gpu"] else "A100-SXM4-40GB",
        "outcome": row["outcome"],
        "readings": _check_states(config, method, list(readings(row))),
    }


def _pack(scheme: str | None) -> dict[str, Any]:
    """Return what a config says of its weights, where the method does not."""
    return {} if scheme is None else {"quantization_config": _SCHEMES[scheme]}


def _count_micro_batches(batch: Mapping[str, Any]) -> int:
    whole = batch.get("global_batch") or batch.get("minibatch") or batch["micro_batch"]
    return int(whole // batch["micro_batch"])


def _check_states(
    config: Mapping[str, Any], method: str, read: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the readings; raise Untranslatable for less than the states that AdamW has.

    These are weights, gradients and two moments in bf16.
    """
    if method == "full":
        states = 8 * architecture_from_config(config).counts.total
        if any(reading["high"] < states for reading in read):
            message = "a reading below weights, gradients and the states of AdamW, which it names"
            raise Untranslatable(message)
    return read


def _find_method(row: Mapping[str, Any]) -> str:
    """Return the script's method; the config hub's file decides where there is one."""
    file = row["source"].get("config_file") or ""
    stem = file.rpartition("/")[2].removesuffix(".yaml")
    if stem:
        return str(stem)
    return "full" if row["task"] == "full_finetune" else str(row["task"])


def _find_folder(row: Mapping[str, Any]) -> str:
    file = row["source"].get("config_file") or ""
    return str(file.rpartition("/")[0].rpartition("/")[2])


def _find_day(folder: str) -> str:
    if not folder:
        return _TABLES
    return next((day for start, day in _HUB.items() if folder.startswith(start)), _HUB_FIRST)


def _count_gpus(row: Mapping[str, Any], method: str, folder: str) -> int:
    """Return the devices of a run.

    Those of the config hub are what the files say, whatever the machine: one, but for full training
    (``config_hub/finetune/README.md``: all runs are single-GPU experiments).
    """
    count: int = row["hardware"].get("count") or 1
    if folder and (method != "full" or folder == "tiny-llama"):
        return 1
    return count


def _build_config(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config.json of a row's model, by LitGPT's own sizes."""
    arch, name = row["model"]["arch"], row["model"]["name"].lower()
    kind = next((words for start, words in _KINDS.items() if name.startswith(start)), None)
    if kind is None and name.startswith("tiny"):
        kind = _KINDS["llama"]
    if kind is None:
        message = "the model's config is not known"
        raise Untranslatable(message)
    return {
        "vocab_size": arch["padded_vocab"],
        "hidden_size": arch["hidden"],
        "num_hidden_layers": arch["layers"],
        "num_attention_heads": arch["heads"],
        "num_key_value_heads": arch["kv_heads"],
        "head_dim": arch["head_dim"],
        "intermediate_size": arch["intermediate"],
        "max_position_embeddings": arch["max_position"],
        "tie_word_embeddings": bool(arch["tie_embeddings"]),
        **kind,
    }
