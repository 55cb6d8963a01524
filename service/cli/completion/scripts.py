"""Completion scripts, and the files where shells find them.

Each asks ``headroom completion`` for candidates at every key, so that it needs no change when
commands do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_BASH = """\
# Completion of headroom for bash: made by `headroom completion bash`.
_headroom() {
    local line
    local -a lines words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    mapfile -t lines < <(headroom completion candidates -- "${words[@]}" 2>/dev/null)
    if [[ "${lines[0]}" == ":files" ]]; then
        compopt -o default 2>/dev/null
        return
    fi
    for line in "${lines[@]}"; do
        COMPREPLY+=("${line%%$'\\t'*}")
    done
}
complete -F _headroom headroom
"""
_ZSH = """\
#compdef headroom
# Completion of headroom for zsh: made by `headroom completion zsh`.
_headroom() {
    local line
    local -a lines described
    lines=("${(@f)$(headroom completion candidates -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ "${lines[1]}" == ":files" ]]; then
        _files
        return
    fi
    for line in "${lines[@]}"; do
        [[ -n "$line" ]] && described+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    _describe -t headroom headroom described
}
if [[ "${funcstack[1]}" == _headroom ]]; then
    _headroom "$@"
else
    compdef _headroom headroom
fi
"""
_FISH = """\
# Completion of headroom for fish: made by `headroom completion fish`.
function __headroom_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (headroom completion candidates -- $words[2..-1] 2>/dev/null)
    if test "$lines[1]" = ":files"
        __fish_complete_path (commandline -ct)
        return
    end
    string join \\n -- $lines
end
complete -c headroom -f -a '(__headroom_candidates)'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Script of a shell, its file and what that needs."""

    script: str
    path: tuple[str, ...]
    home: tuple[str, str]
    """The variable that names the folder of ``path``, and the folder below HOME without it."""
    hint: str

    def locate(self, environ: Mapping[str, str]) -> Path:
        """Return the file that the shell of this user reads."""
        variable, below_home = self.home
        root = environ.get(variable)
        home = environ.get("HOME")
        folder = Path(root) if root else (Path(home) if home else Path.home()) / below_home
        return folder.joinpath(*self.path)


SHELLS: Mapping[str, Shell] = {
    "bash": Shell(
        script=_BASH,
        home=("XDG_DATA_HOME", ".local/share"),
        path=("bash-completion", "completions", "headroom"),
        hint="new shells have it where the package bash-completion is installed; elsewhere add "
        "`source {file}` to ~/.bashrc",
    ),
    "zsh": Shell(
        script=_ZSH,
        home=("ZDOTDIR", ""),
        path=(".zfunc", "_headroom"),
        hint="new shells have it once ~/.zshrc has `fpath+=({folder})` before `autoload -Uz "
        "compinit && compinit`",
    ),
    "fish": Shell(
        script=_FISH,
        home=("XDG_CONFIG_HOME", ".config"),
        path=("fish", "completions", "headroom.fish"),
        hint="new shells have it",
    ),
}
