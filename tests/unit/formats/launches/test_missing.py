"""What decides memory and is not said: nothing is answered until somebody says it."""

import pytest

from tests.unit.formats.launches.asking import GPU, ask, ask_command, get_layout

_TRAIN = "train.py --model_name_or_path llama-2-7b --bf16 --sequence_length 512"


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (f"accelerate launch --config_file a.yaml {_TRAIN}",
         ("layout.sharding", "layout.zero_stage", "layout.data_parallel")),
        (f"torchrun --nproc_per_node 8 {_TRAIN} --deepspeed a.json", ("layout.zero_stage",)),
        (f"torchrun --nproc_per_node gpu {_TRAIN} --fsdp full_shard", ("layout.data_parallel",)),
        (f"torchrun --nproc_per_node gpu {_TRAIN}", ("layout.data_parallel",)),
        (f"accelerate launch {_TRAIN}", ("layout.data_parallel",)),
        (f"CUDA_VISIBLE_DEVICES=0 accelerate launch {_TRAIN}", ()),
        (f"torchrun {_TRAIN}", ()),
        (f"python {_TRAIN} --use_lora True --lora_rank 8", ("workload.method",)),
        (f"python {_TRAIN} --use_lora False", ()),
        (f"python {_TRAIN} --lora_r 64 --bits 4", ("workload.method",)),
        (f"python {_TRAIN} --lora_r 64 --bits 16", ()),
        ("vllm serve gpt2", ("workload.num_sequences", "workload.prompt_tokens")),
        ("vllm serve openai/gpt-oss-20b", ("workload.num_sequences", "workload.prompt_tokens")),
        ("vllm serve llama-2-7b --performance-mode throughput --max-num-seqs 64",
         ("workload.num_sequences", "workload.prompt_tokens", "workload.max_num_batched_tokens")),
        ("llama-server -m llama.gguf -c 8192",
         ("workload.prompt_tokens", "workload.quantization")),
    ],
)  # fmt: skip
def test_what_decides_memory_waits(command: str, missing: tuple[str, ...]) -> None:
    """Sharding over an unknown number of GPUs had one; a file that is elsewhere, ZeRO 2."""
    question = ask_command(command, gpu=GPU)

    assert question.missing == missing


def test_what_is_said_beside_a_launch_is_missing_no_more() -> None:
    """Its value is the question's."""
    command = f"torchrun --nproc_per_node gpu {_TRAIN} --fsdp full_shard"

    question = ask_command(command, gpu=GPU, layout={"data_parallel": 4})

    assert question.missing == ()
    assert get_layout(question)["data_parallel"] == 4


def test_a_file_alone_is_asked_of_one_gpu() -> None:
    """It names no GPUs, and neither does anything around it; what is sharded waits for theirs."""
    alone = "base_model: llama-2-7b\nmicro_batch_size: 1\nsequence_len: 512\n"
    sharded = f"{alone}fsdp_config:\n  fsdp_version: 2\n"

    questions = [
        ask(files=[{"name": "axolotl.yaml", "content": text}], gpu=GPU) for text in (alone, sharded)
    ]

    assert [question.missing for question in questions] == [(), ("layout.data_parallel",)]
