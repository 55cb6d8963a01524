"""ms-swift's servers, as the engines that they start."""

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import ImportedLaunch, Launcher
from tests.unit.formats.launches.asking import ask_command
from tests.unit.formats.launches.importing import get_part, import_launch


def _import(words: str) -> ImportedLaunch:
    return import_launch(command=f"CUDA_VISIBLE_DEVICES=0,1 swift {words} --model a/b")


@pytest.mark.parametrize("words", ["deploy --infer_backend vllm", "rollout"])
def test_an_engine_has_its_options_behind_a_prefix(words: str) -> None:
    """And ms-swift's share of the memory, 0.9."""
    imported = _import(
        f"{words} --vllm_tensor_parallel_size 2 --vllm_max_model_len 8192 --port 8000 "
        "--vllm_enforce_eager true --max_new_tokens 2048"
    )

    workload, layout = get_part(imported, "workload"), get_part(imported, "layout")
    assert (imported.launcher, imported.ignored) == (Launcher.MS_SWIFT, ())
    assert (workload["task"], workload["engine"]) == ("serve", "vllm")
    assert (workload["gpu_memory_fraction"], workload["max_num_sequences"]) == (0.9, 256)
    assert (workload["max_model_len"], workload["enforce_eager"]) == (8192, True)
    assert layout["tensor_parallel"] == 2
    assert "--vllm_max_model_len" in {key.key for key in imported.read}
    assert "--port" in imported.without_effect


def test_adapters_have_slots_unless_they_are_merged() -> None:
    """As many as are named."""
    slots, merged = (
        get_part(_import(f"deploy --infer_backend vllm --adapters x=a y=b {words}"), "workload")
        for words in ("--vllm_max_lora_rank 32", "--merge_lora true")
    )

    assert (slots["max_loras"], slots["max_lora_rank"]) == (2, 32)
    assert "max_loras" not in merged


def test_sglang_is_read_so_too() -> None:
    """By its own names."""
    imported = _import(
        "infer --infer_backend sglang --sglang_tp_size 2 --sglang_mem_fraction_static 0.8"
    )

    assert get_part(imported, "workload")["engine"] == "sglang"
    assert get_part(imported, "workload")["gpu_memory_fraction"] == 0.8
    assert get_part(imported, "layout")["tensor_parallel"] == 2


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("deploy", "ask of it by launcher generate"),
        ("infer --infer_backend lmdeploy", "ask of lmdeploy serve api_server"),
        ("deploy --infer_backend tgi", "expected one of vllm, sglang"),
    ],
)
def test_other_backends_are_refused(words: str, refusal: str) -> None:
    """With what to ask of in their place."""
    with pytest.raises(LaunchFormatError, match=refusal):
        _import(words)


def test_its_question_has_an_answer() -> None:
    """As an engine's launch has: the load is asked, and nobody refuses it."""
    question = ask_command(
        "swift deploy --infer_backend vllm --model qwen2.5-7b --vllm_max_model_len 8192",
        gpu="H100-SXM5-80GB",
        workload={"num_sequences": 4, "prompt_tokens": 512, "output_tokens": 64},
    )

    assert (question.missing, question.refusal) == ((), None)
