"""Shell scripts, containers and manifests as launches."""

import pytest

from service.formats.launches.shell.scripts import read_script
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.importing import get_part, import_launch


def list_words(text: str) -> list[tuple[str, ...]]:
    """Return the words of the commands of a script."""
    return [command.tokens for command in read_script("run.sh", text, {}).commands]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A=2\nrun --tp $A", ("run", "--tp", "2")),
        ("A=(--x 1\n  --y '2 3')\nrun \"${A[@]}\"", ("run", "--x", "1", "--y", "2 3")),
        ("A=(--x)\nA+=(--y)\nrun ${A[*]}", ("run", "--x", "--y")),
        ("A='--x 1'\nA=\"$A --y\"\nrun $A", ("run", "--x", "1", "--y")),
        ("run --n $((2 * 4))", ("run", "--n", "8")),
        ("N=2 G=4\nrun --n $((N*G))", ("run", "--n", "8")),
        ("N=4\nrun --n $(expr 16 / $N) `expr 2 \\* 3`", ("run", "--n", "4", "6")),
        ("run $(expr 16/4) $(expr $X + 1) $(expr a : b)", ("run", *["$(expr)"] * 3)),
        ("run ${A:-3} ${B:=4} $B", ("run", "3", "4", "4")),
        ("M=a/b\nrun ${M##*/}", ("run", "b")),
        ("run --a $B", ("run", "--a", "${B}")),
        ("run \\\n  --a 1 \\\n  > log 2>&1 &", ("run", "--a", "1")),
        ("run 'a $B' \"c\\$D\"", ("run", "a $B", "c$D")),
        ('CMD="run --a 1"\neval $CMD', ("run", "--a", "1")),
        ("srun -l bash -x -c 'run 1'", ("srun", "-l", "run", "1")),
        ("srun -N 2 bash -c 'cd x; run 1'", ("srun", "-N", "2", "run", "1")),
        ("f() { run $1; }\nf 7", ("run", "7")),
        ("f() { g a; run $1 $2; }\nf 7 8", ("run", "7", "8")),
        ("f() { g() { run $2; }; g 1; }\nf 7 8", ("run", "${2}")),
        ("for i in 1; do run $i; done", ("run", "1")),
        ("run # a comment\n", ("run",)),
        ("A=1 run", ("run",)),
        ("A=8\nA=4 run\nrun ${A:-2}", ("run", "8")),
        ("A='\\1'\nrun $((A + 1))", ("run", "${sum}")),
        ("A=1\nsbatch <<EOF\n#!/bin/bash\nrun $A \\$B\nEOF\n", ("run", "1", "${B}")),
        ("read -r -d '' A <<EOF\nx \\\n --y 1\nEOF\nrun $A", ("run", "x", "--y", "1")),
    ],
)
def test_words_are_expanded_as_a_shell_does(text: str, tokens: tuple[str, ...]) -> None:
    """The last command of a script has the words that a shell would give it."""
    commands = list_words(text)

    assert commands[-1] == tokens


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('A=$1\nif [ "$A" == "" ]; then A=3; fi', "3"),
        ("B=x\nif [[ $B == x && -n $B ]]; then A=1; else A=2; fi", "1"),
        ("if [ $OUTSIDE = x ]; then A=1; else A=1; fi", "1"),
        ("A=5\nif [ $OUTSIDE = x ]; then A=1; fi", "${A}"),
        ("case b in a) A=1;; b|c) A=2;; esac", "2"),
        ("for i in 1 2; do A=$i; done", "${A}"),
        ("[ -z $1 ] && A=4", "4"),
        ('A=(2)\nif [ -n "${OUTSIDE}" ]; then A+=(3); fi', "2"),
        ("[ 2 -gt 1 ] || A=4\nA=${A:-0}", "0"),
        ("if [[ a == a && b == b || c == d ]]; then A=1; else A=2; fi", "1"),
        ("if [ ! ! a = b ]; then A=1; else A=2; fi", "2"),
    ],
)
def test_a_condition_decides_where_it_is_known(text: str, value: str) -> None:
    """What two branches assign differently is not known afterwards."""
    commands = list_words(f"{text}\nrun $A")

    assert commands[-1] == ("run", value)


@pytest.mark.parametrize(
    "text", ["run 'a", "if x; then", "f( ) )", "run $(a", "case x in", "a &&", "f()"]
)
def test_what_is_no_script_is_refused(text: str) -> None:
    """The refusal names the line."""
    with pytest.raises(LaunchFormatError, match=r"run\.sh:\d+: is no shell script"):
        list_words(text)


