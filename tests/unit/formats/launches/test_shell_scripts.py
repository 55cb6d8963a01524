"""Shell scripts, read and never run."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.formats.launches.shell.script import read_script
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import import_launch
from tests.unit.formats.launches.test_megatron import SCRIPT, SIZES

COMMANDS = [
    ("A=1; echo $A ${A} '${A}' \"$A b\" \\$A", "echo 1 1 ${A} 1 b $A"),
    ("A='x y'; echo $A \"$A\"", "echo x y x y"),
    ("A=(1 2); A+=(3); echo ${A[@]} ${A[0]} ${A}", "echo 1 2 3 1 1 2 3"),
    ('echo ${A:-${B:-2}} ${C:-"a b"} ${D}', "echo 2 a b ${D}"),
    ("A=8; B=2; echo $((A*$B)) $(($A / 3)) $((A ** B))", "echo 16 2 $((A ** B))"),
    ("echo $(date) `date` $1 $@", "echo $(date) `date` $1 $@"),
    ("A=x # y\necho $A#z # c", "echo x#z"),
    ("echo a \\\n  b 2>&1 | tee log", "echo a b"),
    ('if [[ "$A" == "b" ]]; then echo 1; else echo 2; fi', "echo 2"),
    ('A=b; if [ $A = b ] && [ -z "$C" ]; then echo 1; else echo 2; fi', "echo 1"),
    ("A=7; if [ $A -gt 8 ]; then echo 1; elif (( A )); then echo 2; else echo 3; fi", "echo 3"),
    ('A=8B; case $A in\n 7B|"8B") echo 1 ;;\n *) echo 2 ;;\nesac', "echo 1"),
    ("for A in x y; do echo $A; done", "echo x"),
    ("while read A; do A=1; done; echo z$A", "echo z$A"),
    ('[ -z "$A" ] && A=1; echo $A', "echo 1"),
    ('true || A=1; test -n "$A" || A=2; echo $A', "echo 2"),
    ("run() {\n local A=1\n echo $A\n}\nrun", "echo 1"),
    ('eval "echo a b"', "echo a b"),
    ('A=1; bash -c "echo $A"', "echo 1"),
    ("A=1; sbatch <<EOF\necho $A \\$B\nEOF\n", "echo 1 $B"),
    ("cat <<EOF > file\necho 1\nEOF\necho 2", "echo 2"),
    ("A=Llama; echo ${A,,} ${A^^} ${A%a}", "echo llama LLAMA ${A%a}"),
    ("export A=1 B=2; echo $A$B", "echo 12"),
]
BOMBS = [
    "A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 40 + "echo $A",
    "A=(x x x x x x x x)\n" + "A=(${A[@]} ${A[@]})\n" * 30,
    "echo " + "${A:-" * 90 + "}" * 90,
    "if true; then\n" * 70,
    "eval " * 3 + "'" + "eval " * 200 + "x'",
    "A='eval $A'\neval $A",
    "echo " + "$(" * 200_000,
    "echo ${" + "{" * 400_000,
    "A=$((9**9**9**9))\necho $((" + "9*" * 90 + "9))",
    "echo '",
    'echo "${A',
]
PIECES = st.sampled_from(
    [
        *("A=", "(", ")", "$A", "${A[@]}", "${A:-", "}", '"', "'", "\\", "\n", " ", ";", ";;"),
        *("if ", "[ ", " ]", "then ", "else ", "fi", "case ", " in ", "esac", "for A in ", "do "),
        *(
            "done",
            "<<E\n",
            "E\n",
            "$((",
            "))",
            "`",
            "|",
            "&&",
            "||",
            "{",
            "pretrain_gpt.py ",
            "-c ",
        ),
        *(
            "bash ",
            "eval ",
            "--num-layers ",
            "--hidden-size ",
            "8",
            "#SBATCH --nodes=",
            "torchrun ",
        ),
    ]
)


@pytest.mark.parametrize(("script", "words"), COMMANDS)
def test_what_is_assigned_literally_is_put_in(script: str, words: str) -> None:
    """A command has the words that a shell would make of it, but for what only a run tells."""
    commands = read_script("run.sh", script).commands

    lines = [" ".join(word.text for word in command) for command in commands]
    assert [line for line in lines if line.startswith("echo ")] == [words]


def test_nothing_is_run(tmp_path: Path) -> None:
    """Substitutions and redirections leave no trace."""
    mark = tmp_path / "mark"

    read_script("run.sh", f"A=$(touch {mark}) `touch {mark}`\ntouch {mark}; eval touch {mark}\n")

    assert not mark.exists()


@pytest.mark.parametrize("script", BOMBS)
def test_a_bomb_is_refused_or_read_small(script: str) -> None:
    """Text that grows, nests or never ends is refused by its place, or stays as it was written."""
    with suppress(LaunchFormatError):
        commands = read_script("run.sh", script).commands

        assert sum(len(word.text) for command in commands for word in command) < 4_000_000


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(PIECES, max_size=40))
@example(pieces=["case ", "$A", " in ", "\n", ")", ";;", "esac"])
def test_any_script_is_read_or_refused(pieces: list[str]) -> None:
    """No other error comes out of any text."""
    with suppress(LaunchFormatError):
        import_launch({"run.sh": "".join(pieces)}, launcher=Launcher.MEGATRON)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_damaged_script_is_read_or_refused(data: st.DataObject) -> None:
    """Of a real script, any part may be missing, twice there, or something else."""
    script = SCRIPT % SIZES
    start = data.draw(st.integers(0, len(script)))
    end = data.draw(st.integers(start, min(len(script), start + 60)))
    piece = data.draw(st.one_of(PIECES, st.text(max_size=8), st.just(script[start:end] * 2)))

    with suppress(LaunchFormatError):
        import_launch({"run.sh": script[:start] + piece + script[end:]}, launcher=Launcher.MEGATRON)
