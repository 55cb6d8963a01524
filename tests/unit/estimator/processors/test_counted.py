"""Items against what transformers' processors made of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.estimator.processors.processor import read_processor
from service.estimator.values.batches import Clip, Inputs, Picture, Sound

_FILE = Path(__file__).parents[3] / "data" / "processors" / "counted.jsonl"
LINES = [json.loads(line) for line in _FILE.read_text().splitlines()]
KINDS: dict[str, Any] = {"images": Picture, "videos": Clip, "audio": Sound}


def name_case(line: dict[str, Any]) -> str:
    """Return the type and the size of a case."""
    kind = next(kind for kind in KINDS if kind in line)
    return f"{line['config']['model_type']}-{'x'.join(str(part) for part in line[kind].values())}"


@pytest.mark.parametrize("line", LINES, ids=name_case)
def test_an_item_is_what_its_processor_makes(line: dict[str, Any]) -> None:
    """Features, tokens and pieces are equal to the unit."""
    kind = next(kind for kind in KINDS if kind in line)
    items: dict[str, Any] = {kind: (KINDS[kind](**line[kind]),)}
    inputs = Inputs(processor=line["processor"], **items)
    processor = read_processor(line["config"])

    (counted,) = processor.count_items(inputs)

    item = counted.item
    assert (item.features, item.tokens, item.pieces) == (
        line["features"],
        line["tokens"],
        line["pieces"],
    )
