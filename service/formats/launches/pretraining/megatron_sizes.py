"""Sizes and switches of a model among Megatron-LM's arguments."""

from service.formats.launches.pretraining.megatron_keys import SOURCE
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Settings, make_default

MODEL = "the model's architecture"
"""What arguments mean that are a part of it."""


def take_size(arguments: Settings, name: str, draft: Draft) -> int | None:
    """Return a size, None where it is left to its default."""
    setting = arguments.take(name)
    if setting is None:
        return None
    draft.note(setting, MODEL)
    return setting.as_int(minimum=1)


def take_flag(arguments: Settings, name: str, draft: Draft, meaning: str) -> bool:
    """Return whether a switch is on."""
    setting = arguments.take(name)
    if setting is None:
        return False
    is_on = setting.as_bool()
    draft.note(setting, meaning if is_on else f"not: {meaning}")
    return is_on


def take_fraction(arguments: Settings, name: str, draft: Draft) -> float:
    """Return a probability of dropout; default 0.1."""
    setting = arguments.take(name) or make_default(name, 0.1, SOURCE)
    draft.note(setting, MODEL)
    fraction = setting.as_float()
    if not 0.0 <= fraction < 1.0:
        raise setting.refuse("a fraction below 1")
    return fraction
