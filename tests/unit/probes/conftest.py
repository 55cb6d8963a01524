"""One thread: tiny products gain nothing from more, and on a busy machine each waits for the
slowest.
"""

import gc
import sys
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _freeze_imports() -> Iterator[None]:
    """Keep models' code that a test imported out of the collections of all later ones.

    A probe collects before each of its runs.
    """
    num_modules = len(sys.modules)
    yield
    if len(sys.modules) > num_modules:
        gc.collect()
        gc.freeze()
