"""Programs that run another one as it is, on the same GPUs.

What they are told says where that one runs and as whom, not what it takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """Words of a wrapper before the program that it runs.

    One of ``commands`` comes first or among the options where there are any; ``flags`` are options
    without a value, ``positionals`` counts the words between the options and the program.
    """

    commands: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    positionals: int = 0


_UV_FLAGS = frozenset(
    {
        *("active", "all-extras", "all-groups", "all-packages", "exact", "frozen", "isolated"),
        *("locked", "managed-python", "native-tls", "no-cache", "no-config", "no-default-groups"),
        *("no-dev", "no-editable", "no-env-file", "no-index", "no-managed-python", "no-progress"),
        *("no-project", "no-sync", "offline", "only-dev", "q", "quiet", "reinstall", "s", "script"),
        *("U", "upgrade", "v", "verbose", "n", "refresh", "dev", "no-build-isolation"),
        *("no-sources", "compile-bytecode", "no-compile-bytecode", "no-build", "no-binary"),
        *("no-active", "gui-script", "no-python-downloads", "allow-python-downloads"),
        *("system-certs", "preview", "no-preview"),
    }
)
_SUDO_FLAGS = frozenset(
    {
        *("A", "askpass", "B", "bell", "b", "background", "E", "preserve-env", "H", "set-home"),
        *("i", "login", "k", "reset-timestamp", "N", "no-update", "n", "non-interactive"),
        *("P", "preserve-groups", "S", "stdin", "s", "shell"),
    }
)
_POETRY_FLAGS = frozenset(
    {
        *("q", "quiet", "v", "verbose", "n", "no-interaction", "ansi", "no-ansi", "no-plugins"),
        "no-cache",
    }
)
_CONDA = Wrapper(
    commands=frozenset({"run"}),
    flags=frozenset({"no-capture-output", "live-stream", "v", "verbose", "dev", "debug-wrapper"}),
)
_APPTAINER = Wrapper(
    commands=frozenset({"exec", "run"}),
    flags=frozenset(
        {
            *("q", "quiet", "s", "silent", "d", "debug", "v", "verbose", "nocolor", "no-umask"),
            *("no-pid", "no-https", "keep-privs", "allow-setuid", "disable-cache", "sharens"),
            *("unsquash", "uts", "oom-kill-disable", "docker-login", "passphrase"),
            *("nv", "nvccli", "rocm", "cleanenv", "e", "contain", "c", "containall", "C"),
            *("writable-tmpfs", "writable", "w", "no-home", "fakeroot", "f", "userns", "u"),
            *("no-init", "no-privs", "ipc", "i", "net", "n", "pid", "p", "compat", "no-eval"),
        }
    ),
    positionals=1,
)
_WRAPPERS: Mapping[str, Wrapper] = {
    "sudo": Wrapper(flags=_SUDO_FLAGS),
    "env": Wrapper(flags=frozenset({"i", "ignore-environment", "0", "v"})),
    "nice": Wrapper(),
    "ionice": Wrapper(flags=frozenset({"t"})),
    "numactl": Wrapper(flags=frozenset({"localalloc", "l", "all", "a", "balancing", "b"})),
    "taskset": Wrapper(flags=frozenset({"c", "cpu-list", "a", "all-tasks"}), positionals=1),
    "stdbuf": Wrapper(),
    "setsid": Wrapper(flags=frozenset({"f", "w", "c", "fork", "wait", "ctty"})),
    "timeout": Wrapper(
        flags=frozenset({"f", "foreground", "p", "preserve-status", "v", "verbose"}), positionals=1
    ),
    "uv": Wrapper(commands=frozenset({"run"}), flags=_UV_FLAGS),
    "uvx": Wrapper(flags=_UV_FLAGS),
    "pipx": Wrapper(commands=frozenset({"run"}), flags=frozenset({"verbose", "no-cache"})),
    "poetry": Wrapper(commands=frozenset({"run"}), flags=_POETRY_FLAGS),
    "pdm": Wrapper(commands=frozenset({"run"}), flags=frozenset({"s", "v", "no-venv"})),
    "pixi": Wrapper(commands=frozenset({"run"}), flags=frozenset({"frozen", "locked", "q", "v"})),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _CONDA),
    **dict.fromkeys(("singularity", "apptainer"), _APPTAINER),
}
"""uv 0.8 (``crates/uv-cli/src/lib.rs``), Apptainer 1.4 (``cmd/internal/cli``), and the manuals."""
_UV_TOOL = ("uv", "tool", "run")
_MODULES = frozenset({"-m", "--module"})


def skip_wrapper(name: str, tokens: Sequence[str]) -> list[str] | None:
    """Return what a wrapper runs, None where it is none.

    A module that ``uv run -m`` names comes after ``python -m``; ``uv tool run`` is ``uvx``.
    """
    if (name, *tokens[:2]) == _UV_TOOL:
        name, tokens = "uvx", tokens[2:]
    wrapper = _WRAPPERS.get(name)
    if wrapper is None:
        return None
    index, positionals, waits = 0, wrapper.positionals, bool(wrapper.commands)
    while index < len(tokens):
        word = tokens[index]
        if word in _MODULES and name == "uv":
            return ["python", "-m", *tokens[index + 1 :]]
        if word == "--":
            return list(tokens[index + 1 + positionals :])
        if word.startswith("-"):
            text, equals, _ = word.lstrip("-").partition("=")
            takes_value = not equals and text not in wrapper.flags and not _is_joined(word)
            index += 2 if takes_value else 1
        elif waits and word in wrapper.commands:
            waits = False
            index += 1
        elif waits:
            return None
        elif positionals:
            positionals -= 1
            index += 1
        else:
            break
    return list(tokens[index:])


def _is_joined(word: str) -> bool:
    """Return whether options, or one and its value, share a word."""
    return not word.startswith("--") and len(word) > len("-n")
