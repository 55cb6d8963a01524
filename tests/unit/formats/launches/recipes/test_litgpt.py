"""LitGPT's commands and files as questions, and rendered ones read back."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.releases.litgpt import TARGETS
from service.estimator.values.workload import Framework, Lora, Method, TrainWorkload
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import GPU, ask, ask_command, get_layout, get_workload
from tests.unit.formats.launches.training import read_training_back
from tests.unit.formats.renderings.builders import a_job

FILE = """
checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3.1-8B
out_dir: out/finetune/qlora-llama3.1-8b
precision: bf16-true
quantize: bnb.nf4
devices: 1
num_nodes: 1
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
lora_query: true
lora_key: false
lora_value: true
lora_projection: false
lora_mlp: false
lora_head: false
data:
  class_path: litgpt.data.Alpaca2k
  init_args: {mask_prompt: false, seed: 42}
train:
  save_interval: 200
  global_batch_size: 8
  micro_batch_size: 2
  epochs: 2
  max_tokens:
  max_seq_length: 512
  max_norm:
eval: {interval: 100, max_new_tokens: 100}
seed: 1337
optimizer:
  class_path: torch.optim.AdamW
  init_args: {lr: 0.0002, weight_decay: 0.0, betas: [0.9, 0.95]}
"""
"""Of ``config_hub/finetune/llama-3.1-8b/qlora.yaml``, Lightning-AI/litgpt at 26857050."""
SAID = "--precision bf16-true --train.max_seq_length 512"


def ask_file(text: str = FILE, command: str = "") -> Any:  # noqa: ANN401 - a question
    """Return the question of a file, under a command that names it."""
    files = [{"name": "qlora.yaml", "content": text}]
    return ask(files=files, gpu=GPU, **({"command": command} if command else {}))


def test_a_file_says_its_script() -> None:
    """A quantised file with adapters is that of ``finetune_lora``; its AdamW is a paged one."""
    question = ask_file()

    assert question.document["model"] == "meta-llama/Meta-Llama-3.1-8B"
    assert get_workload(question) == {
        "task": "train",
        "framework": "litgpt",
        "method": "qlora",
        "precision": "bf16",
        "quantization_bits": 4,
        "double_quantization": False,
        "fp32_norms_and_head": False,
        "optimizer": "paged_adamw",
        "micro_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "sequence_length": 512,
        "lora": {"rank": 32, "dropout": 0.05, "target_modules": ["query", "value"]},
    }
    assert get_layout(question) == {"data_parallel": 1}
    assert (question.missing, question.imported.ignored) == ((), ())


@pytest.mark.parametrize(
    ("command", "rank"),
    [
        ("litgpt finetune_lora --config qlora.yaml --lora_r 4", 4),
        ("litgpt finetune_lora --lora_r 4 --config qlora.yaml", 32),
        ("litgpt finetune --config=qlora.yaml", 32),
        ("python -m litgpt.finetune.lora --config qlora.yaml --lora_r=8", 8),
    ],
)
def test_a_command_reads_its_file_where_it_stands(command: str, rank: int) -> None:
    """What comes later wins."""
    assert get_workload(ask_file(command=command))["lora"]["rank"] == rank


@pytest.mark.parametrize(
    ("words", "method", "peft"),
    [
        ("finetune_full", "full", None),
        ("finetune_lora", "lora", None),
        ("finetune", "lora", None),
        ("finetune lora", "lora", None),
        ("finetune_adapter", "peft", {"type": "adapter"}),
        ("finetune_adapter_v2", "peft", {"type": "adapter_v2"}),
    ],
)
def test_a_command_says_its_method(words: str, method: str, peft: object) -> None:
    """Defaults are the script's: one sequence, sixteen of them to a step."""
    workload = get_workload(ask_command(f"litgpt {words} microsoft/phi-2 {SAID}", gpu=GPU))

    assert (workload["method"], workload.get("peft")) == (method, peft)
    assert (workload["micro_batch_size"], workload["gradient_accumulation_steps"]) == (1, 16)


def test_precision_unsaid_is_autocast() -> None:
    """Training's default is mixed, which the answer refuses in the estimator's words."""
    workload = get_workload(ask_command("litgpt finetune_full microsoft/phi-2", gpu=GPU))

    assert workload["precision"] == "amp_bf16"


def test_lengths_unsaid_are_asked() -> None:
    """The longest sample of the data decides."""
    question = ask_command("litgpt finetune_lora microsoft/phi-2 --precision bf16-true", gpu=GPU)

    assert question.missing == ("workload.sequence_length",)


def test_adapters_over_packed_weights_are_the_models() -> None:
    """The question has no word for it: the config is asked for."""
    command = f"litgpt finetune_adapter microsoft/phi-2 --quantize bnb.nf4 {SAID}"

    assert ask_command(command, gpu=GPU).missing == ("model",)


