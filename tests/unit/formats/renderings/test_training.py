"""What starts a training job, read back by the tools that would read it, and compared with the
layout.
"""

import json
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import ClusterConfig  # type: ignore[import-untyped]  # it ships no types
from accelerate.commands.launch import launch_command_parser  # type: ignore[import-untyped]  # it ships no types
from accelerate.utils import FullyShardedDataParallelPlugin  # type: ignore[import-untyped]  # it ships no types
from peft import LoraConfig
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.run import get_args_parser
from transformers import BitsAndBytesConfig, HfArgumentParser, TrainingArguments
from transformers.training_args import OptimizerNames

from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.optimizers import TRAINER_NAMES, UNMODELLED, OptimizerName
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Allocator,
    Checkpointing,
    Framework,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    TrainWorkload,
)
from service.formats.renderings.render import make_launch
from service.formats.renderings.trainer import OPTIMIZERS
from tests.unit.formats.renderings.builders import (
    BATCHED,
    FLAT,
    FULLY_SHARDED,
    TRAIN,
    ZERO_3,
    a_job,
    flags_of,
)


def test_torchrun_reads_as_many_ranks_on_as_many_nodes() -> None:
    """Torch's own parser finds two nodes of eight ranks, and the script behind them."""
    command = make_launch(a_job()).command
    read = get_args_parser().parse_args([word.replace("${NODE_RANK}", "1") for word in command[1:]])

    assert (read.nnodes, read.nproc_per_node, read.node_rank) == ("2", "8", 1)
    assert read.training_script == "train.py"
    assert read.rdzv_endpoint == "${HEAD_ADDRESS}:29500"


def test_one_node_needs_no_rendezvous() -> None:
    """A single node is its own head."""
    command = make_launch(a_job(layout=replace(ZERO_3, data_parallel=4))).command
    read = get_args_parser().parse_args(list(command[1:]))

    assert (read.standalone, read.nproc_per_node, read.rdzv_endpoint) == (True, "4", "")


def test_the_trainers_arguments_are_its_own() -> None:
    """Every flag is a field of TrainingArguments, and says the micro batch, the accumulation and
    what is recomputed.
    """
    command = make_launch(
        a_job(
            replace(
                BATCHED,
                precision=POLICIES["amp_bf16"],
                optimizer="adamw_8bit",
                save_total_limit=3,
            )
        )
    ).command
    script = command[command.index("train.py") + 1 :]
    read = HfArgumentParser(TrainingArguments).parse_args([*script, "--output_dir", "out"])  # type: ignore[arg-type]  # a dataclass

    assert (read.per_device_train_batch_size, read.gradient_accumulation_steps) == (2, 4)
    assert read.save_total_limit == 3
    assert (read.gradient_checkpointing, read.bf16, read.deepspeed) == (
        True,
        True,
        "deepspeed_config.json",
    )
    assert OptimizerNames(read.optim) is OptimizerNames.ADAMW_BNB


def test_every_name_of_transformers_is_read_or_refused_in_words() -> None:
    """A user of --optim may type what the launcher knows."""
    words = {word.value for word in OptimizerNames}
    read = {word for word in words if word not in UNMODELLED and OptimizerName(word)}

    assert read | set(UNMODELLED) == words
    assert not {*UNMODELLED} & {*OptimizerName, *TRAINER_NAMES}


def test_what_is_rendered_is_read_back() -> None:
    """Our word for a Trainer's optimizer means that optimizer again."""
    assert all(OptimizerName(word) == name for name, word in OPTIMIZERS.items())


def test_optimizers_are_called_what_transformers_calls_them() -> None:
    """Each word of the table is one of OptimizerNames."""
    assert {OptimizerNames(name) for name in OPTIMIZERS.values()}


def test_accelerate_reads_its_configuration(tmp_path: Path) -> None:
    """Accelerate's own classes take every key, and find the shards of the layout."""
    layout = replace(FULLY_SHARDED, shard_size=8, reshard_after_forward=False)
    offload = Offload(optimizer=OffloadTarget.CPU, parameters=OffloadTarget.CPU)
    launch = make_launch(a_job(replace(TRAIN, offload=offload), layout))
    (tmp_path / "config.yaml").write_text(launch.files["accelerate_config.yaml"])
    read = ClusterConfig.from_yaml_file(str(tmp_path / "config.yaml"))

    assert (read.num_machines, read.num_processes, read.mixed_precision) == (2, 16, "no")
    spread = {
        name.removeprefix("parallelism_config_"): size
        for name, size in read.parallelism_config.items()
    }
    assert spread == {"dp_replicate_size": 2, "dp_shard_size": 8, "tp_size": 1, "cp_size": 1}
    known = {field.name for field in fields(FullyShardedDataParallelPlugin)} | {"offload_params"}
    said = {name.removeprefix("fsdp_") for name in read.fsdp_config} - {"version"}
    assert said <= known
    assert read.fsdp_config["fsdp_version"] == 2
    assert (
        read.fsdp_config["fsdp_offload_params"],
        read.fsdp_config["fsdp_reshard_after_forward"],
    ) == (True, False)


