"""Documents of recordings: what repeats is read once, and what is wrong is named by its place."""

import json
import re
import zlib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.values.errors import InvalidInputError

_GZIP = 31
_PACKED = Path("tests/data/recordings/helium.json.gz").read_bytes()
DOCUMENT: dict[str, Any] = json.loads(zlib.decompress(_PACKED, wbits=_GZIP))


def _change(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    document = deepcopy(DOCUMENT)
    part: Any = document
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return document


def test_instructions_that_say_the_same_are_one() -> None:
    """Two passes of one content share all of theirs."""
    document = _change(("passes", "half+1"), DOCUMENT["passes"]["half"])

    passes = decode_recording(document).passes

    assert passes["half+1"] == passes["half"]
    for block, again in zip(passes["half"].blocks, passes["half+1"].blocks, strict=True):
        assert block.instructions
        pairs = zip(block.instructions, again.instructions, strict=True)
        assert all(one is other for one, other in pairs)


def test_what_another_program_may_name_this_one_may_not() -> None:
    """An instruction that was read in a program of more values is refused in one of fewer."""
    narrow = deepcopy(DOCUMENT["passes"]["half"])
    block = narrow["blocks"][0]
    block["values"] = block["values"][: block["inputs"]]
    place = re.escape("recording.passes.narrow.blocks[0].instructions[")

    with pytest.raises(InvalidInputError, match=f"{place}.* must be an integer from 0 to"):
        decode_recording(_change(("passes", "narrow"), narrow))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("order", 3), 9, "recording.order[3] must be an integer from 0 to 0"),
        (("order", 3), True, "recording.order[3] must be an integer from 0 to 0"),
        (("passes", "half", "inputs", 0), -1, "recording.passes.half.inputs[0] must be an integer"),
        (("passes", "half", "inputs"), 7, "recording.passes.half.inputs must be a list"),
        (("passes", "half", "tail", 0), 7, "recording.passes.half.tail[0] must be a list"),
        (
            ("passes", "half", "values", 1, 1),
            "fp13",
            "recording.passes.half.values[1][1] must be one of",
        ),
        (("sizes", 2, 0), 0.5, "recording.sizes[2] must be 6 integers"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(
    path: tuple[str | int, ...], value: object, words: str
) -> None:
    """However deep it lies."""
    with pytest.raises(InvalidInputError, match=re.escape(words)) as refused:
        decode_recording(_change(path, value))
    assert refused.value.field == words.partition(" ")[0]
