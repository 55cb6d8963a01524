"""Megatron-LM's arguments as questions."""

from typing import Any

import pytest

from service.contract.to_question.launches import LaunchQuestion
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import GPU, ask, get_layout, get_workload

SIZES = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 "
    "--max-position-embeddings 4096 --swiglu --normalization RMSNorm --disable-bias-linear "
    "--position-embedding-type rope --untie-embeddings-and-output-weights --vocab-size 32000 "
    "--attention-dropout 0 --hidden-dropout 0"
)
STEP = "--seq-length 4096 --micro-batch-size 1 --bf16"
PRETRAIN = f"torchrun --nproc-per-node 8 pretrain_gpt.py {SIZES} {STEP}"
SCRIPT = """\
#!/bin/bash
GPUS_PER_NODE=8
NUM_NODES=${SLURM_NNODES:-2}   # Change for multinode config
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
DTYPE="fp8"
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr ${MASTER_ADDR:-"localhost"}
)
MODEL_ARGS=(
    %s
    # --num-layers 96
)
TRAINING_ARGS=(--micro-batch-size 2 --global-batch-size ${WORLD_SIZE} \\
    --seq-length 4096
    --bf16)
if [[ "$DTYPE" == "fp8" ]]; then
    TRAINING_ARGS+=("--fp8-format hybrid")
else
    TRAINING_ARGS+=(--fp16)
fi
if [ -n "${WANDB_API_KEY}" ]; then
    TRAINING_ARGS+=(--wandb-project ${WANDB_PROJECT:-"Llama"})
fi
if [ ! -f "pretrain_gpt.py" ]; then
    exit 1
fi
rm -rf / $(touch never) `touch never`
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\
    ${MODEL_ARGS[@]} \\
    ${TRAINING_ARGS[@]} --save $1 \\
    --tensor-model-parallel-size 2 2>&1 | tee log.txt
"""
READ = [
    ("--tensor-model-parallel-size 2", "layout", "tensor_parallel", 2),
    ("--pipeline-model-parallel-size 4", "layout", "pipeline_parallel", 4),
    ("--context-parallel-size 2", "layout", "data_parallel", 4),
    ("--tensor-model-parallel-size 2 --sequence-parallel", "layout", "sequence_parallel", True),
    ("--use-distributed-optimizer", "layout", "zero_stage", 1),
    ("--use-megatron-fsdp", "layout", "zero_stage", 3),
    ("--use-torch-fsdp2", "layout", "sharding", "fsdp2"),
    (
        "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4",
        *("layout", "virtual_pipeline_stages", 4),
    ),
    (
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
        *("layout", "virtual_pipeline_stages", 2),
    ),
    (
        "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*16|t*16L",
        *("layout", "pipeline_model_parallel_layout", "Et*16|t*16L"),
    ),
    ("--global-batch-size 32", "workload", "gradient_accumulation_steps", 4),
    ("--step-batch-size-schedule '0:16 2B:64'", "workload", "gradient_accumulation_steps", 8),
    ("--recompute-activations", "workload", "activation_checkpointing", "selective"),
    (
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        *("workload", "activation_checkpointing", "full"),
    ),
    ("--attention-backend unfused", "workload", "attention", "eager"),
    ("--grad-reduce-in-bf16", "workload", "precision", "bf16_mixed"),
    ("--clip-grad 0", "workload", "gradient_clipping", False),
    ("--optimizer sgd --sgd-momentum 0", "workload", "optimizer", "sgd"),
    ("--optimizer sgd", "workload", "optimizer", "sgd_momentum"),
    (
        "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te",
        *("workload", "loss", "fused_cross_entropy"),
    ),
    ("--deterministic-mode", "workload", "deterministic", True),
    ("--fp8-format hybrid --fp8-recipe delayed", "workload", "float8", True),
    (
        "--optimizer-cpu-offload --use-precision-aware-optimizer",
        *("workload", "offload", {"optimizer": "cpu"}),
    ),
    (
        (
            "--use-precision-aware-optimizer --main-grads-dtype bf16 --exp-avg-dtype bf16 "
            "--exp-avg-sq-dtype bf16"
        ),
        "workload",
        "precision",
        {
            "param_dtype": "bf16",
            "grad_dtype": "bf16",
            "master_dtype": "bf16",
            "optimizer_dtype": "bf16",
        },
    ),
]
IGNORED = [
    "--cuda-graph-impl local",
    "--tp-comm-overlap",
    "--num-experts 8 --moe-token-dispatcher-type flex",
    "--recompute-granularity selective --recompute-modules core_attn layernorm",
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 4",
    "--recompute-granularity full --recompute-method block --recompute-num-layers 4",
    "--transformer-impl inference_optimized",
    "--num-distributed-optimizer-instances 2",
    "--rampup-batch-size 8 8 100",
]
IDLE = [
    "--lr 1e-4",
    "--train-iters 500000",
    "--no-load-optim",
    "--data-path 0.3 first 0.7 second",
    "--no-mmap-bin-files",
    "--wandb-project x",
    "--manual-gc",
    "--init-method-std 0.01",
]
BAD = [
    ("--fp16", "--bf16 and --fp16 are both given"),
    ("--pipeline-model-parallel-size 3", "8 processes are no multiple of the 3 GPUs"),
    ("--global-batch-size 12", "expected a multiple of 8"),
    ("--num-layers many", "--num-layers is 'many'; expected a whole number"),
    ("--num-layers 100000", "expected 512 layers at most"),
    ("--num-experts 8 --moe-layer-freq [0,1]*16", "those without experts first"),
    (
        "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 5",
        "expected a number that divides the layers of a stage: 32 layers on 2 stages",
    ),
    ("--pipeline-model-parallel-layout xyz", "expected a layout such as Ettt|tttL"),
    ("--optimizer soap", "expected one of adam, sgd"),
]


