"""Predicted beside read: the question's answer on the memory that was there."""

from typing import Any

import pytest

from service.cli.offline.explain import explain

GIB = 2**30
TRAIN = {
    "model": "llama-3.2-1b",
    "gpu": "RTX-4090",
    "workload": {"task": "train", "sequence_length": 2048, "micro_batch_size": 8},
    "include": ["components", "instants"],
}
SERVE = {
    "model": "llama-3.1-8b",
    "gpu": "RTX-4090",
    "workload": {
        "task": "serve",
        "engine": "vllm",
        "num_sequences": 1,
        "prompt_tokens": 1024,
        "max_model_len": 131072,
    },
    "include": [],
}
BACKWARD = 'File "torch/autograd/graph.py", line 1, in _engine_run_backward\n'


def tell(requested: str, total: str, free: str, own: str, allocated: str, unallocated: str) -> str:
    """Return a message of these numbers, at a backward pass."""
    return (
        f"{BACKWARD}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. GPU "
        f"0 has a total capacity of {total} of which {free} is free. Including non-PyTorch memory, "
        f"this process has {own} memory in use. Of the allocated memory {allocated} is allocated "
        f"by PyTorch, and {unallocated} is reserved by PyTorch but unallocated."
    )


def ask(content: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer about a log of a question."""
    return explain({"content": content, "question": question}, None)


def test_a_run_that_failed_before_its_peak_contradicts_nothing() -> None:
    """What it had and asked for is less than the peak that was predicted."""
    message = tell("2.00 GiB", "23.64 GiB", "0.50 GiB", "23.10 GiB", "22.00 GiB", "0.30 GiB")

    prediction = ask(message, TRAIN)["prediction"]

    allocated, reserved, device = prediction["comparisons"]
    assert [each["quantity"] for each in (allocated, reserved, device)] == [
        "allocated_bytes",
        "reserved_bytes",
        "device_bytes",
    ]
    assert allocated["value"] == pytest.approx(24 * GIB, rel=1e-6)
    assert (allocated["agreement"], allocated["is_lower_bound"]) == ("below", True)
    assert prediction["fit"]["verdict"] == "does_not_fit"
    assert prediction["available_bytes"] is None
    (note,) = prediction["notes"]
    assert note.startswith("it failed at backward, where ")


def test_more_than_predicted_is_said() -> None:
    """A run that needed more than the upper end was another one, or the prediction is wrong."""
    workload = {"task": "train", "sequence_length": 128, "method": "lora", "lora": {"rank": 8}}
    small = TRAIN | {"workload": workload}
    message = tell("2.00 GiB", "23.64 GiB", "0.50 GiB", "23.10 GiB", "22.00 GiB", "0.30 GiB")

    prediction = ask(message, small)["prediction"]

    assert {each["agreement"] for each in prediction["comparisons"]} == {"above"}
    assert prediction["fit"]["verdict"] == "fits"
    assert "the question fits on what this GPU had" in " ".join(prediction["notes"])


def test_a_smaller_gpu_than_assumed_comes_first() -> None:
    """The question is then answered on the memory that was there."""
    message = tell("2.00 GiB", "7.79 GiB", "0.50 GiB", "7.20 GiB", "6.50 GiB", "0.30 GiB")

    answer = ask(message, TRAIN)

    assert answer["causes"][0]["name"] == "smaller_gpu"
    available = answer["prediction"]["available_bytes"]
    assert available == pytest.approx(7.70 * GIB, rel=0.02)
    assert answer["prediction"]["fit"]["usable_bytes"] == available


def test_remedies_are_those_of_what_was_there() -> None:
    """They are judged on the GPU less what others had."""
    message = tell("2.00 GiB", "23.64 GiB", "0.50 GiB", "11.10 GiB", "10.00 GiB", "0.30 GiB")
    question = {name: value for name, value in TRAIN.items() if name != "include"}

    prediction = ask(message, question)["prediction"]

    assert prediction["available_bytes"] == pytest.approx(11.6 * GIB, rel=0.01)
    assert prediction["fit"]["verdict"] == "does_not_fit"
    assert "fits" in {each["verdict"] for each in prediction["fit"]["remedies"]}


def test_an_engine_prints_what_can_be_compared() -> None:
    """Weights to the digit, and the cache of one request in full."""
    log = (
        "INFO gpu_model_runner.py: Model loading took 14.99 GiB and 3.1 seconds\n"
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (4.84 GiB)."
    )

    comparisons = ask(log, SERVE)["prediction"]["comparisons"]

    by_name = {each["quantity"]: each for each in comparisons}
    assert by_name["kv_cache_needed_bytes"]["agreement"] == "inside"
    assert by_name["kv_cache_needed_bytes"]["predicted"] == 16 * GIB
    assert by_name["weight_bytes"]["agreement"] == "inside"
