"""Questions as query parameters.

For the one resource that is asked by ``GET``.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_SECTIONS = frozenset({"workload", "layout", "constraints", "gpu"})


def flatten_question(question: Mapping[str, Any]) -> dict[str, str]:
    """Return a question as query parameters.

    The members of a section have their own names, an adapter's those with its section. Raises
    ValueError for what a query cannot spell, which a body of ``POST /v1/plans`` can.
    """
    parameters: dict[str, str] = {}
    for path, name, value in _iter_parameters(question):
        text = value if isinstance(value, str) else json.dumps(value)
        if value is not None and not isinstance(value, str | int | float):
            message = (
                f"{path} is {text}, and a question of how many takes one word or number for each; "
                "`plan` takes more"
            )
            raise ValueError(message)
        if parameters.setdefault(name, text) != text:
            message = (
                f"{path} is {text}, and {name} has been said before as {parameters[name]}; say it "
                "once"
            )
            raise ValueError(message)
    return parameters


def _iter_parameters(question: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    for name, value in question.items():
        if name not in _SECTIONS or isinstance(value, str):
            yield name, name, value
            continue
        for inner, part in value.items():
            if inner == "lora" and isinstance(part, Mapping):
                yield from (
                    (f"{name}.lora.{last}", f"lora_{last}", scalar) for last, scalar in part.items()
                )
            else:
                yield f"{name}.{inner}", inner, part
