"""Arguments of LMDeploy's server as questions."""

import pytest

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import (
    GPU,
    ask_command,
    get_layout,
    get_workload,
    read_back,
)
from tests.unit.formats.renderings.builders import a_job

SERVER = "lmdeploy serve api_server llama-2-7b"
SET = ServeWorkload(
    num_sequences=4,
    prompt_tokens=1536,
    output_tokens=512,
    engine=Engine.LMDEPLOY,
    weight_dtype=DType.FP16,
    kv_cache_dtype=DType.FP16,
    max_model_len=4096,
    gpu_memory_fraction=0.5,
    max_num_batched_tokens=4096,
)
READ = [
    ("--session-len 8192", "max_model_len", 8192),
    ("--cache-max-entry-count 0.5", "gpu_memory_fraction", 0.5),
    ("--max-prefill-token-num 4096", "max_num_batched_tokens", 4096),
    ("--model-format awq", "quantization", "awq_int4"),
    ("--dtype float16", "weight_dtype", "fp16"),
]


def test_what_is_rendered_is_read_back() -> None:
    """A rendered command asks what was evaluated."""
    layout = Layout(tensor_parallel=2)

    question = read_back(a_job(SET, layout, model="llama-2-7b", gpu=GPU))

    assert (question.workload, question.layout) == (SET, layout)


@pytest.mark.parametrize(("words", "name", "value"), READ)
def test_what_decides_memory_is_read(words: str, name: str, value: object) -> None:
    """Lengths, shares, steps and formats have words of the contract."""
    assert get_workload(ask_command(f"{SERVER} {words}"))[name] == value


def test_ranks_share_weights_or_copy_them() -> None:
    """``tp`` splits a replica, ``dp`` has several."""
    layout = get_layout(ask_command(f"{SERVER} --tp 2 --dp 2"))

    assert (layout["tensor_parallel"], layout["data_parallel"]) == (2, 2)


@pytest.mark.parametrize(
    "words",
    [
        *("--quant-policy 8", "--backend pytorch", "--cache-block-seq-len 128"),
        *("--adapters a=b", "--speculative-algorithm eagle", "--cp 2"),
    ],
)
def test_what_has_no_term_is_named(words: str) -> None:
    """An option that counts and is not counted is told."""
    assert ask_command(f"{SERVER} {words}").imported.ignored == (words.split(maxsplit=1)[0],)


@pytest.mark.parametrize("words", ["--server-port 23333", "--eager-mode", "--quant-policy 0"])
def test_what_decides_nothing_is_without_effect(words: str) -> None:
    """Nothing is left over."""
    assert ask_command(f"{SERVER} {words}").imported.ignored == ()


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        ("lmdeploy lite auto_awq m", "starts no engine"),
        (f"{SERVER} --cache-max-entry-count 1.5", "a share of the memory"),
        (f"{SERVER} --cache-max-entry-count 800", "a share of free memory below 1"),
    ],
)
def test_bad_words_are_refused(command: str, refusal: str) -> None:
    """The refusal says what would be right."""
    with pytest.raises(LaunchFormatError, match=refusal):
        ask_command(command)
