"""What a measurement may teach about: a key over everything that moves the curve of bytes, and over nothing else.

Batch, sequence and depth are points on a curve and no part of its key. What it ran on and with (``environment``) is joined to
it where something is learnt: a changed key stops addressing what was learnt under the old one, so nothing ever expires and
nothing is ever taken from an unrelated configuration.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter

from service.calibration.evidence import Quantity
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload

KEY_VERSION = "v2"
_NOT_IN_KEY = frozenset(
    {
        "sequence_length",
        "micro_batch_size",
        "gradient_accumulation_steps",
        "num_sequences",
        "prompt_tokens",
        "output_tokens",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_sequences",
        "gpu_memory_fraction",
        "num_tokens",
    },
)
_of_training = attrgetter(*(item.name for item in fields(TrainWorkload) if item.name not in _NOT_IN_KEY))
_of_serving = attrgetter(*(item.name for item in fields(ServeWorkload) if item.name not in _NOT_IN_KEY))


class _Described:
    """A question that equals every other one of its curve, so that a curve's key is hashed once."""

    __slots__ = ("_hash", "_same", "architecture", "layout", "workload")

    def __init__(self, architecture: Architecture, workload: Workload, layout: Layout) -> None:
        """Remember the question, and what of it tells it from another curve's."""
        self.architecture, self.workload, self.layout = architecture, workload, layout
        if isinstance(workload, TrainWorkload):
            fixed = (*_of_training(workload), workload.gradient_accumulation_steps > 1)
        else:
            fixed = _of_serving(workload)
        self._same = (architecture.spec, architecture.quantization, fixed, layout)
        self._hash = hash(self._same)

    def __hash__(self) -> int:
        """Return the hash of what decides."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Compare what decides."""
        return isinstance(other, _Described) and self._same == other._same


def calibration_key(architecture: Architecture, workload: Workload, layout: Layout) -> str:
    """Return the key that a question and the measurements of its curve share, whatever they ran on and with."""
    return _hashed(_Described(architecture, workload, layout))


def hashed_keys() -> int:
    """Return how many keys were hashed since this process began: questions of a known curve are not among them."""
    return _hashed.cache_info().misses


@lru_cache(maxsize=4096)
def _hashed(question: _Described) -> str:
    moving = {
        "model": question.architecture.fingerprint(depth=False),
        "workload": _workload(question.workload),
        "layout": _layout(question.layout),
    }
    digest = sha256(json.dumps(moving, sort_keys=True).encode()).hexdigest()
    return f"{KEY_VERSION}:{digest}"


def calibration_scope(architecture: Architecture, workload: Workload, layout: Layout) -> dict[str, object]:
    """Return what a key stands for, in words that a person reads."""
    return {
        "family": architecture.family,
        "hidden_size": architecture.spec.hidden_size,
        "vocab_size": architecture.vocab_size,
        **_workload(workload),
        "layout": _layout(layout),
    }


def kind_of(workload: Workload, layout: Layout, quantity: Quantity) -> str:
    """Return the kind of run whose keys may learn from each other; what lies outside of the allocator is no run's own."""
    if quantity is Quantity.DEVICE:
        return f"a process of {'one GPU' if layout.num_gpus == 1 else 'several GPUs'}"
    spread = "sharded" if layout.zero_stage or layout.num_gpus > layout.data_parallel else "alone"
    if isinstance(workload, TrainWorkload):
        return f"{workload.framework.value} training, {workload.method.value}, {spread}"
    return f"{workload.engine.value} serving, {spread}"


def _workload(workload: Workload) -> dict[str, object]:
    trains = isinstance(workload, TrainWorkload)
    described: dict[str, object] = {"task": "train" if trains else "serve"}
    described |= {name: value for name, value in asdict(workload).items() if name not in _NOT_IN_KEY}
    if isinstance(workload, TrainWorkload):
        # From the second micro-batch on gradients exist during forward; a third changes nothing.
        described["accumulates"] = workload.gradient_accumulation_steps > 1
    return described


def _layout(layout: Layout) -> Mapping[str, object]:
    """Return what one rank sees of the layout: replicas of the whole model are like one that is alone."""
    described = asdict(layout)
    for name in ("gpus_per_node", "network_bytes_per_second", "host_memory_bytes", "nvme_bytes"):
        del described[name]
    if not layout.zero_stage:
        del described["data_parallel"], described["sharding"], described["reshard_after_forward"]
    return described
