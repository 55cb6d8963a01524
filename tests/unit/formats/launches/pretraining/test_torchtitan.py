"""torchtitan's configurations as questions."""

import pytest

from service.contract.to_question.launches import LaunchQuestion
from service.formats.launches.pretraining.torchtitan_files import read_config_file
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import GPU, ask, get_layout, get_workload

TOML = """\
[job]
description = "Llama 3 8B training"
[model]
name = "llama3"
flavor = "8B"
# converters = ["float8"]
[optimizer]
name = "AdamW"
lr = 3e-4
[training]
local_batch_size = 2
seq_len = 8192
max_norm = 1.0
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "selective"  # ["none", "selective", "full"]
selective_ac_option = "op"
[compile]
enable = false
"""
PYTHON = """\
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer
raise SystemExit("a file that is run would end here")


def base() -> Trainer.Config:
    return Trainer.Config(
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config()),
        model_spec=model_registry("8B"),
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(local_batch_size=2 * 2, seq_len=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=8),
        activation_checkpoint=FullAC.Config(),
    )


def float8() -> Trainer.Config:
    config = base()
    config.model_spec = model_registry("70B", converters=[Float8LinearConverter.Config()])
    config.training.seq_len = 4096
    config.compile = CompileConfig(enable=True)
    config.activation_checkpoint = None
    return config
"""
START = "torchrun --nproc-per-node 8 -m torchtitan.train"
READ = [
    ("--training.seq_len 4096", "workload", "sequence_length", 4096),
    ("--training.local-batch-size=4", "workload", "micro_batch_size", 4),
    ("--training.global_batch_size 64", "workload", "gradient_accumulation_steps", 4),
    ("--parallelism.tensor_parallel_degree 4", "layout", "data_parallel", 2),
    (
        "--parallelism.data_parallel_replicate_degree 2 --parallelism.data_parallel_shard_degree 4",
        *("layout", "shard_size", 4),
    ),
    ("--parallelism.context_parallel_degree 2", "layout", "context_parallel", 2),
    (
        "--parallelism.fsdp_reshard_after_forward never",
        *("layout", "reshard_after_forward", False),
    ),
    ("--activation_checkpoint.mode full", "workload", "activation_checkpointing", "full"),
    (
        "--activation_checkpoint.selective_ac_option 2",
        *("workload", "activation_checkpointing", {"selective": 2}),
    ),
    ("--compile.enable", "workload", "compile", True),
    ("--compile.no-enable", "workload", "compile", False),
    ("--model.converters quantize.linear.float8", "workload", "float8", True),
    ("--optimizer.implementation for-loop", "workload", "optimizer", "adamw_loop"),
    ("--optimizer.early_step_in_backward", "workload", "optimizer_in_backward", True),
    (
        "--training.dtype bfloat16",
        "workload",
        "precision",
        {
            "param_dtype": "bf16",
            "compute_dtype": "bf16",
            "grad_dtype": "bf16",
            "optimizer_dtype": "bf16",
            "reduce_dtype": "fp32",
        },
    ),
    (
        "--training.enable_cpu_offload",
        *("workload", "offload", {"parameters": "cpu", "optimizer": "cpu"}),
    ),
    ("--debug.deterministic", "workload", "deterministic", True),
    (
        (
            "--parallelism.pipeline_parallel_degree 2 --training.local_batch_size 8 "
            "--parallelism.pipeline_parallel_microbatch_size 2"
        ),
        *("workload", "gradient_accumulation_steps", 4),
    ),
    (
        (
            "--parallelism.pipeline_parallel_degree 2 "
            "--parallelism.pipeline_parallel_schedule Interleaved1F1B"
        ),
        *("layout", "virtual_pipeline_stages", 2),
    ),
]
BAD = [
    ("--training.seq_len many", "--training.seq_len is 'many'; expected a whole number"),
    ("--parallelism.tensor_parallel_degree 3", "8 processes are no multiple of the 3 GPUs"),
    ("--parallelism.data_parallel_shard_degree 8", "8 processes, but the degrees make 16"),
    ("--training.global_batch_size 12", "expected a multiple of 8"),
    ("--activation_checkpoint.mode some", "expected one of none, full, selective"),
    ("--activation_checkpoint.selective_ac_option x", "expected op, or every how many layers"),
    ("--optimizer.name Muon", "expected AdamW"),
    (
        "--parallelism.pipeline_parallel_degree 2 --parallelism.pipeline_parallel_schedule x",
        "expected one of 1F1B, GPipe",
    ),
]


def read(options: str = "", toml: str = TOML) -> LaunchQuestion:
    """Return the question of a TOML with options over it."""
    return ask(
        files=[{"name": "run/llama3_8b.toml", "content": toml}],
        command=f"{START} --job.config_file ./llama3_8b.toml {options}",
        gpu=GPU,
    )


def test_a_toml_is_the_question() -> None:
    """Its flavour is a model of the catalogue; degrees and processes make the layout."""
    question = read()

    workload, layout = get_workload(question), get_layout(question)
    assert question.document["model"] == "llama-3.1-8b"
    assert (question.missing, question.refusal) == ((), None)
    assert (workload["sequence_length"], workload["micro_batch_size"]) == (8192, 2)
    assert (workload["activation_checkpointing"], workload["optimizer"]) == (
        *("selective", "adamw_fused"),
    )
    assert workload["precision"]["compute_dtype"] == "bf16"
    assert workload["gradient_clipping"] is True
    assert (layout["data_parallel"], layout["tensor_parallel"]) == (4, 2)
    assert (layout["sharding"], layout["shard_embeddings_separately"]) == ("fsdp2", True)
    places = {each.key: each.where for each in question.imported.read}
    assert places["training.seq_len"] == "run/llama3_8b.toml:12"
    assert question.imported.ignored == ()


