"""Where a traced run made each storage: the lines of Python and the module that it was in."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

import worker
from worker.probes.trace.ledger import Ledger

Calls = tuple[tuple[CodeType, int], ...]
"""Code and the place in it, innermost first; the same calls are one value, however often they are made."""
_OURS = str(Path(worker.__file__).parent)
_LOOKING_ON = ("/torch/_dynamo/", "/torch/_compile.py")
"""What torch wraps a dispatch mode in: it is there because somebody watches."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a storage was made; ``module`` is the innermost one that ran, by its name in the model."""

    calls: Calls
    module: str


@dataclass(slots=True)
class TellingLedger(Ledger):
    """A ledger that also writes down where each storage is made, which takes some microseconds for each."""

    origins: list[Origin] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    _known: dict[Calls, Calls] = field(default_factory=dict)

    def make(self, num_bytes: int, operator: str, shape: tuple[int, ...], dtype: str) -> int:
        """Write down a new storage and where it is made, and return its place."""
        calls = _calls(sys._getframe(1))  # noqa: SLF001 - the only way to the frames that does not build them all
        self.origins.append(Origin(self._known.setdefault(calls, calls), self.running[-1] if self.running else ""))
        return Ledger.make(self, num_bytes, operator, shape, dtype)

    def name_modules(self, model: nn.Module) -> None:
        """Know the modules of a model by their names."""
        self.names = {id(module): name for name, module in model.named_modules()}


@contextmanager
def following_modules(ledger: TellingLedger) -> Iterator[None]:
    """Keep ``running`` as modules are entered and left, also by what a checkpoint raises once it has computed enough."""

    def enter(module: nn.Module, _args: object) -> None:
        ledger.running.append(ledger.names.get(id(module), ""))

    def leave(_module: nn.Module, _args: object, _output: object) -> None:
        ledger.running.pop()

    hooks: list[Any] = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@cache
def lines_of(calls: Calls) -> tuple[tuple[str, int, str], ...]:
    """Return file, line and function of calls; a file by its path below where Python found it, which says nothing of a host."""
    return tuple((_below(code.co_filename), _line(code, place), code.co_qualname) for code, place in calls)


def _calls(frame: FrameType | None) -> Calls:
    """Return the calls below the probe's own: not what watches them, nor what the probe was started by."""
    found: list[tuple[CodeType, int]] = []
    below = 0
    while frame is not None:
        if _is_ours(frame.f_code.co_filename):
            below = len(found)
        else:
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found[:below])


@cache
def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS) or any(part in filename for part in _LOOKING_ON)


def _line(code: CodeType, place: int) -> int:
    line = code.co_firstlineno
    for begin, end, number in code.co_lines():
        if begin <= place < end:
            return number or line
    return line


@cache
def _below(filename: str) -> str:
    roots = sorted((root for root in sys.path if root and filename.startswith(f"{root}/")), key=len, reverse=True)
    return filename.removeprefix(f"{roots[0]}/") if roots else Path(filename).name
