"""Questions of launches, read without a server."""

from collections.abc import Mapping
from typing import Any

from service.formats.launches.read_launch import read_launch
from service.formats.launches.sources.command_lines import split_command
from service.formats.launches.values.launch import (
    Checkpoint,
    ImportedLaunch,
    Launch,
    Launcher,
    LaunchFile,
)

LLAMA = Checkpoint(model_type="llama", dtype="bfloat16")


def import_launch(
    files: Mapping[str, str] | None = None,
    command: str = "",
    arguments: Mapping[str, object] | None = None,
    launcher: Launcher | None = None,
) -> ImportedLaunch:
    """Return the question of files, a command or arguments; every model is a Llama in bf16."""
    return read_launch(
        Launch(
            launcher=launcher,
            files=tuple(
                LaunchFile(name=name, content=text) for name, text in (files or {}).items()
            ),
            command=split_command(command) if command else (),
            arguments=arguments or {},
            find_checkpoint=lambda _name: LLAMA,
        )
    )


def get_part(imported: ImportedLaunch, part: str) -> dict[str, Any]:
    """Return the workload or layout of a question."""
    value = imported.question[part]
    assert isinstance(value, dict)
    return value
