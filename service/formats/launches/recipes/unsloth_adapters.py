"""Adapters of Unsloth's ``get_peft_model``, and what is recomputed.

unsloth 2026.10.9, ``models/vision.py`` and ``models/llama.py``; ``unsloth_zoo/peft_utils.py``.
"""

from dataclasses import replace

from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")
_WITHOUT_EFFECT = (
    *("argument_1", "model", "bias", "random_state", "loftq_config", "max_seq_length"),
    "task_type",
)
_LORA = ("r", "lora_alpha", "lora_dropout", "use_rslora", "modules_to_save")
_LITERAL = "its literal: a script is not run"
_PARTS = {"finetune_attention_modules": _ATTENTION, "finetune_mlp_modules": _MLP}
"""Switches of layers, by which a list of names is cut as well."""
_OF_OTHER_SENSES = ("finetune_vision_layers", "finetune_audio_layers")
_CHECKPOINTING = "use_gradient_checkpointing"
_UNOFFLOADED_BELOW = 512
"""Tokens of a row from which on the inputs of layers are moved (``models/_utils.py``)."""


def read_adapters(
    call: Settings | None, loader: Settings, training: Settings, draft: Draft, source: str
) -> Settings:
    """Return LoRA's arguments, and set what is recomputed.

    All parameters are trained where ``from_pretrained`` says ``full_finetuning``, and the call has
    no effect then.
    """
    full = loader.peek("full_finetuning")
    if full is not None and full.as_bool():
        _read_checkpointing(loader, training, draft, source)
        for _, idle in (call or Settings()).list_left():
            draft.drop(idle)
        return Settings()
    if call is None:
        return Settings()
    adapters = Settings()
    for name in _LORA:
        setting = call.take(name)
        if setting is not None and setting.is_source and name == "modules_to_save":
            raise setting.refuse(_LITERAL)
        if setting is not None:
            adapters.add(name, setting)
    adapters.add("r", make_default("r", 16, source))
    _read_senses(call, draft)
    adapters.add("target_modules", _read_targets(call, draft, source))
    _read_checkpointing(call, training, draft, source)
    replaced = loader.take(_CHECKPOINTING)
    if replaced is not None:
        draft.note(replaced, f"get_peft_model's {_CHECKPOINTING} decides")
    draft.account(call, _WITHOUT_EFFECT)
    return adapters


def _read_senses(call: Settings, draft: Draft) -> None:
    """Account for the parts of the model that have adapters.

    Raises LaunchFormatError where the text's has none.
    """
    language = call.take("finetune_language_layers")
    if language is not None:
        if not language.as_bool():
            raise language.refuse("True: adapters of images or sound alone have no model here")
        draft.note(language, "the text's layers have adapters")
    for name in _OF_OTHER_SENSES:
        draft.ignore_switch(call.take(name), "adapters of the text's layers alone are counted")


def _read_targets(call: Settings, draft: Draft, source: str) -> Setting:
    """Return the layers that have adapters.

    Raises LaunchFormatError where all of them are switched off.
    """
    targets = call.take("target_modules")
    if targets is not None and targets.is_source:
        raise targets.refuse(_LITERAL)
    if targets is None or targets.value is None:
        targets = make_default("target_modules", [*_ATTENTION, *_MLP], source)
    for name, layers in _PARTS.items():
        part = call.take(name)
        if part is None:
            continue
        if part.as_bool() or not isinstance(targets.value, list | tuple):
            draft.note(part, f"{', '.join(layers)} can have adapters")
            continue
        left = [layer for layer in targets.value if layer not in layers]
        if not left:
            raise part.refuse("True: of target_modules no adapters are left")
        draft.note(part, f"{', '.join(layers)} have none")
        targets = replace(targets, value=left)
    return targets


def _read_checkpointing(call: Settings, training: Settings, draft: Draft, source: str) -> None:
    """Set what is recomputed: Unsloth's own switch comes before the trainer's."""
    replaced = training.take("gradient_checkpointing")
    if replaced is not None:
        draft.note(replaced, f"Unsloth's {_CHECKPOINTING} decides")
    switch = call.take(_CHECKPOINTING) or make_default(_CHECKPOINTING, "unsloth", source)
    if str(switch.value) == "unsloth":
        switch = replace(switch, value=True)
        length = training.peek("sequence_length")
        if length is None or length.as_int(minimum=1) >= _UNOFFLOADED_BELOW:
            draft.put("workload.offload.activations", "cpu", switch)
    training.add("activation_checkpointing", switch)
