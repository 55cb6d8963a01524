"""``python -m tests.accuracy.litgpt CLONE``: LitGPT's own code traced, into ``litgpt.jsonl``.

``CLONE`` is a clone of Lightning-AI/litgpt; nothing of it is installed.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.accuracy.cases import TRUTH
from tests.accuracy.litgpt.loading import load, unpack
from tests.accuracy.litgpt.tracing import trace

FILE = TRUTH / "litgpt.jsonl"
_NEWEST = "v0.5.13"
_REVISIONS = {
    "0cc02afa": "2023-10-27",
    "5895df10": "2024-04-26",
    "v0.3.1": "0.3.1",
    "v0.4.13": "0.4.13",
    _NEWEST: None,
}
"""Revisions, and the ``framework_version`` of each."""
_KEEPING = frozenset({"0cc02afa", "5895df10", "v0.3.1", "v0.4.13"})
"""Those that install bitsandbytes 0.42 or older."""
_QUERY_VALUE = {"targets": ["query", "value"], "rank": 8, "dropout": 0.05}
_ALL = {"targets": ["query", "key", "value", "projection", "mlp", "head"], "rank": 16}
_PLAIN = _ALL | {"dropout": 0.0}
_FIRST, _SECOND = {"adapter": "adapter"}, {"adapter": "adapter_v2"}
_ONE, _TWO = [1, 300], [2, 700]
_CASES: Mapping[str, tuple[tuple[str, list[int], Mapping[str, Any], bool], ...]] = {
    _NEWEST: (
        ("pythia-70m", _ONE, {}, False),
        ("pythia-70m", _TWO, {}, False),
        ("pythia-70m", _TWO, _QUERY_VALUE, True),
        ("tiny-llama-1.1b", _ONE, {}, False),
        ("tiny-llama-1.1b", _TWO, _QUERY_VALUE, False),
        ("tiny-llama-1.1b", _ONE, _PLAIN, False),
        ("tiny-llama-1.1b", _TWO, _PLAIN, True),
        ("phi-1_5", _TWO, {}, False),
        ("phi-1_5", _ONE, _PLAIN, False),
        ("falcon-7b", _ONE, _QUERY_VALUE, False),
        ("Gemma-2b", _TWO, _QUERY_VALUE, False),
        ("stablelm-3b-4e1t", _ONE, _QUERY_VALUE, False),
        ("Qwen2.5-0.5B", _ONE, _QUERY_VALUE, False),
        ("tiny-llama-1.1b", _ONE, _FIRST, False),
        ("phi-1_5", _ONE, _SECOND, False),
    ),
    "0cc02afa": (
        ("stablelm-base-alpha-3b", _ONE, _QUERY_VALUE, True),
        ("Llama-2-7b-hf", _TWO, _QUERY_VALUE, False),
        ("stablelm-base-alpha-3b", _ONE, _FIRST, True),
        ("stablelm-base-alpha-3b", _ONE, _SECOND, False),
        ("tiny-llama-1.1b", _ONE, _SECOND, True),
    ),
    "5895df10": (
        ("Gemma-2b", _ONE, _QUERY_VALUE, False),
        ("tiny-llama-1.1b", _TWO, _QUERY_VALUE, True),
    ),
    "v0.3.1": (("tiny-llama-1.1b", _ONE, _QUERY_VALUE, False),),
    "v0.4.13": (("phi-1_5", _ONE, _QUERY_VALUE, True),),
}
_LAYERS = 3


def list_rows(clone: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every case with what was traced."""
    newest = unpack(clone, _NEWEST, folder / _NEWEST)
    for revision, cases in _CASES.items():
        package = newest if revision == _NEWEST else unpack(clone, revision, folder / revision)
        code = load(package, newest)
        for name, shape, adapters, packed in cases:
            case = {
                "name": name,
                "revision": revision,
                "version": _REVISIONS[revision],
                "layers": _LAYERS,
                "shape": shape,
                "packed": packed,
                **adapters,
            }
            traced = case | {"length": shape[1]}
            yield case | {"bytes": trace(code, traced, keeps_inputs=revision in _KEEPING)}


def main(clone: Path) -> None:
    """Write what the clone's code does."""
    with TemporaryDirectory() as folder:
        lines = [json.dumps(row) for row in list_rows(clone, Path(folder))]
    FILE.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
