"""Commands that a Python file documents, as its docstrings and comments have them."""

import re

_STARTS = re.compile(
    r"^[\s#]*\$?\s*((?:CUDA_VISIBLE_DEVICES=\S+ )?"
    r"(?:python|accelerate launch|torchrun|trl|deepspeed|uv run)\s+\S.*)$"
)


def list_documented_commands(text: str) -> list[str]:
    """Return commands in their order, continued lines joined."""
    commands: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        match = _STARTS.match(line)
        if match is None:
            continue
        parts = [match[1]]
        while parts[-1].rstrip().endswith("\\"):
            parts[-1] = parts[-1].rstrip()[:-1]
            parts.append(next(lines, "").strip().lstrip("# "))
        commands.append(" ".join(part.strip() for part in parts))
    return [command for command in commands if "--" in command]
