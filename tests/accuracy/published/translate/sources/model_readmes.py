"""Memory tables of model pages whose layers come with their own repositories."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Refuse every row: ChatGLM2 and Baichuan2 run model code that their repositories bring
    along.
    """
    trains = row["task"] != "inference"
    message = (
        "training by the page's own script"
        if trains
        else "model code that its repository brings along"
    )
    raise Untranslatable(message)
    yield {}