@pytest.mark.parametrize(("options", "part", "field", "value"), READ)
def test_an_option_wins_over_the_file(options: str, part: str, field: str, value: object) -> None:
    """Each that counts becomes the field that means it."""
    toml = TOML.replace("tensor_parallel_degree = 2\n", "")
    question = read(options, toml)

    fields = get_layout(question) if part == "layout" else get_workload(question)
    assert fields[field] == value
    assert question.imported.ignored == ()


@pytest.mark.parametrize(("options", "expected"), BAD)
def test_what_torchtitan_would_not_run_is_refused(options: str, expected: str) -> None:
    """The refusal says what would be right."""
    with pytest.raises(LaunchFormatError) as caught:
        read(options)

    assert expected in caught.value.message


@pytest.mark.parametrize(
    ("options", "ignored"),
    [
        ("--validation.enable", ("--validation.enable",)),
        ("--validation.enable --validation.local_batch_size 4", ("--validation.enable",)),
        ("--validation.freq 10", ()),
    ],
)
def test_a_validation_is_named(options: str, ignored: tuple[str, ...]) -> None:
    """Its batches are none of a step's, and there is no term of them."""
    command = f"{START} --job.config_file llama3_8b.toml {options}"
    question = ask(command=command, files=[{"name": "llama3_8b.toml", "content": TOML}], gpu=GPU)

    assert question.imported.ignored == ignored


def test_a_python_file_is_read_and_not_run() -> None:
    """Products are folded; a configuration begins with another of the same file."""
    files = [{"name": "config_registry.py", "content": PYTHON}]
    start = "NGPU=64 ./run_train.sh --module llama3 --config"

    base = ask(files=files, command=f"{start} base", gpu=GPU)
    float8 = ask(files=files, command=f"{start} float8", gpu=GPU)

    workload, layout = get_workload(base), get_layout(base)
    assert (base.document["model"], base.imported.launcher) == ("llama-3.1-8b", "torchtitan")
    assert (workload["micro_batch_size"], workload["sequence_length"]) == (4, 8192)
    assert (workload["loss"], workload["activation_checkpointing"]) == ("chunked", "full")
    assert (layout["tensor_parallel"], layout["data_parallel"]) == (8, 8)
    workload = get_workload(float8)
    assert float8.document["model"] == "llama-3.1-70b"
    assert (workload["float8"], workload["compile"]) == (True, True)
    assert (workload["sequence_length"], workload["micro_batch_size"]) == (4096, 4)
    assert workload["activation_checkpointing"] == "none"


def test_tokens_of_later_releases_are_sequences() -> None:
    """A micro-batch counts tokens of all its sequences."""
    training = "num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192"
    text = PYTHON.partition("def float8")[0].replace(
        "local_batch_size=2 * 2, seq_len=8192", training
    )

    question = ask(files=[{"name": "mine.py", "content": text}], gpu=GPU)

    workload = get_workload(question)
    assert (workload["micro_batch_size"], workload["sequence_length"]) == (2, 8192)


def test_a_configuration_of_torchtitans_own_is_known_by_its_name() -> None:
    """What nobody hands in is named where it is not known."""
    known = ask(command="NGPU=16 ./run_train.sh --module llama3 --config llama3_70b", gpu=GPU)
    other = ask(command=f"{START} --job.config_file x/mine.toml", gpu=GPU)

    assert known.document["model"] == "llama-3.1-70b"
    assert (get_layout(known)["tensor_parallel"], get_layout(known)["data_parallel"]) == (8, 2)
    assert other.missing == ("model",)
    assert "mine was not handed in" in other.imported.warnings[0]


def test_several_configurations_are_asked_for() -> None:
    """The refusal names them."""
    with pytest.raises(LaunchFormatError, match="name one by --config: base, float8"):
        ask(files=[{"name": "config_registry.py", "content": PYTHON}], gpu=GPU)


def test_one_gpu_of_an_early_release_runs_autocast() -> None:
    """Releases before 0.3 shard nothing on one GPU."""
    question = ask(
        files=[{"name": "a.toml", "content": TOML.replace("_degree = 2", "_degree = 1")}],
        command="torchrun --nproc-per-node 1 -m torchtitan.train --job.config_file a.toml",
        gpu=GPU,
    )

    assert get_workload(question)["precision"] == "amp_bf16"
    assert "sharding" not in get_layout(question)


@pytest.mark.parametrize(
    "functions",
    [
        f"def f0() -> Trainer.Config:\n    return Trainer.Config(a={'-' * 900}x)\n",
        "".join(f"def f{n}():\n    x = f{n + 1}()\n    return f{n + 1}()\n" for n in range(60))
        + "def f60() -> Trainer.Config:\n    return Trainer.Config()\n",
    ],
    ids=len,
)
def test_a_configuration_that_nests_is_refused(functions: str) -> None:
    """Neither signs upon signs nor functions that begin with others twice run for ever."""
    with pytest.raises(LaunchFormatError, match=r"nested too deeply|too often"):
        read_config_file("config_registry.py", functions, "f0")
