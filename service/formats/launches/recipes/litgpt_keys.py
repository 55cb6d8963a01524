"""Options of LitGPT's scripts, by what becomes of each.

LitGPT 0.5.13, ``litgpt/finetune/*.py`` (``setup``) and ``litgpt/args.py``.
"""

from collections.abc import Mapping

LITGPT = "0.5.13"
"""Release whose options and defaults are known."""
SCRIPTS: Mapping[str, str] = {
    "finetune": "lora",
    **{f"finetune_{word}": word for word in ("lora", "full", "adapter", "adapter_v2")},
}
"""Method of each command (``litgpt/__main__.py``, ``PARSER_DATA``)."""
MODULES: Mapping[str, str] = {
    f"litgpt.finetune.{word}": word for word in ("lora", "full", "adapter", "adapter_v2")
}
PRECISIONS: Mapping[str, str] = {
    "bf16-true": "bf16",
    "16-true": "fp16",
    "32-true": "fp32",
    **dict.fromkeys(("32", "32-full"), "fp32"),
    **dict.fromkeys(("bf16-mixed", "bf16"), "amp_bf16"),
    **dict.fromkeys(("16-mixed", "16"), "amp_fp16"),
}
"""Policies of Lightning's words (Lightning 2.6, ``fabric/connector.py``,
``_convert_precision_to_unified_args``).
"""
SCHEMES: Mapping[str, tuple[int, bool]] = {
    **{f"bnb.{word}": (4, False) for word in ("nf4", "fp4")},
    **{f"bnb.{word}-dq": (4, True) for word in ("nf4", "fp4")},
    **dict.fromkeys(("bnb.int8-training", "bnb.int8"), (8, False)),
}
"""Bits of packed weights, and whether their scales are packed too; fp4's bytes are nf4's."""
OPTIMIZERS: Mapping[str, str] = {
    **{f"{module}AdamW": "adamw" for module in ("", "torch.optim.", "torch.optim.adamw.")},
    **{f"{module}SGD": "sgd" for module in ("", "torch.optim.", "torch.optim.sgd.")},
    **{
        f"bitsandbytes.optim.{module}{word}": name
        for word, name in {
            "AdamW": "adamw_bnb",
            "AdamW8bit": "adamw_8bit",
            "PagedAdamW": "paged_adamw",
            "PagedAdamW8bit": "paged_adamw_8bit",
        }.items()
        for module in ("", "adamw.")
    },
}
"""Classes that ``instantiate_torch_optimizer`` makes and that have a term (``utils.py``)."""
NO_ROOM = ("train.max_tokens", "train.max_norm", "train.tie_embeddings", "train.lr_warmup_fraction")
"""Options that the scripts stop at (``validate_args``)."""
WITHOUT_EFFECT = (
    *("out_dir", "resume", "data", "data.*", "seed", "access_token", "lora_alpha", "logger_name"),
    *("log", "log.*", "train.save_interval", "train.log_interval", "train.lr_warmup_*"),
    *("train.epochs", "train.max_*", "train.min_lr", "eval.*", "optimizer.lr"),
    *("optimizer.weight_decay", "optimizer.betas", "optimizer.eps", "optimizer.init_args.lr"),
    *("optimizer.init_args.weight_decay", "optimizer.init_args.betas", "optimizer.init_args.eps"),
    *("optimizer.class_path", "optimizer.*.momentum", "optimizer.momentum", "io.*", "train.beta*"),
    *("train.learning_rate", "train.weight_decay", "float32_matmul_precision"),
)
"""Options that decide neither the memory nor the time of a step."""
