"""Requested sizes as tensors of the question."""

import pytest

from service.cli.offline.explain import explain
from service.cli.offline.inline import resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.validation_errors import decode
from service.formats.failures.failure import make_span
from service.usecases.postmortem.tensors import TensorMatch, find_place_by_size, name_tensors


def name(model: str, printed: str, **workload: object) -> tuple[TensorMatch, ...]:
    """Return the tensors of a training that have a printed size."""
    document = {
        "model": model,
        "gpu": "H100-SXM5-80GB",
        "workload": {"task": "train"} | workload,
    }
    request = decode(document, FitRequest)
    question = read_fit(request, resolve_offline_model(request.model))
    number, unit = printed.split()
    return name_tensors(question, make_span(number, unit))


@pytest.mark.parametrize(
    ("model", "batch", "length", "printed", "formula"),
    [
        ("llama-3.2-1b", 9, 2048, "8.81 GiB", "9 x 2,048 x 128,256 x 4 B"),
        ("llama-3-8b", 7, 2048, "6.85 GiB", "7 x 2,048 x 128,256 x 4 B"),
        ("qwen3-4b", 7, 1024, "4.06 GiB", "7 x 1,024 x 151,936 x 4 B"),
        ("gpt2", 113, 1024, "21.66 GiB", "113 x 1,024 x 50,257 x 4 B"),
    ],
)
def test_a_request_of_a_real_run_is_named(
    model: str, batch: int, length: int, printed: str, formula: str
) -> None:
    """Runs on an H100 and an H200 that were tried until they failed, which they did at the loss."""
    matches = name(model, printed, micro_batch_size=batch, sequence_length=length)

    assert [(match.name, match.formula) for match in matches] == [("logits", formula)]
    place = find_place_by_size(matches)
    assert place is not None
    assert place.instant == "loss"


def test_a_size_that_several_places_have_names_none() -> None:
    """Hidden states come and go in both passes."""
    matches = name("mistral-7b-v0.1", "128.00 MiB", micro_batch_size=4, sequence_length=2048)

    assert [match.name for match in matches] == ["hidden states"]
    assert find_place_by_size(matches) is None
    assert find_place_by_size(()) is None


def test_a_size_of_nothing_is_not_named() -> None:
    """Neither one that no tensor has, nor the sizes of shared segments."""
    assert name("gpt2", "3.33 GiB", sequence_length=1024) == ()
    assert name("gpt2", "2.00 MiB", sequence_length=1024) == ()


def test_a_message_without_a_traceback_gets_its_instant() -> None:
    """By the size alone, and with it the cause of that place."""
    question = {
        "model": "llama-3.2-1b",
        "gpu": "H100-SXM5-80GB",
        "workload": {
            "task": "train",
            "precision": "amp_bf16",
            "optimizer": "adamw_fused",
            "sequence_length": 2048,
            "micro_batch_size": 9,
            "activation_checkpointing": "none",
        },
        "include": [],
    }
    message = (
        "CUDA out of memory. Tried to allocate 8.81 GiB. GPU 0 has a total capacity of 79.18 GiB "
        "of which 4.61 GiB is free. Including non-PyTorch memory, this process ha"
    )

    answer = explain({"content": message, "question": question}, None)

    assert answer["place"]["instant"] == "loss"
    assert answer["causes"][0]["name"] == "batch_too_large"
    assert [tensor["term"] for tensor in answer["prediction"]["tensors"]] == ["logits"]
    assert answer["prediction"]["fit"]["verdict"] == "does_not_fit"
