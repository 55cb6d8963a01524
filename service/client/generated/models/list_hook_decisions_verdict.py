from typing import Literal

ListHookDecisionsVerdict = Literal["does_not_fit", "fits", "tight", "unknown"]

LIST_HOOK_DECISIONS_VERDICT_VALUES: set[ListHookDecisionsVerdict] = {
    "does_not_fit",
    "fits",
    "tight",
    "unknown",
}


def check_list_hook_decisions_verdict(value: str) -> ListHookDecisionsVerdict:
    if value in LIST_HOOK_DECISIONS_VERDICT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LIST_HOOK_DECISIONS_VERDICT_VALUES!r}")
