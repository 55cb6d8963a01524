"""Adapters and quantised weights of a trainer."""

from collections.abc import Mapping

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.number_formats import DTYPES
from service.formats.launches.trainers.setup import PEFT, TrainerSetup
from service.formats.launches.trainers.target_patterns import is_pattern, list_pattern_names
from service.formats.launches.trainers.unused import (
    ADAPTERS_WITHOUT_EFFECT,
    MODEL_WITHOUT_EFFECT,
)
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, make_default

_RANK = 8
_SOURCE = f"PEFT {PEFT}, peft/tuners/lora/config.py"
_BNB = "transformers, BitsAndBytesConfig"
DEFAULT_TARGETS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("bart", "opt", "gptj", "gpt_neo", "llama", "llama4", "mistral", "mixtral"),
            *("stablelm", "gemma", "gemma2", "gemma3_text", "qwen2", "qwen3"),
        ),
        ("q_proj", "v_proj"),
    ),
    **dict.fromkeys(("t5", "mt5"), ("q", "v")),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), ("c_attn",)),
    **dict.fromkeys(("bloom", "gpt_neox", "chatglm", "falcon"), ("query_key_value",)),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "electra", "layoutlm"), ("query", "value")),
    "deberta-v2": ("query_proj", "value_proj"),
    "deberta": ("in_proj",),
    "mpt": ("Wqkv",),
    "codegen": ("qkv_proj",),
    "phi": ("q_proj", "v_proj", "fc1", "fc2"),
    "nemotron_h": ("q_proj", "k_proj", "v_proj", "o_proj"),
}
"""Linear layers that LoRA adapts where ``target_modules`` is not said (PEFT 0.21,
``peft/utils/constants.py``)."""


def read_adapters(setup: TrainerSetup, draft: Draft, handed_in: HandedIn) -> None:
    """Set the method, its adapters, and how quantised weights are prepared."""
    bits = _read_quantization(setup, draft)
    if not len(setup.adapters):
        draft.put("workload.method", "full")
        if bits is not None:
            draft.warn("quantised weights are not trained: say the adapters (LoraConfig)")
    else:
        draft.put("workload.method", "lora" if bits is None else "qlora")
        _read_lora(setup, draft, handed_in)
        if bits is not None:
            _put_prepared(setup, draft)
    draft.account(setup.adapters, ADAPTERS_WITHOUT_EFFECT)
    draft.account(setup.model, MODEL_WITHOUT_EFFECT)


def _read_quantization(setup: TrainerSetup, draft: Draft) -> Setting | None:
    """Set bits and scales of quantised weights; return their switch."""
    model = setup.model
    prefix = "quantization_config."
    four = model.take(f"{prefix}load_in_4bit", "load_in_4bit")
    eight = model.take(f"{prefix}load_in_8bit", "load_in_8bit")
    if four is not None and four.as_bool():
        draft.put("workload.quantization_bits", 4, four)
        double = model.take(f"{prefix}bnb_4bit_use_double_quant") or make_default(
            "bnb_4bit_use_double_quant", value=False, source=_BNB
        )
        draft.put("workload.double_quantization", double.as_bool(), double)
        compute = model.take(f"{prefix}bnb_4bit_compute_dtype")
        if compute is not None:
            draft.note(compute, f"products in {compute.as_choice(DTYPES)}")
        return four
    if eight is not None and eight.as_bool():
        draft.put("workload.quantization_bits", 8, eight)
        return eight
    bits = model.take(f"{prefix}bits")
    if bits is not None:
        draft.put("workload.quantization_bits", bits.as_int(minimum=2), bits)
    return bits


def _read_lora(setup: TrainerSetup, draft: Draft, handed_in: HandedIn) -> None:
    adapters = setup.adapters
    rank = adapters.take("r", "rank", "lora_r") or make_default("r", _RANK, _SOURCE)
    draft.put("workload.lora.rank", rank.as_int(minimum=1), rank)
    _read_targets(setup, draft, handed_in)
    for variant, name in (("dora", "use_dora"), ("rslora", "use_rslora")):
        switch = adapters.take(name)
        if switch is not None and switch.as_bool():
            draft.put("workload.lora.variant", variant, switch)
    put_dropout(adapters.take("lora_dropout"), draft)
    kind = adapters.take("task_type")
    if kind is not None:
        draft.note(kind, "the model's head, which its config says")
    for name, reason in UNMODELLED.items():
        unmodelled = adapters.take(name)
        if unmodelled is not None:
            draft.ignore(unmodelled, reason)


