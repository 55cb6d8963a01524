"""Our readings against what the launchers' own parsers made of the same launches.

Their values are kept by ``python -m tests.corpus.parsers --write``.
"""

import json
from typing import Any

import pytest

from service.formats.launches.read_launch import read_launch
from tests.corpus.parsers.__main__ import VALUES
from tests.corpus.parsers.fields import FIELDS, list_differences
from tests.corpus.parsers.samples import list_texts, make_launch

OWN: dict[str, dict[str, dict[str, Any]]] = {
    parser: json.loads((VALUES / f"{parser}.json").read_text(encoding="utf-8")) for parser in FIELDS
}
REFUSED = frozenset({"llamafactory_qwen3_lora_kto.yaml"})
"""What has no model here, and is refused in words."""
SAMPLES = [
    (parser, name) for parser, values in OWN.items() for name in values if name not in REFUSED
]


@pytest.mark.parametrize(("parser", "name"), SAMPLES)
def test_a_reading_is_the_launchers_own(parser: str, name: str) -> None:
    """Every value that we use is the one that its launcher would train with."""
    imported = read_launch(make_launch(parser, name))

    assert list_differences(parser, OWN[parser][name], imported.question) == []


@pytest.mark.parametrize("parser", [*FIELDS])
def test_every_sample_was_parsed(parser: str) -> None:
    """A sample without kept values would be compared with nothing."""
    assert set(list_texts(parser)) == set(OWN[parser])
    assert not any("error" in values for values in OWN[parser].values())


@pytest.mark.parametrize(
    ("field", "changed"),
    [("micro_batch_size", 9), ("sequence_len", 9), ("adapter", None), ("optimizer", "sgd")],
)
def test_a_difference_is_found(field: str, changed: object) -> None:
    """Another value of the parser's is told with ours."""
    name = "axolotl_lora_1b.yaml"
    values = OWN["axolotl"][name] | {field: changed}

    differences = list_differences(
        "axolotl", values, read_launch(make_launch("axolotl", name)).question
    )

    assert len(differences) > 0
