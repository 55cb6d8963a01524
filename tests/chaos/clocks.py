"""Clocks of hosts that jump.

Time namespaces move no wall clock (time_namespaces(7)), so each process of a host asks a library of
ours, which adds what a file of that host says. Probes ask the real one: they are not of the host.
"""

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_NANOSECONDS = 10**9
_OFFSET = struct.Struct("q")
LONGEST_JUMP_S = 3600.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall clock of one host."""

    file: Path
    library: Path

    def set(self, offset_s: float) -> None:
        """Move it this far from the real one."""
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, _OFFSET.pack(round(offset_s * _NANOSECONDS)), 0)
        finally:
            os.close(descriptor)

    def list_variables(self) -> Mapping[str, str]:
        """Return the environment of the programs whose clock it is."""
        return {"LD_PRELOAD": str(self.library), "CHAOS_CLOCK": str(self.file)}


def make_clocks(folder: Path, names: tuple[str, ...]) -> Mapping[str, Clock]:
    """Make a clock for each name; none without a compiler of C."""
    compiler = shutil.which("cc")
    if compiler is None:
        return {}
    library = folder / "clock.so"
    options = ("-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(_SOURCE))
    subprocess.run((compiler, *options), check=True)
    clocks = {name: Clock(folder / f"{name}.clock", library) for name in names}
    for clock in clocks.values():
        clock.set(0.0)
    return clocks


def draw_jump_s(dice: random.Random) -> float:
    """Return a jump: of seconds as often as of up to an hour, forth and back."""
    longest_s = dice.choice((5.0, LONGEST_JUMP_S))
    return dice.uniform(-longest_s, longest_s)