def put_dropout(dropout: Setting | None, draft: Draft) -> None:
    """Set the dropout before adapters."""
    if dropout is not None:
        draft.put("workload.lora.dropout", dropout.as_float(), dropout)


UNMODELLED = {
    "modules_to_save": "these modules are trained whole beside the adapters, which takes more",
    "rank_pattern": "every adapter has the one rank",
    "layers_to_transform": "every layer is adapted, which takes more",
    "layers_pattern": "every layer is adapted, which takes more",
    "exclude_modules": "every target is adapted, which takes more",
    "target_parameters": "parameters of experts that are adapted take more",
    "trainable_token_indices": "rows of the embedding that are trained take more",
}


def _read_targets(setup: TrainerSetup, draft: Draft, handed_in: HandedIn) -> None:
    targets = setup.adapters.take("target_modules", "lora_target_modules")
    if targets is not None and isinstance(targets.value, str) and is_pattern(targets.value):
        _read_pattern(targets, draft)
        return
    if targets is not None:
        targets_named = _drop_commas(targets, draft)
        linear = targets_named in (["all-linear"], ["all"], ["all_linear"])
        draft.put(
            "workload.lora.target_modules", "all-linear" if linear else targets_named, targets
        )
        return
    checkpoint = handed_in.find_checkpoint(setup.model_name)
    defaults = None if checkpoint is None else DEFAULT_TARGETS.get(checkpoint.model_type)
    if defaults is None:
        why = "LoraConfig names no target_modules, and PEFT has no default for this model"
        draft.ask("workload.lora.target_modules", why, ("all-linear",))
        return
    source = f"PEFT {PEFT}, peft/utils/constants.py"
    setting = make_default("target_modules", list(defaults), source)
    draft.put("workload.lora.target_modules", list(defaults), setting)


def _drop_commas(targets: Setting, draft: Draft) -> list[str]:
    """Return names without those that end in a comma.

    PEFT takes it for a letter, so that no layer has the name; names beside it are adapted, and none
    alone is an error (PEFT 0.21, ``tuners_utils.py``, ``inject_adapter``).
    """
    names = [str(word) for word in targets.as_list()]
    lost = [name for name in names if name.endswith(",")]
    if len(lost) == len(names):
        raise targets.refuse("names parted by blanks alone: PEFT takes a comma for a letter")
    if lost:
        draft.warn(
            f"{targets.where}: {targets.key}: {' '.join(lost)} is no layer's name, since PEFT "
            "takes the comma for a letter: the others alone are adapted; part names by blanks"
        )
    return [name for name in names if name not in lost]


def _read_pattern(targets: Setting, draft: Draft) -> None:
    """Set the layers that a pattern names by their last parts."""
    names = list_pattern_names(targets.as_text())
    if names is None:
        draft.note(targets, "a pattern of names, which is not run")
        draft.ask("workload.lora.target_modules", "the pattern is not run", ("all-linear",))
        return
    draft.put("workload.lora.target_modules", names, targets)
    draft.warn(
        f"{targets.where}: {targets.key} is a pattern: every layer of these names is counted as "
        "adapted, in towers of other inputs too"
    )


def _put_prepared(setup: TrainerSetup, draft: Draft) -> None:
    """Set what is cast before quantised weights are trained.

    DeepSpeed casts all that is not quantised to its own format (``engine.py``). TRL casts the
    adapters to bf16 and no norm; a script for Trainer calls PEFT's
    ``prepare_model_for_kbit_training``, as every guide has it.
    """
    if draft.get("workload.lora.dtype") is not None:
        draft.put("workload.fp32_norms_and_head", value=False)
        return
    if setup.prepares is not None or setup.client.is_trl:
        draft.put("workload.fp32_norms_and_head", bool(setup.prepares))
    else:
        why = "whether the script calls PEFT's prepare_model_for_kbit_training is not said"
        # Guides call it, and what it casts takes more.
        draft.ask("workload.fp32_norms_and_head", why, (True, False), is_assumed=True)
    if setup.client.is_trl and not setup.keeps_adapters_fp32:
        draft.put("workload.lora.dtype", "bf16")
