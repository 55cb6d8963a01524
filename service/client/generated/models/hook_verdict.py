from typing import Literal

HookVerdict = Literal["does_not_fit", "fits", "none", "tight", "unknown"]

HOOK_VERDICT_VALUES: set[HookVerdict] = {
    "does_not_fit",
    "fits",
    "none",
    "tight",
    "unknown",
}


def check_hook_verdict(value: str) -> HookVerdict:
    if value in HOOK_VERDICT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HOOK_VERDICT_VALUES!r}")
