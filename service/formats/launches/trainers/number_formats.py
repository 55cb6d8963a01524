"""Number formats of a trainer's weights and of autocast."""

from dataclasses import dataclass

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.setup import TRANSFORMERS, TRL, TrainerSetup
from service.formats.launches.trainers.trl_releases import BF16, show_release
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Checkpoint
from service.formats.launches.values.settings import Setting, make_default

DTYPES = {
    **dict.fromkeys(("float32", "fp32", "torch.float32", "float"), "fp32"),
    **dict.fromkeys(("bfloat16", "bf16", "torch.bfloat16"), "bf16"),
    **dict.fromkeys(("float16", "fp16", "torch.float16", "half"), "fp16"),
}
"""Formats by the words that ``from_pretrained`` and others have for them."""
FP32_TYPES = frozenset(
    {
        *("bert", "roberta", "xlm-roberta", "distilbert", "electra", "albert", "modernbert"),
        *("deberta", "deberta-v2", "gpt2", "gpt_neo", "t5", "mt5", "bart", "vit", "clip"),
        *("whisper", "mamba", "opt"),
    }
)
"""Types whose first checkpoints hold fp32 and whose configs, older than the key, say no dtype."""
_AUTO = "auto"
_POLICIES: dict[tuple[str, str | None], str] = {
    ("fp32", None): "fp32",
    ("bf16", None): "bf16",
    ("fp16", None): "fp16",
    ("fp32", "bf16"): "amp_bf16",
    ("fp32", "fp16"): "amp_fp16",
    ("bf16", "bf16"): "bf16_autocast",
    ("fp16", "fp16"): "fp16_autocast",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormats:
    """Format of the loaded weights, and of autocast (None without)."""

    weights: str
    autocast: str | None
    settings: tuple[Setting, ...]


def read_formats(setup: TrainerSetup, draft: Draft, handed_in: HandedIn) -> NumberFormats:
    """Return the number formats that a trainer runs with."""
    weights, dtype = _read_weights(setup, draft, handed_in)
    is_silent = all(setup.training.peek(half) is None for half in ("bf16", "fp16"))
    autocast, switch = read_autocast(setup)
    is_open = setup.trl_before is not None and setup.trl_before > BF16
    if is_open and switch is not None and is_silent:
        why = f"TRL has bf16 on since {show_release(BF16)}, and which this is is not said"
        choices = (
            (_POLICIES[weights, "bf16"], _POLICIES[weights, None]) if weights != "fp16" else ()
        )
        draft.ask("workload.precision", why, choices)
    return NumberFormats(
        weights=weights,
        autocast=autocast,
        settings=tuple(setting for setting in (dtype, switch) if setting is not None),
    )


def put_precision(formats: NumberFormats, draft: Draft) -> None:
    """Set the precision of an unsharded trainer."""
    key = (formats.weights, formats.autocast)
    policy: object = _POLICIES.get(key)
    if policy is None:
        policy = {
            "param_dtype": formats.weights,
            "compute_dtype": formats.autocast,
            "autocast": True,
        }
    draft.put("workload.precision", policy, *formats.settings)


def _read_weights(
    setup: TrainerSetup, draft: Draft, handed_in: HandedIn
) -> tuple[str, Setting | None]:
    """Return the format that weights are loaded in.

    transformers 5 takes the checkpoint's own where nothing is said; TRL loads fp32.
    """
    dtype = setup.model.take("dtype", "torch_dtype")
    if dtype is not None and str(dtype.value).casefold() != _AUTO:
        return dtype.as_choice(DTYPES), dtype
    if dtype is None and setup.client.is_trl:
        source = f"TRL {TRL}, trl/trainer/sft_trainer.py (model_init_kwargs)"
        return "fp32", make_default("dtype", "float32", source)
    checkpoint = handed_in.find_checkpoint(setup.model_name)
    native = None if checkpoint is None else DTYPES.get(checkpoint.dtype or "")
    if native is not None:
        source = f"transformers {TRANSFORMERS}, from_pretrained takes the checkpoint's dtype"
        return native, dtype or make_default("dtype", _AUTO, source)
    return ask_dtype("workload.precision", checkpoint, draft), dtype


def ask_dtype(field: str, checkpoint: Checkpoint | None, draft: Draft) -> str:
    """Ask for the format of weights; return the likeliest."""
    is_old = checkpoint is not None and checkpoint.model_type in FP32_TYPES
    choices = ("fp32", "bf16", "fp16") if is_old else ("bf16", "fp32", "fp16")
    why = "the weights are loaded in the checkpoint's own format, and its config says none"
    # Checkpoints of the old types are in fp32, the largest.
    draft.ask(field, why, choices, is_assumed=is_old)
    return choices[0]


def read_autocast(setup: TrainerSetup) -> tuple[str | None, Setting | None]:
    """Return the format of autocast, None without, and what says so."""
    bf16, fp16 = setup.training.take("bf16"), setup.training.take("fp16")
    for word, setting in (("bf16", bf16), ("fp16", fp16)):
        # LLaMA-Factory and axolotl say ``auto``: bf16 where the GPU has it.
        if setting is not None and (
            str(setting.value).casefold() in {_AUTO, "full"} or setting.as_bool()
        ):
            return word, setting
    if setup.client.is_trl and bf16 is None and fp16 is None:
        if setup.trl_before is not None and setup.trl_before <= BF16:
            return None, make_default("bf16", value=False, source="TRL before 0.19")
        return "bf16", make_default(
            "bf16", value=True, source=f"TRL {TRL}, trl/trainer/base_config.py"
        )
    return None, bf16 or fp16