def read(flags: str) -> LaunchQuestion:
    """Return the question of a command with these flags added."""
    return ask(command=f"{PRETRAIN} {flags}", gpu=GPU)


@pytest.mark.parametrize(("flags", "part", "field", "value"), READ)
def test_an_argument_is_a_field(flags: str, part: str, field: str, value: object) -> None:
    """Each argument that counts becomes the field that means it."""
    question = read(flags)

    fields = get_layout(question) if part == "layout" else get_workload(question)
    assert fields[field] == value
    assert question.imported.ignored == ()


@pytest.mark.parametrize("flags", IGNORED)
def test_what_has_no_term_is_named(flags: str) -> None:
    """What may count and has no word is ignored by its name, with the reason."""
    imported = read(flags).imported

    assert imported.ignored
    assert f"{imported.ignored[0]} is ignored: " in imported.warnings[0]


@pytest.mark.parametrize("flags", IDLE)
def test_what_decides_nothing_is_named(flags: str) -> None:
    """Data, rates and logs have no effect on memory or time."""
    imported = read(flags).imported

    assert imported.without_effect == (flags.split(maxsplit=1)[0],)
    assert imported.ignored == ()


@pytest.mark.parametrize(("flags", "expected"), BAD)
def test_what_megatron_would_not_run_is_refused(flags: str, expected: str) -> None:
    """The refusal says what would be right."""
    with pytest.raises(LaunchFormatError) as caught:
        read(flags)

    assert expected in caught.value.message


def test_a_shell_script_is_read_and_not_run() -> None:
    """Arrays, arithmetic and decided branches are put in where they are assigned literally."""
    question = ask(files=[{"name": "train.sh", "content": SCRIPT % SIZES}], gpu=GPU)

    workload, layout = get_workload(question), get_layout(question)
    assert question.imported.launcher == "megatron"
    assert (layout["data_parallel"], layout["tensor_parallel"]) == (8, 2)
    assert layout["gpus_per_node"] == 8
    assert (workload["micro_batch_size"], workload["gradient_accumulation_steps"]) == (2, 1)
    assert (workload["precision"], workload["float8"]) == ("megatron_bf16", True)
    places = {one.key: one.where for one in question.imported.read}
    assert places["--tensor-model-parallel-size"] == "train.sh:30"
    assert question.imported.ignored == ()
    assert "--save" in question.imported.without_effect


