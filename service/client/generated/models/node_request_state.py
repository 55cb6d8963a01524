from typing import Literal

NodeRequestState = Literal["drained", "ready"]

NODE_REQUEST_STATE_VALUES: set[NodeRequestState] = {
    "drained",
    "ready",
}


def check_node_request_state(value: str) -> NodeRequestState:
    if value in NODE_REQUEST_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {NODE_REQUEST_STATE_VALUES!r}")
