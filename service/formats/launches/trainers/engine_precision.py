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

    Adapters leave the weights as they are loaded: nothing of those is trained.
    """
    setup = engine.setup
    if engine.deepspeed is not None:
        _put_deepspeed(engine.deepspeed, setup, draft, handed_in)
    elif engine.is_fsdp and not len(setup.adapters) and _read_half(setup) is not None:
        _put_gathered(setup, draft)
    else:
        put_precision(read_formats(setup, draft, handed_in), draft)


def _read_half(setup: TrainerSetup) -> str | None:
    return read_autocast(setup)[0]


def _put_gathered(setup: TrainerSetup, draft: Draft) -> None:
    """Set fp32 shards that are gathered in 16 bits.

    accelerate casts trained weights to fp32 under mixed precision, and gathers and reduces in its
    format (1.15, ``accelerator.py`` and ``utils/fsdp_utils.py``, ``fsdp2_prepare_model``).
    """
    half, switch = read_autocast(setup)
    precision = {"param_dtype": "fp32", "compute_dtype": half, "reduce_dtype": half}
    draft.put("workload.precision", precision, *(() if switch is None else (switch,)))
    _note_weights(setup, draft, "accelerate casts trained weights to fp32")


def _put_deepspeed(
    plan: DeepSpeedPlan, setup: TrainerSetup, draft: Draft, handed_in: HandedIn
) -> None:
    """Set the formats of DeepSpeed's engine, which runs no autocast."""
    half, switches = _choose_half(plan, setup)
    if half is None:
        _note_weights(setup, draft, "DeepSpeed runs fp32 without bf16 or fp16")
        draft.put("workload.precision", "fp32", *switches)
        return
    if len(setup.adapters):
        put_precision(read_formats(setup, draft, handed_in), draft)
        for switch in plan.half.values():
            draft.note(switch, f"the format of the engine, {half}")
        return
    _note_weights(setup, draft, f"DeepSpeed casts the model to {half}")
    if plan.pure is not None and half == "bf16":
        switch, states = plan.pure
        pure: object = "bf16"
        if states is None or not states.as_bool():
            pure = {"param_dtype": "bf16", "optimizer_dtype": "fp32"}
        draft.put("workload.precision", pure, *switches, switch)
        return
    accumulated, source = get_accumulation(plan, half)
    policy: object = f"{half}_mixed"
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