def test_a_batch_script_says_how_many_processes_there_are() -> None:
    """Slurm's directives count where srun says nothing, also in what a shell is handed."""
    script = (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n"
        f'options=" {SIZES} \\\n {STEP} --global-batch-size 32"\n'
        'cmd="python -u pretrain_gpt.py ${options}"\n'
        'srun -l bash -c "cd /work; ${cmd}"\n'
    )

    question = ask(files=[{"name": "job.sbatch", "content": script}], gpu=GPU)

    assert get_layout(question)["data_parallel"] == 16
    assert get_workload(question)["gradient_accumulation_steps"] == 2


def test_ranks_that_nobody_says_are_asked() -> None:
    """They follow from what the request says; the steps follow from them."""
    command = f"pretrain_gpt.py {SIZES} {STEP} --global-batch-size 64"

    question = ask(command=command, gpu=GPU)
    stated = ask(command=command, gpu=GPU, layout={"data_parallel": 16})

    assert [one.field for one in question.questions] == ["layout.data_parallel"]
    assert get_workload(question)["gradient_accumulation_steps"] == 64
    assert get_workload(stated)["gradient_accumulation_steps"] == 4


def test_the_vocabulary_of_a_tokenizer_is_its_models() -> None:
    """A tokenizer of a known model has its rows; another leaves the model open."""
    sizes = SIZES.replace("--vocab-size 32000", "--tokenizer-type HuggingFaceTokenizer")
    command = f"pretrain_gpt.py {sizes} {STEP} --tokenizer-model"

    named = ask(command=f"{command} meta-llama/Llama-2-7b-hf", gpu=GPU)
    unnamed = ask(command=f"{command} /data/tokenizer", gpu=GPU)

    model: Any = named.document["model"]
    assert model["architecture"]["vocab_size"] == 32000
    assert unnamed.missing == ("model", "layout.data_parallel")
    assert "vocab-size" in unnamed.questions[0].why


def test_layers_that_are_not_gpts_leave_the_model_open() -> None:
    """No answer is made of a hybrid's sizes as if its layers were attention's."""
    question = read("--hybrid-layer-pattern M*M*")

    assert question.missing == ("model",)
    assert question.imported.ignored == ("--hybrid-layer-pattern",)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pretrain_bert.py --num-layers 24 --train-iters 9", "builds a model of its own"),
        ("serve.py --tensor-model-parallel-size 2", "no launcher is known by it"),
        ("pretrain_gpt.py --num-layers 2 --prompts x", "no launcher is known by it"),
    ],
)
def test_what_trains_no_gpt_is_refused(command: str, expected: str) -> None:
    """Other programs take the same arguments."""
    with pytest.raises(LaunchFormatError, match=expected):
        ask(command=command, gpu=GPU)


def test_a_document_of_arguments_is_read() -> None:
    """Megatron-LM's tests keep them below MODEL_ARGS, by their options."""
    content = (
        "ENV_VARS:\n  PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True\n"
        "MODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n  --num-attention-heads: 8\n"
        "  --vocab-size: 1024\n  --seq-length: 1024\n  --max-position-embeddings: 1024\n"
        "  --micro-batch-size: 4\n  --fp16: true\n  --no-mmap-bin-files: true\n"
    )

    question = ask(files=[{"name": "model_config.yaml", "content": content}], gpu=GPU)

    model: Any = question.document["model"]
    assert get_workload(question)["precision"] == "fp16_mixed"
    assert get_workload(question)["allocator"] == "expandable_segments"
    assert model["architecture"]["family"] == "gpt2"
    assert model["architecture"]["intermediate_size"] == 2048
    assert model["architecture"]["attention_dropout"] == 0.1
    assert question.imported.without_effect == ("MODEL_ARGS.--no-mmap-bin-files",)