def test_a_file_of_prompt_adapters_leaves_them_open() -> None:
    """Both scripts have the same options."""
    text = "checkpoint_dir: microsoft/phi-2\nquantize:\nprecision: 32-true\n"

    missing = ask_file(f"{text}train: {{max_seq_length: 8}}").missing

    assert missing == ("workload.method", "workload.peft.type")


@pytest.mark.parametrize(
    ("devices", "layout"),
    [
        ("4", {"data_parallel": 4, "sharding": "fsdp2", "zero_stage": 3}),
        ("2 --num_nodes 2", {"data_parallel": 4, "sharding": "fsdp2", "zero_stage": 3}),
        ("1", {"data_parallel": 1}),
    ],
)
def test_devices_share_the_weights(devices: str, layout: dict[str, object]) -> None:
    """The global batch is that of all ranks."""
    command = f"litgpt finetune_lora microsoft/phi-2 --devices {devices} {SAID}"
    question = ask_command(command, gpu=GPU)

    assert get_layout(question) == layout
    accumulated = get_workload(question)["gradient_accumulation_steps"]
    assert accumulated == 16 // int(str(layout["data_parallel"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pretrain --model_name pythia-14m", "litgpt pretrain has no reader here"),
        ("serve microsoft/phi-2", "litgpt serve has no reader here"),
        ("finetune_full microsoft/phi-2 --quantize bnb.nf4", "finetune_full has no packed weights"),
        ("finetune_lora microsoft/phi-2 --quantize bnb.nf4", "beside quantize bnb.nf4"),
        ("finetune_lora microsoft/phi-2 --quantize bnb.nf4 --precision bf16-true --optimizer SGD",
         "the only optimizer"),
        ("finetune_lora microsoft/phi-2 --train.max_norm 1", "stops at it"),
        ("finetune_lora microsoft/phi-2 --train.global_batch_size 4 --train.micro_batch_size 8",
         "a multiple of --train.micro_batch_size 8"),
        ("finetune_lora microsoft/phi-2 --lora_query false --lora_value false",
         "no layer has an adapter"),
    ],
)  # fmt: skip
def test_what_litgpt_stops_at_is_refused(words: str, message: str) -> None:
    """So is what has no reader."""
    with pytest.raises(LaunchFormatError, match=message):
        ask_command(f"litgpt {words}", gpu=GPU)


@pytest.mark.parametrize(
    ("options", "optimizer"),
    [
        ("--optimizer AdamW", "adamw"),
        ("--optimizer bitsandbytes.optim.AdamW8bit", "adamw_8bit"),
        ("--optimizer torch.optim.AdamW --optimizer.fused true", "adamw_fused"),
        ("--optimizer SGD --optimizer.init_args.momentum 0.9", "sgd_momentum"),
    ],
)
def test_optimizers_are_classes(options: str, optimizer: str) -> None:
    """What their arguments change is another member."""
    command = f"litgpt finetune_full microsoft/phi-2 {SAID} {options}"

    assert get_workload(ask_command(command, gpu=GPU))["optimizer"] == optimizer


@st.composite
def draw_workloads(draw: st.DrawFn) -> TrainWorkload:
    """Draw a step of LitGPT that its command says."""
    method = draw(st.sampled_from([Method.FULL, Method.LORA, Method.QLORA, Method.PEFT]))
    packs, adapts = method is Method.QLORA, method in {Method.LORA, Method.QLORA}
    optimizers = ["adamw", "adamw_bnb", "adamw_8bit", "paged_adamw", "paged_adamw_8bit", "sgd"]
    lora = Lora(
        rank=draw(st.sampled_from([4, 16])),
        dropout=draw(st.sampled_from([0.0, 0.05])),
        targets=draw(st.sampled_from([TARGETS[:1], TARGETS[:3], TARGETS[3:], TARGETS])),
    )
    workload = TrainWorkload(
        framework=Framework.LITGPT,
        method=method,
        precision=POLICIES[draw(st.sampled_from(["bf16", "fp16", "fp32"]))],
        sequence_length=draw(st.sampled_from([256, 512])),
        micro_batch_size=1 if method is Method.PEFT else draw(st.sampled_from([1, 4])),
        gradient_accumulation_steps=draw(st.sampled_from([1, 8])),
        optimizer="paged_adamw" if packs else draw(st.sampled_from(optimizers)),
        peft=draw(st.sampled_from(["adapter", "adapter_v2"])) if method is Method.PEFT else None,
        lora=lora if adapts else None,
    )
    return replace(workload, double_quantization=draw(st.booleans())) if packs else workload


@settings(max_examples=60, deadline=None)
@given(workload=draw_workloads())
def test_what_is_rendered_is_read_back(workload: TrainWorkload) -> None:
    """A rendered command asks what was evaluated."""
    question = read_training_back(a_job(workload, Layout(), gpu=GPU))

    assert question.workload == workload
    assert question.layout == Layout()
