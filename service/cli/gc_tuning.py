"""Tuning of garbage collector and thread switches for short pauses."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_S = 0.0005
"""How long a thread that computes keeps the interpreter from the event loop; Python's own 5 ms are
ten answers.
"""
THRESHOLDS = (20_000, 10, 10)
"""An answer makes some hundred objects that all die with it: Python's own 700 look for cycles among
them at every answer.
"""


def shorten_pauses() -> None:
    """Freeze all existing objects and collect garbage less often.

    To be called once all that stays is loaded. Measured: a full collection looks at 190,000 objects
    of modules and the catalogue, and takes 95 ms in which nobody is answered; of 3,000 answers to a
    mix of questions 28 met one. Behind the freeze the longest took 9 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Collect garbage as rarely as a server does.

    Python's own thresholds take 30% of a search, which keeps nearly all that it makes.
    """
    usual = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
