"""vLLM's own benchmarks as questions: an engine, and the load that they give it."""

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import GPU, ask_command, get_workload


@pytest.mark.parametrize(
    ("options", "load"),
    [
        ("", (8, 32, 128)),
        (" --batch-size 16 --input-len 1024 --output-len 64", (16, 1024, 64)),
        (" --batch-size 4 --n 2", (8, 32, 128)),
    ],
)
def test_latency_says_its_whole_load(options: str, load: tuple[int, int, int]) -> None:
    """Its defaults are 8 prompts of 32 tokens, with answers of 128."""
    question = ask_command(f"vllm bench latency --model llama-2-7b{options} -tp 2", gpu=GPU)

    workload = get_workload(question)
    names = ("num_sequences", "prompt_tokens", "output_tokens")
    assert tuple(workload[name] for name in names) == load
    assert (question.missing, question.imported.ignored) == ((), ())


def test_throughput_leaves_open_how_many_run() -> None:
    """As many as the engine takes; lengths are said by options of the random data set, too."""
    command = "vllm bench throughput --model llama-2-7b --dataset-name random"
    question = ask_command(
        f"{command} --random-input-len 512 --output-len 64 --num-prompts 9", gpu=GPU
    )

    workload = get_workload(question)
    assert (workload["prompt_tokens"], workload["output_tokens"]) == (512, 64)
    assert question.missing == ("workload.num_sequences",)
    assert question.imported.without_effect == ("--dataset-name", "--num-prompts")


def test_a_benchmark_of_a_server_starts_none() -> None:
    """``vllm bench serve`` is its client."""
    with pytest.raises(LaunchFormatError, match="vllm bench starts no engine"):
        ask_command("vllm bench serve --model llama-2-7b", gpu=GPU)
