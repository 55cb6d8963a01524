"""Commands of launches: who starts what, with which words."""

import pytest

from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.command_lines import (
    join_lines,
    needs_shell,
    split_command,
)
from service.formats.launches.sources.commands import Command, read_command
from service.formats.launches.sources.containers import read_container
from service.formats.launches.trainers.target_patterns import list_pattern_names
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.importing import get_part, import_launch

_TP = ("--tp", "2")


def read(text: str) -> Command:
    """Return the program of a command line."""
    return read_command(split_command(text))


@pytest.mark.parametrize(
    ("text", "program", "arguments"),
    [
        ("vllm serve a/b --tp 2", "vllm", ("serve", "a/b", "--tp", "2")),
        ("python3 -u train.py --bf16", "train.py", ("--bf16",)),
        ("python -m vllm.entrypoints.openai.api_server", "vllm.entrypoints.openai.api_server", ()),
        ("CUDA_VISIBLE_DEVICES=0,1 nohup /opt/x/python run.py", "run.py", ()),
        ("vllm serve \\\n  a/b # with a comment", "vllm", ("serve", "a/b")),
        ("srun -N 2 torchrun --nnodes 2 a.py -x", "a.py", ("-x",)),
        ("uv run --with vllm --python=3.12 --frozen vllm serve a/b", "vllm", ("serve", "a/b")),
        ("uv run -m vllm.entrypoints.api_server --tp 2", "vllm.entrypoints.api_server", _TP),
        ("conda run -n e --no-capture-output vllm --tp 2", "vllm", _TP),
        ("sudo -E nice -n10 numactl -N 0 --membind=0 vllm --tp 2", "vllm", _TP),
        ("stdbuf -oL timeout -s TERM 1h env -u X A=b vllm --tp 2", "vllm", _TP),
        ("apptainer exec --nv -B /a:/b image.sif vllm --tp 2", "vllm", _TP),
        ("poetry run -- vllm --tp 2", "vllm", _TP),
        ("uv run --no-sources --compile-bytecode --no-build vllm --tp 2", "vllm", _TP),
        ("uv tool run --with x vllm --tp 2", "vllm", _TP),
        ("timeout --verbose 1h sudo -A --login --non-interactive vllm --tp 2", "vllm", _TP),
        ("apptainer exec --no-umask image.sif vllm --tp 2", "vllm", _TP),
        ("singularity --quiet run image.sif vllm --tp 2", "vllm", _TP),
        ("poetry --no-interaction run vllm --tp 2", "vllm", _TP),
        ("numactl --balancing taskset -c 0-7 vllm --tp 2", "vllm", _TP),
        ("taskset --cpu-list 0-7 vllm --tp 2", "vllm", _TP),
        ("uv pip install vllm", "uv", ("pip", "install", "vllm")),
        ("accelerate launch -m trl.scripts.sft --tp 2", "trl sft", _TP),
    ],
)
def test_a_program_is_found_behind_what_starts_it(
    text: str, program: str, arguments: tuple[str, ...]
) -> None:
    """Interpreters, environments and starters are no program."""
    command = read(text)

    assert (command.program, command.arguments) == (program, arguments)


@pytest.mark.parametrize(
    ("text", "starter", "name", "value"),
    [
        ("torchrun --standalone --nproc-per-node=8 t.py", "torchrun", "nproc_per_node", "8"),
        ("python -m torch.distributed.run --nnodes 2 t.py", "torchrun", "nnodes", "2"),
        (
            "accelerate launch --num_processes 4 -m m.train a.yml",
            "accelerate",
            "num_processes",
            "4",
        ),
        ("deepspeed --num_gpus 8 t.py --deepspeed d.json", "deepspeed", "num_gpus", "8"),
        ("srun -N 2 --ntasks-per-node 8 t.sh", "srun", "nodes", "2"),
    ],
)
def test_a_starter_says_how_many(text: str, starter: str, name: str, value: str) -> None:
    """Its settings are kept by its name."""
    settings = read(text).starters[starter]

    count = settings.take(name)

    assert count is not None
    assert count.value == value


