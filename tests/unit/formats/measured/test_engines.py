"""Start-up logs of serving engines, as their releases word them."""

import re
from importlib import import_module
from types import ModuleType

import pytest

from service.formats.measured import sglang, vllm
from service.formats.measured.detect import parse
from service.formats.measured.reading import GIB, Format, MeasuredFormatError, Quantity
from tests.unit.formats.measured.reading_samples import read, values


def test_the_first_engine_of_vllm_is_read() -> None:
    """The finest print of each number counts; tokens come from blocks, which is all that the old
    releases say.
    """
    found = read("vllm_0_6.log")
    numbers = values(found)

    assert found.format is Format.VLLM
    assert numbers[Quantity.WEIGHTS] == round(8.5107 * GIB)
    assert numbers[Quantity.KV_POOL] == round(2.18 * GIB)
    assert numbers[Quantity.KV_POOL_TOKENS] == 715 * 16
    assert numbers[Quantity.PROFILED_PEAK] == round(0.94 * GIB)
    assert numbers[Quantity.NON_TORCH] == round(0.26 * GIB)
    assert numbers[Quantity.CUDA_GRAPHS] == round(0.27 * GIB)
    assert numbers[Quantity.BUDGET] == round(11.89 * GIB)
    assert found.settings["gpu_memory_fraction"] == 0.15
    assert any("715 blocks x 16 tokens" in note for note in found.notes)


def test_the_second_engine_of_vllm_is_read() -> None:
    """Numbers have their rank, settings their words; of two prints of the graphs the last
    counts.
    """
    found = read("vllm_0_19.log")
    numbers = values(found)

    assert numbers[Quantity.KV_POOL_TOKENS] == 476032
    assert numbers[Quantity.KV_POOL] == round(58.11 * GIB)
    assert numbers[Quantity.CUDA_GRAPHS] == round(0.91 * GIB)
    assert numbers[Quantity.PROFILED_PEAK] == round(1.89 * GIB)
    assert found.environment == {
        "engine": "vllm",
        "vllm": "0.19.0",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
    }
    assert found.settings == {
        "max_model_len": 8192,
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "weight_dtype": "bf16",
        "enforce_eager": False,
    }
    assert {reading.place.rank for reading in found.readings} == {"EngineCore pid=125"}


def test_a_cache_in_eight_bits_is_said() -> None:
    """Whatever the eight bits are; ``auto`` says nothing."""
    text = (
        "Initializing a V1 LLM engine (v0.20.0) with config: kv_cache_dtype=fp8_e4m3\nGPU KV cache "
        "size: 5 tokens"
    )

    assert parse(text.encode()).settings == {"kv_cache_dtype": "fp8"}


def test_a_printed_number_is_as_exact_as_its_digits() -> None:
    """14.99 GiB stands for half a hundredth either side."""
    weights = next(
        reading
        for reading in read("vllm_0_19.log").readings
        if reading.quantity is Quantity.WEIGHTS
    )

    assert (weights.low, weights.high) == (round(14.985 * GIB), round(14.995 * GIB))


def test_a_start_that_failed_says_so() -> None:
    """Less than nothing is no reading of a pool, and the log says that memory ran out."""
    found = read("vllm_failed.log")

    assert found.out_of_memory
    assert values(found)[Quantity.WEIGHTS] == round(6.5935 * GIB)
    assert Quantity.KV_POOL not in values(found)
    assert [(part.what, part.line) for part in found.left_out] == [("kv_pool_bytes -7.83", 3)]


@pytest.mark.parametrize(
    ("line", "quantity", "value"),
    [
        (
            "Desired GPU memory utilization is (0.9, 20.25 GiB). Actual usage is 16.00 GiB",
            Quantity.BUDGET,
            round(20.25 * GIB),
        ),
        (
            "for consumed memory, 1.20 GiB for peak activation",
            Quantity.PROFILED_PEAK,
            round(1.2 * GIB),
        ),
        (
            "(RayWorkerWrapper pid=39) non_torch_memory takes 0.81GiB;",
            Quantity.NON_TORCH,
            round(0.81 * GIB),
        ),
        ("Memory profiling results: kv_cache_size=8.77GiB", Quantity.KV_POOL, round(8.77 * GIB)),
        (
            "│ # cuda blocks: 1, # CUDA blocks: 7191, # CPU blocks: 512 │",
            Quantity.KV_POOL_TOKENS,
            7191 * 16,
        ),
    ],
)
def test_other_wordings_of_vllm_are_known(line: str, quantity: Quantity, value: int) -> None:
    """Each release has said it in its own way."""
    found = parse(line.encode(), declared=Format.VLLM)

    assert {reading.quantity: reading.value for reading in found.readings}[quantity] == value


def test_sglang_is_read() -> None:
    """Keys and values of a pool are one amount; what it calls GB are 2^30 bytes."""
    numbers = values(read("sglang_0_4.log"))

    assert numbers[Quantity.WEIGHTS] == round(15.11 * GIB)
    assert numbers[Quantity.KV_POOL_TOKENS] == 442750
    assert numbers[Quantity.KV_POOL] == 2 * round(27.02 * GIB)


def test_every_rank_of_sglang_is_read() -> None:
    """Eight ranks print the same things; each keeps its own."""
    found = read("sglang_grok.log")

    pools = {
        reading.place.rank: reading.value
        for reading in found.readings
        if reading.quantity is Quantity.KV_POOL
    }
    assert pools == {"TP3": 2 * round(13.79 * GIB), "TP0": 2 * round(13.79 * GIB)}
    graphs = next(reading for reading in found.readings if reading.quantity is Quantity.CUDA_GRAPHS)
    assert graphs.value == round(0.89 * GIB)
    assert found.settings == {"max_model_len": 131072}


def test_a_draft_model_is_left_out() -> None:
    """The first model is the one that serves."""
    found = read("sglang_draft.log")

    assert values(found)[Quantity.WEIGHTS] == round(82.97 * GIB)
    assert [part.line for part in found.left_out] == [3]


def test_another_log_is_refused() -> None:
    """A log without memory says what is missed in it."""
    for declared, words in ((Format.VLLM, "GPU KV cache size"), (Format.SGLANG, "Load weight end")):
        with pytest.raises(MeasuredFormatError, match=words):
            parse(b"INFO hello\n", declared=declared)


def _begins_with_an_endless_repeat(pattern: object) -> bool:
    """Return whether a parsed pattern may read a long run again from each of its characters."""
    for operation, argument in pattern:  # type: ignore[attr-defined]
        if str(operation) == "SUBPATTERN":
            return _begins_with_an_endless_repeat(argument[-1])
        if str(operation).endswith("_REPEAT"):
            if int(argument[1]) > 100:
                return True
            if argument[0] == 0:
                continue
        if str(operation) != "AT":
            return False
    return False


@pytest.mark.parametrize("module", [vllm, sglang])
def test_no_wording_reads_a_long_number_again(module: ModuleType) -> None:
    """A line of 60,000 digits took 38 seconds: each digit was read from each of them."""
    parser = import_module("re._parser")
    values = vars(module).values()
    patterns = [value for value in values if isinstance(value, re.Pattern)]
    patterns += [wording.pattern for wording in getattr(module, "WORDINGS", ())]

    assert len(patterns) > 3
    parsed = {each.pattern: parser.parse(each.pattern) for each in patterns}
    assert [text for text, each in parsed.items() if _begins_with_an_endless_repeat(each)] == []
    assert _begins_with_an_endless_repeat(parser.parse("(-?[0-9.]+) GiB"))