@pytest.mark.parametrize(
    "text",
    [
        "A=aaaaaaaaaa\n" + "A=$A$A$A$A\n" * 40,
        "f() { f; }\nf",
        "{ " * 100,
        "run\n" * 3_000,
        f"A={'a' * 199_000}\nB={'$A' * 20_000}",
        f"A={'a' * 199_000}\nrun {'$A' * 20_000}",
        "A=('' '')\n" + 'A=("${A[@]}" "${A[@]}")\n' * 40,
        f"A={'a' * 100_000}\nrun ${{A%%*x}}",
        f"f() {{ case $1 in {('a' * 200 + ') ;; ') * 100} esac; }}\n" + "f b\n" * 900,
        f"run {'${A:-' * 200}x{'}' * 200}",
        f"f() {{ {'{ ' * 20} f; {'} ; ' * 20} }}\nf",
        f"{'f() ' * 2_000}a",
        "1|1\n" * 12_000,
        '""' * 60_000,
        "$a" * 101_000,
    ],
    ids=len,
)
def test_a_script_that_grows_is_refused(text: str) -> None:
    """Variables that double, functions that call themselves, blocks in blocks and signs have
    bounds.
    """
    with pytest.raises(LaunchFormatError):
        list_words(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (f"{'! ' * 5_000}run", ("run",)),
        (f"[ {'! ' * 5_000} a ] && run", ("run",)),
        (f"[ {'a -o ' * 5_000} a ] && run", ("run",)),
        (f"A=(1)\nrun ${{A[{'9' * 5_000}]:-0}}", ("run", "0")),
        (f"[ {'9' * 5_000} -gt 1 ]\nrun", ("run",)),
        (f"A='{'B ' * 30_000}'\nB='{'A ' * 30_000}'\nrun $((A + B))", ("run", "${sum}")),
    ],
    ids=len,
)
def test_a_long_script_is_read(text: str, tokens: tuple[str, ...]) -> None:
    """What is long, but not nested, is read or left open."""
    assert list_words(text)[-1] == tokens


TRAIN = """#!/bin/bash
#SBATCH --nodes=2
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=4
MODEL=meta-llama/Llama-3.1-8B
pip install -r requirements.txt
srun torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $SLURM_NNODES --node_rank $SLURM_PROCID \\
    train.py --model_name_or_path $MODEL --per_device_train_batch_size 2 --bf16 \\
    --learning_rate 1e-5 --output_dir $OUTPUT --max_length $LENGTH --logging_dir $HOME/logs
"""


def test_a_script_asks_the_question_of_its_launch() -> None:
    """Variables are those that it assigns and Slurm's; what comes from outside is named."""
    imported = import_launch({"train.sh": TRAIN})

    assert imported.question["model"] == "meta-llama/Llama-3.1-8B"
    assert get_part(imported, "layout")["data_parallel"] == 8
    assert get_part(imported, "workload")["micro_batch_size"] == 2
    assert imported.ignored == ("--output_dir", "--max_length")
    assert "--logging_dir" in imported.without_effect
    assert any(read.where == "train.sh:7" for read in imported.read)


def test_several_launches_are_refused_with_their_lines() -> None:
    """Which of them is meant, only its author knows."""
    text = "vllm serve a/b --port 1\nvllm serve c/d --port 2\n"

    with pytest.raises(
        LaunchFormatError, match=r"2 launches: vllm serve a/b \(s\.sh:1\), vllm serve c/d"
    ):
        import_launch({"s.sh": text})


def test_a_written_file_is_read() -> None:
    """A here-document is the file that the launch names."""
    text = (
        "STAGE=3\ncat > ds.json << EOF\n"
        '{"zero_optimization": {"stage": $STAGE}, "bf16": {"enabled": true}}\nEOF\n'
        "deepspeed --num_gpus 2 train.py --deepspeed ds.json --model_name_or_path a/b "
        "--max_length 64 --per_device_train_batch_size 1\n"
    )

    imported = import_launch({"train.sh": text})

    assert get_part(imported, "layout")["zero_stage"] == 3


def test_a_typed_script_has_its_arguments() -> None:
    """``bash serve.sh 4`` gives the script its first argument."""
    imported = import_launch(
        {"serve.sh": "vllm serve a/b --tensor-parallel-size $1\n"}, command="bash serve.sh 4"
    )

    assert get_part(imported, "layout")["tensor_parallel"] == 4


OFFICIAL = """docker run --rm -it --gpus all -p 8000:8000 -v a:b --ipc=host
vllm/vllm-openai:v0.11.0 --model a/b --tensor-parallel-size 2"""
MIRRORED = """sudo docker run --runtime nvidia --entrypoint vllm registry:5000/x/vllm:0.11.0-cu129
serve a/b -tp 2"""


@pytest.mark.parametrize("command", [OFFICIAL, MIRRORED])
def test_a_container_serves_with_the_release_of_its_tag(command: str) -> None:
    """The image's entry point is vLLM's server; its tag tells the release."""
    imported = import_launch(command=command)

    assert imported.question["model"] == "a/b"
    assert get_part(imported, "workload")["engine_version"] == "0.11.0"
    assert get_part(imported, "layout")["tensor_parallel"] == 2
    assert imported.versions["vllm"] == "0.11.0"