@pytest.mark.parametrize(
    ("layout", "strategy"),
    [
        (FLAT, ShardingStrategy.FULL_SHARD),
        (replace(FLAT, reshard_after_forward=False), ShardingStrategy.SHARD_GRAD_OP),
        (replace(FLAT, shard_size=8), ShardingStrategy.HYBRID_SHARD),
    ],
)
def test_flat_parameters_are_sharded_by_strategy(
    layout: Layout, strategy: ShardingStrategy, tmp_path: Path
) -> None:
    """FSDP1 has a word for each way to shard, and no degrees of parallelism beside it."""
    launch = make_launch(a_job(layout=layout))
    (tmp_path / "config.yaml").write_text(launch.files["accelerate_config.yaml"])
    read = ClusterConfig.from_yaml_file(str(tmp_path / "config.yaml"))

    assert read.fsdp_config["fsdp_version"] == 1
    assert ShardingStrategy[read.fsdp_config["fsdp_sharding_strategy"]] is strategy
    assert read.parallelism_config == {}


@pytest.mark.parametrize("layout", [ZERO_3, FULLY_SHARDED, FLAT])
def test_reentrant_checkpoints_are_the_trainers(layout: Layout) -> None:
    """FSDP's own checkpoints are not reentrant: those that are asked for come from the Trainer,
    whoever shards.
    """
    launch = make_launch(a_job(replace(TRAIN, reentrant_checkpointing=True), layout))
    flags = flags_of(launch.command)

    assert flags["gradient_checkpointing"] == "true"
    assert json.loads(flags["gradient_checkpointing_kwargs"]) == {"use_reentrant": True}
    assert '"fsdp_activation_checkpointing": true' not in "".join(launch.files.values())


def test_accelerate_reads_its_command() -> None:
    """Its own parser takes the rank and the address of a node."""
    command = make_launch(a_job(layout=FULLY_SHARDED)).command
    said = ["0" if word == "${NODE_RANK}" else word for word in command[2:]]
    read = launch_command_parser().parse_args(said)

    assert (read.machine_rank, read.main_process_port, read.training_script) == (
        0,
        29500,
        "train.py",
    )


def test_adapters_and_quantised_weights_are_keywords_of_their_libraries() -> None:
    """Peft and bitsandbytes' configuration take them as they are."""
    asked = replace(
        TRAIN,
        method=Method.QLORA,
        lora=Lora(rank=64, targets=("q_proj", "v_proj"), variant="rslora"),
    )
    objects = make_launch(a_job(asked)).objects
    adapters, loaded = objects["LoraConfig"], objects["from_pretrained"]

    assert isinstance(adapters, dict)
    assert isinstance(loaded, dict)
    config = LoraConfig(**adapters)
    assert (config.r, config.use_rslora, sorted(config.target_modules or ())) == (
        64,
        True,
        ["q_proj", "v_proj"],
    )
    packed = BitsAndBytesConfig(**loaded["quantization_config"])  # type: ignore[no-untyped-call]  # transformers ships none
    assert (packed.bnb_4bit_quant_type, packed.bnb_4bit_use_double_quant) == ("nf4", True)


def test_torchtitans_tables_hold_the_layout() -> None:
    """Tomllib reads degrees that multiply to the ranks, and the global batch."""
    asked = replace(
        BATCHED,
        framework=Framework.TORCHTITAN,
        activation_checkpointing=Checkpointing.SELECTIVE,
        optimizer="adamw_fused",
    )
    launch = make_launch(
        a_job(asked, replace(FULLY_SHARDED, data_parallel=8, context_parallel=2, tensor_parallel=4))
    )
    read = tomllib.loads(launch.files["torchtitan.toml"])

    degrees = read["parallelism"]
    assert (degrees["data_parallel_shard_degree"], degrees["context_parallel_degree"]) == (8, 2)
    assert (degrees["tensor_parallel_degree"], degrees["disable_loss_parallel"]) == (4, False)
    assert (read["training"]["global_batch_size"], read["training"]["seq_len"]) == (64, 4096)
    assert read["activation_checkpoint"] == {"mode": "selective", "selective_ac_option": "op"}
    assert read["optimizer"] == {"name": "AdamW", "implementation": "fused"}


def test_the_allocators_setting_goes_with_the_job() -> None:
    """Expandable segments are asked for in the environment."""
    launch = make_launch(a_job(replace(TRAIN, allocator=Allocator.EXPANDABLE_SEGMENTS)))

    assert launch.environment == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (replace(TRAIN, optimizer="muon"), "optimizer muon"),
        (replace(TRAIN, precision=POLICIES["fp16"]), "DeepSpeed keeps fp32 masters"),
        (replace(TRAIN, framework=Framework.TORCHTITAN), "torchtitan casts fp32 weights"),
        (
            replace(TRAIN, framework=Framework.TORCHTITAN, optimizer="sgd"),
            "torchtitan builds AdamW",
        ),
        (
            replace(TRAIN, activation_checkpointing=Checkpointing.SELECTIVE, selective_every=2),
            "one layer in every 2",
        ),
        (
            replace(TRAIN, method=Method.QLORA, lora=Lora(), fp32_norms_and_head=None),
            "prepare_model_for_kbit_training",
        ),
        (
            replace(TRAIN, kernels=Kernels.FOAK, loss=Loss.FUSED_CROSS_ENTROPY),
            "fused_ops_and_kernels has fast_loss",
        ),
        (
            replace(TRAIN, method=Method.LORA, lora=Lora(kernels=(LoraKernel.OUTPUT,))),
            "lora_o_kernel true",
        ),
        (
            replace(TRAIN, precision=POLICIES["amp_bf16"], fp32_outputs=False),
            "fp32_outputs false is a loop",
        ),
    ],
)
def test_what_no_flag_says_is_said_in_a_note(asked: TrainWorkload, said: str) -> None:
    """A layout that flags alone would not reproduce is never passed over in silence."""
    assert any(said in note for note in make_launch(a_job(asked)).notes)
