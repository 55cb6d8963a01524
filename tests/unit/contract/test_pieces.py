"""Fit questions in pieces: the same questions as read in full, each piece read once."""

import json
from typing import Any

import msgspec
import pytest

from service.contract.schemas.fit import FitRequest
from service.contract.to_question import pieces
from service.contract.to_question.fits import build_question, read_fit
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.pieces import (
    MAX_PIECE_BYTES,
    UNREADABLE,
    brings_model,
    decode_model,
    decode_pieces,
)
from tests.unit.usecases.builders import named_model

MODEL = ResolvedModel(architecture=named_model("tiny").architecture, name="tiny", version="1")
TRAIN: dict[str, Any] = {"task": "train", "sequence_length": 64}
SERVE: dict[str, Any] = {"task": "serve", "num_sequences": 4, "prompt_tokens": 64}


def encode(**said: object) -> bytes:
    """Return a question as it is sent."""
    return json.dumps({"model": "tiny", "workload": TRAIN, "gpu": "H200", **said}).encode()


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"workload": SERVE},
        {"workload": SERVE, "layout": {"data_parallel": 2, "tensor_parallel": 2}},
        {"layout": {"data_parallel": 8, "zero_stage": 3}},
        {"gpu": "V100-SXM2-32GB"},
        {"gpu": "V100-SXM2-32GB", "workload": SERVE},
        {"gpu": {"memory_bytes": "80Gi"}},
        {"confidence": 0.9},
        {"workload": {**SERVE, "engine": "vllm"}, "confidence": 0.9},
        {"remedies": False},
        {"include": ["remedies", "replay"], "remedies": False},
        {"include": []},
        {"workload": {**TRAIN, "lora": {"rank": 4}, "method": "lora"}},
    ],
)
def test_pieces_are_the_question(said: dict[str, object]) -> None:
    """Whatever is read first, and once more from what is kept."""
    body = encode(**said)
    request = msgspec.json.decode(body, type=FitRequest)
    for _ in range(2):
        raw_model, rest = decode_pieces(body)

        assert not brings_model(body)
        assert decode_model(raw_model) == "tiny"
        assert build_question(rest, MODEL) == read_fit(request, MODEL)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output_tokens": 0},
        {"engine": "vllm", "quantization": "fp8", "max_model_len": 4096},
        {"engine": "llama_cpp", "tensor_split": [1.0, 3.0]},
    ],
)
def test_a_server_at_another_load_differs_in_its_load_alone(options: dict[str, object]) -> None:
    """The rest is read once: what a load is not said of is a default as before."""
    for load in ({}, {"num_sequences": 9}, {"prompt_tokens": 8}, {"output_tokens": 7}, {}):
        body = encode(workload={**SERVE, **options, **load})
        request = msgspec.json.decode(body, type=FitRequest)

        assert build_question(decode_pieces(body)[1], MODEL) == read_fit(request, MODEL)


@pytest.mark.parametrize(
    "body",
    [
        encode(model={"hf_config": {"vocab_size": 10**30}}),
        encode(model={"architecture": {"vocab_size": 10**30}}),
        encode(workload={**SERVE, "speculative": {"num_tokens": 2, "draft": {"hf_config": {}}}}),
    ],
)
def test_a_model_that_is_brought_along_is_seen(body: bytes) -> None:
    """It is an object that no schema bounds."""
    assert brings_model(body)


@pytest.mark.parametrize(
    "body",
    [
        encode().replace(b'"gpu"', b'"gpu": 5, "gpu"'),
        encode().replace(b'"gpu"', b'"g\\u0070u"'),
    ],
)
def test_members_that_may_come_twice_are_read_in_full(body: bytes) -> None:
    """The decoder of the whole checks both; an escape could hide one."""
    with pytest.raises(UNREADABLE):
        decode_pieces(body)


@pytest.mark.parametrize(
    "said",
    [
        {"gpu": "A100"},
        {"workload": {**TRAIN, "micro_batch_size": 0}},
        {"layout": None},
        {"layout": {"expert_parallel": 3}, "workload": SERVE},
        {"confidence": 0.999999},
        {"include": ["remedy"]},
        {"unknown": 1},
    ],
)
def test_a_piece_that_cannot_be_read_says_so(said: dict[str, object]) -> None:
    """In words of its own, which nobody is told: the whole question is read for that."""
    for _ in range(2):
        with pytest.raises(UNREADABLE):
            decode_pieces(encode(**said))


def test_equal_pieces_are_read_once() -> None:
    """Of questions that differ elsewhere; a long piece is read each time."""
    first, second = (decode_pieces(encode(confidence=level))[1] for level in (0.8, 0.9))
    spaces = " " * MAX_PIECE_BYTES
    spaced = encode().replace(b'{"task"', f'{{{spaces}"task"'.encode())
    long = [decode_pieces(spaced)[1].workload for _ in range(2)]

    assert first.workload is second.workload
    assert first.device is second.device
    assert long[0] == long[1] == first.workload
    assert long[0] is not long[1]
    assert pieces.MAX_PIECES * MAX_PIECE_BYTES <= 2**20
