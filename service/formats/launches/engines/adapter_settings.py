"""Settings of LoRA adapters, as serving engines share them."""

from collections.abc import Iterable

from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Settings


def has_adapters(settings: Settings) -> bool:
    """Return whether an engine serves adapters."""
    switch = settings.peek("enable_lora")
    return settings.peek("lora_paths") is not None or (switch is not None and switch.as_bool())


def leave_adapters(
    settings: Settings, draft: Draft, names: Iterable[str], *, reason: str | None
) -> None:
    """Take settings of adapters that become no field.

    They are ignored for the reason, or without effect where there is none.
    """
    for setting in filter(None, map(settings.take, names)):
        if reason is not None:
            draft.ignore(setting, reason)
        else:
            draft.drop(setting)
