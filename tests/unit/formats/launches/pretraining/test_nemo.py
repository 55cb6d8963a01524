"""NeMo's, Megatron-Bridge's and Automodel's configurations as questions."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contract.to_question.launches import LaunchQuestion
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import GPU, ask, get_layout, get_workload

AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  global_batch_size: 64
  local_batch_size: 4
  max_steps: 100
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B
distributed:
  strategy: fsdp2
  dp_size: none
  tp_size: 2
  cp_size: 1
  activation_checkpointing: true
loss_fn:
  _target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy
packed_sequence:
  packed_sequence_size: 4096
optimizer:
  _target_: torch.optim.AdamW
  lr: 1.0e-5
"""
NEMO = """\
trainer:
  devices: 8
  num_nodes: 2
  precision: bf16
  gradient_clip_val: 1.0
exp_manager:
  name: megatron_gpt
model:
  mcore_gpt: true
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: 2
  sequence_parallel: true
  encoder_seq_length: 2048
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 11008
  num_attention_heads: 32
  activation: fast-swiglu
  normalization: rmsnorm
  bias: false
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  hidden_dropout: 0.0
  attention_dropout: 0.0
  activations_checkpoint_granularity: selective
  megatron_amp_O2: true
  tokenizer:
    type: GPT2BPETokenizer
  optim:
    name: distributed_fused_adam
    lr: 1e-4
"""
BRIDGE = """\
dataset:
  seq_length: 4096
train:
  micro_batch_size: 1
  global_batch_size: 64
model:
  seq_length: 4096
  tensor_model_parallel_size: 2
ddp:
  grad_reduce_in_fp32: false
logger:
  log_interval: 10
"""
READ = [
    ("--distributed.tp_size 4", "layout", "data_parallel", 2),
    ("--distributed.cp_size 2", "layout", "context_parallel", 2),
    ("--distributed.dp_replicate_size 2", "layout", "shard_size", 2),
    ("--distributed.sequence_parallel true", "layout", "sequence_parallel", True),
    ("--distributed.strategy ddp", "layout", "sharding", "ddp"),
    ("--step_scheduler.local_batch_size 2", "workload", "gradient_accumulation_steps", 8),
    ("--model.attn_implementation eager", "workload", "attention", "eager"),
    ("--optimizer.fused true", "workload", "optimizer", "adamw_fused"),
    ("--optimizer.foreach false", "workload", "optimizer", "adamw_loop"),
    ("--clip_grad_norm.max_norm 0", "workload", "gradient_clipping", False),
    (
        "--loss_fn._target_ nemo_automodel.components.loss.linear_ce.FusedLinearCrossEntropy",
        *("workload", "loss", "fused_linear"),
    ),
    ("--peft.match_all_linear true --peft.dim 16", "workload", "method", "lora"),
    (
        "--peft.target_modules *_proj",
        *(
            "workload",
            "lora",
            {
                "rank": 8,
                "dtype": "bf16",
                "target_modules": [
                    "q_proj",
                    "k_proj",
                    "v_proj",
                    "o_proj",
                    "gate_proj",
                    "up_proj",
                    "down_proj",
                ],
            },
        ),
    ),
    ("--peft.dim 8 --quantization.load_in_4bit true", "workload", "quantization_bits", 4),
]
BAD = [
    ("--recipe TrainEagle3Recipe", "expected one of BenchmarkingRecipe"),
    ("--distributed.tp_size 3", "8 processes are no multiple of the 3 GPUs"),
    ("--distributed.dp_size 8", "expected 4, the processes over tensor x context x pipeline"),
    ("--step_scheduler.global_batch_size 30", "expected a multiple of 16"),
    ("--optimizer._target_ dion.Muon", "optimizer._target_ is Muon"),
]


def read(options: str = "", text: str = AUTOMODEL) -> LaunchQuestion:
    """Return the question of a recipe with options over it."""
    return ask(
        files=[{"name": "squad.yaml", "content": text}],
        command=f"torchrun --nproc-per-node 8 finetune.py --config squad.yaml {options}",
        launcher="nemo",
        gpu=GPU,
    )


def test_a_recipe_of_automodel_is_transformers_on_fsdp2() -> None:
    """Weights are bf16, gathered as they are, their gradients reduced in fp32."""
    question = ask(files=[{"name": "squad.yaml", "content": AUTOMODEL}], gpu=GPU)
    started = read()

    workload, layout = get_workload(started), get_layout(started)
    assert question.imported.launcher == "nemo"
    assert [one.field for one in question.questions] == ["layout.data_parallel"]
    assert started.document["model"] == "meta-llama/Llama-3.2-1B"
    assert (workload["framework"], workload["method"]) == ("transformers", "full")
    assert (workload["sequence_length"], workload["micro_batch_size"]) == (4096, 4)
    assert workload["gradient_accumulation_steps"] == 4
    assert workload["precision"] == {
        "param_dtype": "bf16",
        "compute_dtype": "bf16",
        "grad_dtype": "bf16",
        "reduce_dtype": "fp32",
    }
    assert workload["activation_checkpointing"] == "full"
    assert (layout["sharding"], layout["zero_stage"]) == ("fsdp2", 3)
    assert (layout["data_parallel"], layout["tensor_parallel"]) == (4, 2)
    assert "defer_fsdp_grad_sync" in started.imported.warnings[0]
    assert started.imported.ignored == ()


