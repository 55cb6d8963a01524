from typing import Literal

ListHookDecisionsFormat = Literal["csv", "json"]

LIST_HOOK_DECISIONS_FORMAT_VALUES: set[ListHookDecisionsFormat] = {
    "csv",
    "json",
}


def check_list_hook_decisions_format(value: str) -> ListHookDecisionsFormat:
    if value in LIST_HOOK_DECISIONS_FORMAT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LIST_HOOK_DECISIONS_FORMAT_VALUES!r}")
