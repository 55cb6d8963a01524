"""Number formats of a trainer, and of what shards its states."""

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.deepspeed_config import DeepSpeedPlan, get_accumulation
from service.formats.launches.trainers.number_formats import (
    put_precision,
    read_autocast,
    read_formats,
)
from service.formats.launches.trainers.setup import TrainerSetup
from service.formats.launches.trainers.sharding import Engine
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting


def put_engine_precision(engine: Engine, draft: Draft, handed_in: HandedIn) -> None:
    """Set the precision of DeepSpeed, of FSDP, or of autocast.

    FSDP leaves weights under adapters as they are loaded: nothing of those is trained.
    """
    setup = engine.setup
    if engine.deepspeed is not None:
        _put_deepspeed(engine.deepspeed, setup, draft)
    elif engine.is_fsdp and not len(setup.adapters) and _read_half(setup) is not None:
        _put_gathered(setup, draft)
    else:
        formats = read_formats(setup, draft, handed_in)
        if engine.is_fsdp and formats.weights == "fp32" and formats.autocast is not None:
            _put_shards(formats.autocast, draft, *formats.settings)
        else:
            put_precision(formats, draft)


def _read_half(setup: TrainerSetup) -> str | None:
    return read_autocast(setup)[0]


def _put_gathered(setup: TrainerSetup, draft: Draft) -> None:
    """Set fp32 shards that are gathered in 16 bits.

    accelerate casts trained weights to fp32 under mixed precision, and gathers and reduces in its
    format (1.15, ``accelerator.py`` and ``utils/fsdp_utils.py``, ``fsdp2_prepare_model``).
    """
    half, switch = read_autocast(setup)
    if half is not None and switch is not None:
        _put_shards(half, draft, switch)
    _note_weights(setup, draft, "accelerate casts trained weights to fp32")


def _put_shards(half: str, draft: Draft, *settings: Setting) -> None:
    """Set shards in fp32 that are gathered and reduced in 16 bits."""
    precision = {"param_dtype": "fp32", "compute_dtype": half, "reduce_dtype": half}
    draft.put("workload.precision", precision, *settings)


def _put_deepspeed(plan: DeepSpeedPlan, setup: TrainerSetup, draft: Draft) -> None:
    """Set the formats of DeepSpeed's engine, which runs no autocast."""
    half, switches = _choose_half(plan, setup)
    if half is None:
        _note_weights(setup, draft, "DeepSpeed runs fp32 without bf16 or fp16")
        draft.put("workload.precision", "fp32", *switches)
        return
    _note_weights(setup, draft, f"DeepSpeed casts the model to {half}")
    if len(setup.adapters):
        draft.put("workload.precision", f"{half}_mixed", *switches)
        draft.put("workload.lora.dtype", half)
        draft.warn(
            "DeepSpeed's fp32 copies of the adapters, and their states in fp32, are not counted: "
            f"8 bytes beyond {half}'s for each of their parameters, over the ranks that share them"
        )
        return
    if plan.pure is not None and half == "bf16":
        switch, states = plan.pure
        pure: object = "bf16"
        if states is None or not states.as_bool():
            pure = {"param_dtype": "bf16", "optimizer_dtype": "fp32"}
        draft.put("workload.precision", pure, *switches, switch)
        return
    accumulated, source = get_accumulation(plan, half)
    policy: object = f"{half}_mixed"
    if plan.is_replicated and plan.accumulates is not None and accumulated == half == "bf16":
        # No wrapper with masters is made (``engine.py``, ``DDP_BFLOAT16``).
        policy = "bf16"
    if accumulated == "fp32":
        policy = "deepspeed_bf16" if half == "bf16" else {**_FP16, "main_grad_dtype": "fp32"}
    draft.put("workload.precision", policy, *switches, source)


_FP16 = {"param_dtype": "fp16", "master_dtype": "fp32", "main_grad_persistent": True}


def _choose_half(
    plan: DeepSpeedPlan, setup: TrainerSetup
) -> tuple[str | None, tuple[Setting, ...]]:
    """Return the engine's 16-bit format, None for fp32.

    Raises LaunchFormatError where DeepSpeed's file and the trainer differ, as transformers does.
    """
    word, argument = read_autocast(setup)
    chosen = next((name for name, switch in plan.half.items() if switch.as_bool()), None)
    if chosen is not None:
        if argument is not None and word != chosen and argument.where != plan.half[chosen].where:
            message = (
                f"{plan.half[chosen].key} is true beside {argument.key} {argument.value} "
                f"({argument.where}); say "
                'the same, or "auto"'
            )
            raise LaunchFormatError(message, where=plan.half[chosen].where)
        return chosen, (plan.half[chosen],)
    refused = None if word is None else plan.half.get(word)
    if refused is not None and argument is not None and not argument.where.startswith("default"):
        message = (
            f"{refused.key} is false beside {argument.key} {argument.value} ({argument.where}); "
            'say true or "auto"'
        )
        raise LaunchFormatError(message, where=refused.where)
    if refused is not None:
        return None, (refused,)
    return word, () if argument is None else (argument,)


def _note_weights(setup: TrainerSetup, draft: Draft, meaning: str) -> None:
    for name in ("dtype", "torch_dtype"):
        setting = setup.model.take(name)
        if setting is not None:
            draft.note(setting, meaning)