@pytest.mark.parametrize(("options", "part", "field", "value"), READ)
def test_an_option_wins_over_the_recipe(options: str, part: str, field: str, value: object) -> None:
    """Each that counts becomes the field that means it."""
    question = read(options)

    fields = get_layout(question) if part == "layout" else get_workload(question)
    assert fields[field] == value
    assert question.imported.ignored == ()


@pytest.mark.parametrize(("options", "expected"), BAD)
def test_what_automodel_would_not_run_is_refused(options: str, expected: str) -> None:
    """The refusal says what would be right."""
    with pytest.raises(LaunchFormatError) as caught:
        read(options)

    assert expected in caught.value.message


def test_a_configuration_of_nemo_is_megatrons() -> None:
    """Its sizes are the model, and its processes the trainer's devices."""
    question = ask(files=[{"name": "megatron_gpt_config.yaml", "content": NEMO}], gpu=GPU)

    workload, layout = get_workload(question), get_layout(question)
    architecture = question.document["model"]["architecture"]  # type: ignore[index]
    assert (question.missing, question.refusal) == ((), None)
    assert (workload["framework"], workload["precision"]) == ("megatron", "megatron_bf16")
    assert workload["gradient_accumulation_steps"] == 32
    assert workload["activation_checkpointing"] == "selective"
    assert (layout["data_parallel"], layout["zero_stage"]) == (2, 1)
    assert (layout["virtual_pipeline_stages"], layout["sequence_parallel"]) == (2, True)
    assert (architecture["family"], architecture["vocab_size"]) == ("llama", 50257)
    assert architecture["max_position_embeddings"] == 2048
    assert question.imported.ignored == ()


def test_overrides_of_megatron_bridge_ask_for_the_recipe() -> None:
    """The name of a recipe is its model; what else it sets is not read, which is told."""
    files = [{"name": "conf.yaml", "content": BRIDGE}]
    start = "torchrun --nproc-per-node 8 run_recipe.py --recipe"
    recipe = f"{start} llama32_1b_pretrain_config train.micro_batch_size=2"
    degrees = {"pipeline_parallel": 1, "context_parallel": 1}

    known = ask(files=files, command=recipe, gpu=GPU, layout=degrees)
    unknown = ask(files=files, command=f"{start} frobnicate_9b_pretrain_config", gpu=GPU,
                  layout=degrees)  # fmt: skip

    workload = get_workload(known)
    assert (known.imported.launcher, known.document["model"]) == ("nemo", "llama-3.2-1b")
    assert (workload["micro_batch_size"], workload["precision"]) == (2, "bf16_mixed")
    assert workload["gradient_accumulation_steps"] == 8
    assert get_layout(known)["zero_stage"] == 1
    assert "what the recipe itself sets is not read" in known.imported.warnings[0]
    assert unknown.missing == ("model",)


def test_a_command_of_nemo_names_its_recipe() -> None:
    """``nemo llm pretrain`` takes key=value over a factory."""
    question = ask(
        command="nemo llm pretrain --factory llama3_8b trainer.devices=8 data.micro_batch_size=1 "
        "data.global_batch_size=64 data.seq_length=8192 "
        "trainer.strategy.tensor_model_parallel_size=4",
        gpu=GPU,
    )

    assert (question.imported.launcher, question.document["model"]) == ("nemo", "llama-3-8b")
    assert get_workload(question).get("gradient_accumulation_steps") is None
    assert question.missing == ("layout.pipeline_parallel", "layout.context_parallel")


def test_degrees_beside_a_recipe_share_its_processes() -> None:
    """A recipe's own degrees are not read: one was taken for each, and too many replicas."""
    question = ask(
        command="nemo llm pretrain --factory llama3_8b trainer.devices=8 data.micro_batch_size=1 "
        "data.global_batch_size=64 data.seq_length=8192 "
        "trainer.strategy.tensor_model_parallel_size=4",
        gpu=GPU,
        layout={"pipeline_parallel": 1, "context_parallel": 2},
    )

    assert question.missing == ()
    assert get_layout(question)["data_parallel"] == 1
    assert get_workload(question)["gradient_accumulation_steps"] == 64


def test_adapters_are_named_to_the_answer() -> None:
    """Megatron's steps have no term for them, so that they are not left out."""
    text = NEMO + "  peft:\n    peft_scheme: lora\n    lora_tuning:\n      adapter_dim: 16\n"

    question = ask(files=[{"name": "a.yaml", "content": text}], gpu=GPU)

    assert get_workload(question)["method"] == "lora"
    assert get_workload(question)["lora"] == {"rank": 16}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    """No other error comes out of any text."""
    text = data.draw(st.sampled_from([AUTOMODEL, NEMO, BRIDGE]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 60)))
    pieces = ["[", "]", ":", "\n", "-1", "{", "}", "&a *a", "${model}", "???", "[[]]", "- ", "0"]
    piece = data.draw(st.one_of(st.sampled_from(pieces), st.just(text[start:end] * 2)))
    damaged = text[:start] + piece + text[end:]

    with suppress(LaunchFormatError):
        ask(files=[{"name": "a.yaml", "content": damaged}], launcher="nemo", gpu=GPU)


def test_options_of_others_are_not_nemos() -> None:
    """OpenRLHF has ``--train.micro_batch_size`` too."""
    with pytest.raises(LaunchFormatError, match="no launcher is known by it"):
        ask(command="python -m openrlhf.cli.train_sft --train.micro_batch_size 2", gpu=GPU)