@pytest.mark.parametrize("text", ["A=1", "", "echo 'a", "python -u"])
def test_what_starts_nothing_is_refused(text: str) -> None:
    """An unclosed quote and an assignment alone are no command."""
    with pytest.raises(LaunchFormatError):
        read(text)


def test_options_are_cut_as_their_program_cuts_them() -> None:
    """Values behind a blank or a sign, flags, short names, lists, negative numbers."""
    grammar = Grammar(
        flags=frozenset({"enforce_eager"}),
        short={"tp": "tensor_parallel_size"},
        many=frozenset({"sizes"}),
        positionals=("model",),
    )
    settings = read_argv(
        split_command(
            "a/b -tp 2 --enforce-eager c --len=5 --no-prefix-caching --seed -1 --sizes 1 2 4"
        ),
        grammar,
        where="command",
    )

    assert {name: one.value for name, one in settings.take_all().items()} == {
        "model": "a/b",
        "tensor_parallel_size": "2",
        "enforce_eager": True,
        "argument_1": "c",
        "len": "5",
        "prefix_caching": False,
        "seed": "-1",
        "sizes": ["1", "2", "4"],
    }


def test_the_last_of_two_wins() -> None:
    """As argparse has it."""
    settings = read_argv(["--a", "1", "--a", "2"], where="command")

    last = settings.take("a")

    assert last is not None
    assert last.value == "2"


def test_a_command_of_too_much_is_refused() -> None:
    """Ten thousand words are no command."""
    with pytest.raises(LaunchFormatError, match="at most"):
        read_argv(["a"] * 10_001, where="command")


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("trl sft --model_name_or_path a/b --learning_rate 1", "trl_sft"),
        ("python examples/sft_vlm.py --model_name_or_path a/b", "trl_sft"),
        ("python train.py --model_name_or_path a/b --learning_rate 1", "trainer"),
        ("torchrun train.py --learning_rate 1 --bf16 --max_new_tokens 5", "trainer"),
        ("python examples/kto.py --model_name_or_path a/b --learning_rate 1", "trl_kto"),
    ],
)
def test_a_program_tells_its_launcher(command: str, launcher: str) -> None:
    """Options of another program are no axolotl's and no generation's."""
    imported = import_launch(command=command)

    assert imported.launcher == launcher


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("python examples/bco.py --model_name_or_path a/b --learning_rate 1", "trains by BCO"),
        ("trl distillation --model_name_or_path a/b --learning_rate 1", "trains by distillation"),
        ("python x/nash_md.py --max_new_tokens 64", "trains by Nash-MD"),
        ("tune run lora_finetune_single_device --config llama3/8B", "torchtune's recipes"),
        ("torchrun m.py --micro-batch-size 1 --tensor-model-parallel-size 2", "no launcher"),
        ("deepspeed main.py --deepspeed --learning_rate 1 --bf16", "DeepSpeed's JSON"),
    ],
)
def test_what_has_no_model_is_refused_by_its_name(command: str, reason: str) -> None:
    """It was read as a plain Trainer, as axolotl or as a generation."""
    with pytest.raises(LaunchFormatError, match=reason):
        import_launch(command=command)


def test_a_trainers_command_has_objects_as_json() -> None:
    """Keys of an option in JSON were lost: checkpoints were never reentrant."""
    kwargs = '{"use_reentrant": true}'

    imported = import_launch(
        command="python train.py --model_name_or_path a/b --gradient_checkpointing "
        f"--learning_rate 1 --gradient_checkpointing_kwargs '{kwargs}'"
    )

    assert get_part(imported, "workload")["reentrant_checkpointing"] is True


def test_a_trainers_environment_counts() -> None:
    """The allocator's mode and the mesh were dropped, and what nobody knows is named."""
    imported = import_launch(
        command="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True PARALLELISM_CONFIG_SP_SIZE=2 "
        "WANDB_PROJECT=x SOME_SWITCH=1 torchrun --nproc-per-node 4 train.py --learning_rate 1 "
        "--model_name_or_path a/b"
    )

    assert get_part(imported, "workload")["allocator"] == "expandable_segments"
    assert get_part(imported, "layout") == {
        "data_parallel": 2,
        "context_parallel": 2,
        "context_parallel_method": "ulysses",
    }
    assert imported.ignored == ("SOME_SWITCH",)


