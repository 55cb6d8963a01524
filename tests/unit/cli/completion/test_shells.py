"""Completion in the shells themselves, where they are installed, and where its files go."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.__main__ import main
from service.cli.completion.scripts import SHELLS

REPOSITORY = Path(__file__).parents[4]
BASH = """
source {script}
COMP_WORDS=(headroom fit gpt2 --gpu "H200-S"); COMP_CWORD=4; _headroom
printf '%s\\n' "${{COMPREPLY[@]}}"
COMP_WORDS=(headroom fam); COMP_CWORD=1; _headroom
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# What zsh would show is handed to `_describe`, which works inside of its line editor only.
ZSH = """
compdef() {{ : }}
_describe() {{ print -rl -- ${{${{(P)4}}%%:*}} }}
source {script}
words=(headroom fit gpt2 --gpu "H200-S"); CURRENT=5; _headroom
words=(headroom fam); CURRENT=2; _headroom
"""
FISH = """
source {script}
for line in 'headroom fit gpt2 --gpu H200-S' 'headroom fam'
    complete -C $line | string split -f1 \\t
end
"""
PROGRAMS = {"bash": (BASH, ("--norc",)), "zsh": (ZSH, ("-f",)), "fish": (FISH, ("--no-config",))}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(shell: str, tmp_path: Path) -> None:
    """The script is read by the shell and offers what the command says."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    headroom = tmp_path / "headroom"
    headroom.write_text(f'#!/bin/sh\nexec {sys.executable} -m service "$@"\n')
    headroom.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(SHELLS[shell].script)
    text, flags = PROGRAMS[shell]

    ran = subprocess.run(
        [program, *flags, "-c", text.format(script=script)],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ran.stdout.split() == ["H200-SXM5-141GB", "families"], ran.stderr


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".local/share/bash-completion/completions/headroom"),
        ("zsh", ".zfunc/_headroom"),
        ("fish", ".config/fish/completions/headroom.fish"),
    ],
)
def test_it_is_installed_where_the_shell_looks(
    shell: str,
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the user's own folders; the shell is the one that SHELL names, unless one is said."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(variable, raising=False)

    assert main(["completion", "--install"]) == 0
    assert (tmp_path / file).read_text() == SHELLS[shell].script
    assert str(tmp_path / file) in capsys.readouterr().out
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == SHELLS[shell].script


def test_an_unknown_shell_is_a_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What SHELL names may be no shell that is known."""
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    assert main(["completion"]) == 2
    assert "which shell? headroom completion bash|zsh|fish" in capsys.readouterr().err
