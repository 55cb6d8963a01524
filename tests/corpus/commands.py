"""Commands that a file documents: docstrings and comments of Python, pages of engines."""

import re

_STARTS = re.compile(
    r"^[\s#]*\$?\s*((?:CUDA_VISIBLE_DEVICES=\S+ )?"
    r"(?:python|accelerate launch|torchrun|trl|deepspeed|uv run)\s+\S.*)$"
)
_SERVES = re.compile(
    r"^[\s#]*\$?\s*((?:[A-Z_]+=\S+ )*(?:(?:vllm|sglang) serve|trtllm-serve|llama-server|docker run"
    r"|python3? -m (?:vllm|sglang)\.\S+)\s+\S.*)$"
)


def list_documented_commands(text: str) -> list[str]:
    """Return commands of a Python file in their order, continued lines joined."""
    return _list_commands(text, _STARTS)


def list_served_commands(text: str) -> list[str]:
    """Return commands of a page that start engines, in their order."""
    return _list_commands(text, _SERVES)


def _list_commands(text: str, starts: re.Pattern[str]) -> list[str]:
    commands: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        match = starts.match(line)
        if match is None:
            continue
        parts = [match[1]]
        while parts[-1].rstrip().endswith("\\"):
            parts[-1] = parts[-1].rstrip()[:-1]
            parts.append(next(lines, "").strip().lstrip("# "))
        commands.append(" ".join(part.strip() for part in parts))
    return [command for command in commands if "--" in command]
