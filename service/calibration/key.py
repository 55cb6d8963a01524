"""What a measurement may teach about: a key over everything that moves the curve of bytes, and over nothing else.

Batch, sequence and depth are points on a curve and no part of its key. A changed key stops addressing what was learnt under
the old one, so nothing ever expires and nothing is ever taken from an unrelated configuration.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256

from service.estimator.architecture import Architecture
from service.estimator.layout import Layout
from service.estimator.workload import TrainWorkload, Workload

KEY_VERSION = "v1"

REFERENCE_VERSIONS: Mapping[str, str] = {"torch": "2.13", "transformers": "5.23", "peft": "0.21"}
"""The releases whose model code the estimator follows and the worker runs; a question that names no release means these."""

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
    },
)


def calibration_key(architecture: Architecture, workload: Workload, layout: Layout) -> str:
    """Return the key that a question and the measurements of its curve share."""
    moving = {
        "model": architecture.fingerprint(depth=False),
        "workload": _workload(workload),
        "layout": _layout(layout),
        "versions": dict(REFERENCE_VERSIONS),
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
        "versions": dict(REFERENCE_VERSIONS),
    }


def is_reference(environment: Mapping[str, object]) -> bool:
    """Return whether a measurement ran the releases that keys stand for: ``2.13.0+cpu`` is a 2.13."""
    return (
        all(_minor(str(environment[name])) == wanted for name, wanted in REFERENCE_VERSIONS.items() if name in environment)
        and {"torch", "transformers"} <= environment.keys()
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _workload(workload: Workload) -> dict[str, object]:
    trains = isinstance(workload, TrainWorkload)
    described: dict[str, object] = {"task": "train" if trains else "serve"}
    described |= {name: value for name, value in asdict(workload).items() if name not in _NOT_IN_KEY}
    if isinstance(workload, TrainWorkload):
        # From the second micro-batch on gradients exist during forward; a third changes nothing.
        described["accumulates"] = workload.gradient_accumulation_steps > 1
    return described


def _layout(layout: Layout) -> dict[str, object]:
    """Return what one rank sees of the layout: replicas of the whole model are like one that is alone."""
    described = asdict(layout)
    del described["gpus_per_node"]
    if not layout.zero_stage:
        del described["data_parallel"], described["sharding"], described["reshard_after_forward"]
    return described
