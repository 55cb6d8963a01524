"""Origin of each storage of a traced run.

It is the lines of Python and the module in which the storage was made.
"""

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

from worker.probes.trace.ledger import Ledger

Calls = tuple[tuple[CodeType, int], ...]
"""Code and the position in it, innermost first.

The same calls are one value, however often they are made.
"""
_WORKER_ROOT = str(Path(__file__).parents[2])
_TORCH_WRAPPERS = ("/torch/_dynamo/", "/torch/_compile.py")
"""Wrappers of torch around a dispatch mode, which exist only because there is one."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a storage.

    ``module`` is the innermost one that ran, by its name in the model.
    """

    calls: Calls
    module: str


@dataclass(slots=True)
class OriginLedger(Ledger):
    """A ledger that also records the origin of each storage.

    That takes some microseconds for each.
    """

    origins: list[Origin] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    _interned_calls: dict[Calls, Calls] = field(default_factory=dict)

    def allocate(self, num_bytes: int, operator: str, shape: tuple[int, ...], dtype: str) -> int:
        """Record a new storage with its origin and return its position."""
        calls = _collect_calls(sys._getframe(1))  # noqa: SLF001 - the only way to the frames that does not build them all
        self.origins.append(
            Origin(
                self._interned_calls.setdefault(calls, calls),
                self.running[-1] if self.running else "",
            ),
        )
        return Ledger.allocate(self, num_bytes, operator, shape, dtype)

    def name_modules(self, model: nn.Module) -> None:
        """Record the names of a model's modules."""
        self.names = {id(module): name for name, module in model.named_modules()}


@contextmanager
def track_modules(ledger: OriginLedger) -> Iterator[None]:
    """Maintain ``running`` as modules are entered and left.

    They are also left by what a checkpoint raises once it has computed enough.
    """

    def enter(module: nn.Module, _args: object) -> None:
        ledger.running.append(ledger.names.get(id(module), ""))

    def leave(_module: nn.Module, _args: object, _output: object) -> None:
        ledger.running.pop()

    hooks: list[Any] = [
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@cache
def resolve_lines(calls: Calls) -> tuple[tuple[str, int, str], ...]:
    """Return file, line and function of calls.

    A file is its path below where Python imports it from, which contains nothing of a host.
    """
    return tuple(
        (_shorten_path(code.co_filename), _find_line(code, place), code.co_qualname)
        for code, place in calls
    )


def _collect_calls(frame: FrameType | None) -> Calls:
    """Return the calls below the probe's own.

    Neither the recorder's calls nor those that started the probe are among them.
    """
    calls: list[tuple[CodeType, int]] = []
    num_below = 0
    while frame is not None:
        if _is_internal(frame.f_code.co_filename):
            num_below = len(calls)
        else:
            calls.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(calls[:num_below])


@cache
def _is_internal(filename: str) -> bool:
    return filename.startswith(_WORKER_ROOT) or any(part in filename for part in _TORCH_WRAPPERS)


def _find_line(code: CodeType, place: int) -> int:
    line = code.co_firstlineno
    for begin, end, number in code.co_lines():
        if begin <= place < end:
            return number or line
    return line


@cache
def _shorten_path(filename: str) -> str:
    roots = sorted(
        (root for root in sys.path if root and filename.startswith(f"{root}/")),
        key=len,
        reverse=True,
    )
    return filename.removeprefix(f"{roots[0]}/") if roots else Path(filename).name