def test_a_command_of_too_many_words_is_refused() -> None:
    """What starts a program is cut off word by word: a script's line has a bound as well."""
    with pytest.raises(LaunchFormatError, match="10,000 words at most"):
        read_command(["env"] * 20_000)


@pytest.mark.parametrize(
    "pattern", ["(" * 3_000, "[" * 100_000, "(a|b)" * 7 + "a" * 100_000], ids=len
)
def test_a_pattern_without_end_has_no_names(pattern: str) -> None:
    """Groups within groups and long patterns are left unread."""
    assert list_pattern_names(pattern) is None


def test_imports_and_versions_are_found_at_once() -> None:
    """Neither blank lines nor a tag of digits is gone through again from every character."""
    files = {"train.py": "\n" * 200_000}
    imported = import_launch(files, command="vllm serve a/b")

    assert imported.launcher == "vllm"
    assert read_container(f"a:{'1' * 200_000}", ["run"], []).version == ""


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("vllm serve a/b --layout Et|t", False),
        ("vllm serve \\\n  a/b\n  --tp 2\n", False),
        ("vllm serve a/b 2>&1 | tee log", True),
        ("vllm serve a/b > log &", True),
        ("cd /app && vllm serve a/b", True),
        ("MODEL=a/b; vllm serve x", True),
        ('export MODEL=a/b\nvllm serve "$MODEL"', True),
        ("cd /app&&vllm serve a/b", True),
        ("cd /app;vllm serve a/b", True),
        ("( vllm serve a/b )", True),
        ("vllm serve a/b |& tee log", True),
        ("srun bash -euo pipefail -c 'vllm serve a/b'", True),
        ("vllm serve a/b --name 'a; b && c'", False),
    ],
)
def test_a_pasted_text_is_a_command_or_a_script(text: str, needs: bool) -> None:  # noqa: FBT001
    """Lists, pipes, files and variables are a shell's; an option at a line's start goes on."""
    result = needs_shell(text)

    assert result is needs


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m/x # the model\n  --tp 2",
        "vllm serve m/x \\  # issue #4, a#b\r\n  --tp 2",
        "vllm serve m/x\n\n  # it's two\n  # of them\n  --tp 2 # last",
    ],
)
def test_an_option_after_a_comment_goes_on(text: str) -> None:
    """It was joined into the comment, or became a command of its own."""
    tokens = split_command(text)

    assert tokens == ("vllm", "serve", "m/x", "--tp", "2")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("--name a#b '#c' --tp 2", ("--name", "a#b", "#c", "--tp", "2")),
        ("""a "" 'b c'"d \\" \\e" f\\ g""", ("a", "", 'b cd " \\e', "f g")),
        ("a 'b #c' \\\n  --d", ("a", "b #c", "--d")),
    ],
)
def test_words_are_cut_as_a_shell_cuts_them(text: str, tokens: tuple[str, ...]) -> None:
    """A comment begins at a word's beginning alone, outside of quotes."""
    assert split_command(text) == tokens


def test_lists_of_a_pasted_document_are_no_options() -> None:
    """A here-document keeps its lines."""
    text = "cat > c.yaml <<EOF\nmodules:\n  - q_proj # the first\n  - v_proj\nEOF\nrun c.yaml"

    assert join_lines(text) == text


@pytest.mark.parametrize("text", [" #", "\n ", " #\n", "\\ ", "a", "'"], ids=repr)
def test_hostile_commands_are_read_in_one_pass(text: str) -> None:
    """None of these is gone through again from every character."""
    assert len(split_command((text * 131_072)[:131_072])) <= 1


def test_a_command_of_too_many_characters_is_refused() -> None:
    """A script of that length is a file."""
    with pytest.raises(LaunchFormatError, match="131,072 characters at most, not 131,073"):
        split_command("a" * 131_073)


def test_uvx_says_the_release() -> None:
    """What stands behind the program's name is its version."""
    command = read("uvx vllm@0.9.1 serve a/b")

    assert (command.program, command.version) == ("vllm", "0.9.1")
