"""A pynvml that plays the GPUs that ``FAKE_GPUS`` describes as JSON.

With its folder on ``PYTHONPATH`` a process believes in them: each is the words of a ``FakeGpu``.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from tests.fake_nvml import FakeGpu, FakeNvml


def _read_gpu(words: Mapping[str, Any]) -> FakeGpu:
    instances = [_read_gpu(instance) for instance in words.get("instances", [])]
    return FakeGpu(**{**words, "instances": instances})


_NVML = FakeNvml(*(_read_gpu(words) for words in json.loads(os.environ["FAKE_GPUS"])))


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the library has
    """Return the library's function or constant of this name."""
    return getattr(_NVML, name)
