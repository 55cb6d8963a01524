"""The reading of a launch, for people, on stderr."""

import sys
from typing import Any

from service.terminal.controls import spell_controls

_MAX_SHOWN = 12
_NO_GPU = "no launch says which GPU it runs on"


def show_launch(answer: dict[str, Any]) -> None:
    """Say what became of a launch's settings; stdout is the answer's."""
    versions = ", ".join(f"{name} {version}" for name, version in answer["versions"].items())
    counts = f"{len(answer['read'])} settings count, {len(answer['without_effect'])} have no effect"
    lines = [f"read as {answer['launcher']} ({versions}): {counts}"]
    if answer["ignored"]:
        lines.append(f"  ignored: {_join(answer['ignored'])}")
    for question in answer["questions"]:
        if question["why"] == _NO_GPU:
            continue  # Which GPU a flag says: a command asks for its own.
        choices = ", ".join(str(choice) for choice in question["choices"])
        ending = "" if question["field"] in answer["missing"] else "; the first is taken"
        hint = f" (one of {choices}{ending})" if choices else ""
        lines.append(f"  open: {question['field']}: {question['why']}{hint}")
    lines += [f"  {warning}" for warning in answer["warnings"]]
    sys.stderr.write(spell_controls("\n".join(lines)) + "\n")


def _join(names: list[str]) -> str:
    hidden = len(names) - _MAX_SHOWN
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {hidden} more" if hidden > 0 else "")
