from typing import Literal

TokenDispatcher = Literal["allgather", "alltoall"]

TOKEN_DISPATCHER_VALUES: set[TokenDispatcher] = {
    "allgather",
    "alltoall",
}


def check_token_dispatcher(value: str) -> TokenDispatcher:
    if value in TOKEN_DISPATCHER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TOKEN_DISPATCHER_VALUES!r}")
