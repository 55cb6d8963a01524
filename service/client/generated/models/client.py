from typing import Literal

Client = Literal["generate", "loop"]

CLIENT_VALUES: set[Client] = {
    "generate",
    "loop",
}


def check_client(value: str) -> Client:
    if value in CLIENT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CLIENT_VALUES!r}")
