"""Calibration keys: hashes over everything that moves a memory curve.

Batch, sequence and depth are points on a curve and no part of its key. The environment (releases,
driver, GPU) is joined to it where something is learnt: a changed key stops addressing what was
learnt under the old one, so nothing ever expires and nothing is ever taken from an unrelated
configuration.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from hashlib import sha256
from operator import attrgetter

from service.calibration.evidence import Quantity
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.megatron import MegatronOptions
from service.estimator.values.memo import keep_latest
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
        "kv_pool_bytes",
        "kv_pool_blocks",
        "kv_pool_tokens",
        "num_tokens",
        "save_total_limit",
        "sequence_lengths",
        # A measurement runs steps alone, whose instants are those of a run that evaluates.
        "evaluation",
    },
)
_ADDED_LATER = {
    "quantization_bits": 4,
    "gpu_layers": None,
    "cpu_moe_layers": None,
    "tensor_split": None,
    "cache_type": None,
    "cpu_offload_gb": None,
    "max_loras": None,
    "rollout": None,
    "critic": None,
    "entropy_bonus": False,
    "completion_length": None,
    "log_prob_batch_size": None,
    "max_lora_rank": None,
    "max_images_per_prompt": None,
    "max_videos_per_prompt": None,
    "state_dtype": None,
    "inputs": None,
    "megatron": asdict(MegatronOptions()),
}
"""Fields that keys of before do not have, and no key has at these values."""
_get_training_fields = attrgetter(
    *(item.name for item in fields(TrainWorkload) if item.name not in _NOT_IN_KEY)
)
_get_serving_fields = attrgetter(
    *(item.name for item in fields(ServeWorkload) if item.name not in _NOT_IN_KEY)
)


class _CurveQuestion:
    """A question compared by its curve, so that keys are hashed once."""

    __slots__ = ("_hash", "_same", "architecture", "layout", "workload")

    def __init__(self, architecture: Architecture, workload: Workload, layout: Layout) -> None:
        """Store the question and the values that identify its curve."""
        self.architecture, self.workload, self.layout = architecture, workload, layout
        if isinstance(workload, TrainWorkload):
            fixed = (*_get_training_fields(workload), workload.gradient_accumulation_steps > 1)
        else:
            fixed = _get_serving_fields(workload)
        self._same = (architecture.spec, architecture.quantization, fixed, layout)
        self._hash = hash(self._same)

    def __hash__(self) -> int:
        """Return the hash of the identifying values."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Compare the identifying values."""
        return isinstance(other, _CurveQuestion) and self._same == other._same


def build_calibration_key(architecture: Architecture, workload: Workload, layout: Layout) -> str:
    """Return the calibration key of a question's curve.

    A question and the measurements of its curve share it, whatever they ran on and with.
    """
    return _hash_question(_CurveQuestion(architecture, workload, layout))


@keep_latest(4096)
def _hash_question(question: _CurveQuestion) -> str:
    moving = {
        "model": question.architecture.fingerprint(depth=False),
        "workload": _describe_workload(question.workload),
        "layout": _describe_layout(question.layout),
    }
    digest = sha256(json.dumps(moving, sort_keys=True).encode()).hexdigest()
    return f"{KEY_VERSION}:{digest}"


def describe_calibration_key(
    architecture: Architecture, workload: Workload, layout: Layout
) -> dict[str, object]:
    """Return a readable description of what a key stands for."""
    return {
        "family": architecture.family,
        "hidden_size": architecture.spec.hidden_size,
        "vocab_size": architecture.vocab_size,
        **_describe_workload(workload),
        "layout": _describe_layout(layout),
    }


def get_run_kind(workload: Workload, layout: Layout, quantity: Quantity) -> str:
    """Return the kind of run whose keys may share what they learn.

    The memory outside of the allocator belongs to a process, not to a kind of run.
    """
    if quantity is Quantity.DEVICE:
        return f"a process of {'one GPU' if layout.num_gpus == 1 else 'several GPUs'}"
    spread = "sharded" if layout.zero_stage or layout.num_gpus > layout.data_parallel else "alone"
    if isinstance(workload, TrainWorkload):
        return f"{workload.framework.value} training, {workload.method.value}, {spread}"
    return f"{workload.engine.value} serving, {spread}"


def _describe_workload(workload: Workload) -> dict[str, object]:
    trains = isinstance(workload, TrainWorkload)
    described: dict[str, object] = {"task": "train" if trains else "serve"}
    described |= {
        name: value
        for name, value in asdict(workload).items()
        if name not in _NOT_IN_KEY and not (name in _ADDED_LATER and value == _ADDED_LATER[name])
    }
    speculative = described.get("speculative")
    if isinstance(speculative, dict):
        # Keys of before had drafts by their config alone, and no heads.
        for name in ("spec", "head"):
            if speculative[name] is None:
                del speculative[name]
    adapters = described.get("lora")
    if isinstance(adapters, dict):
        # Keys of before had no dropout, and no kernels of axolotl's.
        for name in ("dropout", "kernels"):
            if not adapters[name]:
                del adapters[name]
    if isinstance(workload, TrainWorkload):
        # Keys of before had the lengths, which none that was learnt from said.
        described["sequence_lengths"] = ()
        # From the second micro-batch on gradients exist during forward; a third changes nothing.
        described["accumulates"] = workload.gradient_accumulation_steps > 1
    return described


_LATER_WORDS = ("pipeline_split", "pipeline_schedule", "context_parallel_method")
"""Fields that are in a key only where they say something: older keys have none of them."""
_PLAIN = {name: Layout.__dataclass_fields__[name].default for name in _LATER_WORDS}


def _describe_layout(layout: Layout) -> Mapping[str, object]:
    """Return the layout as one rank sees it.

    Replicas of the whole model are like one that is alone.
    """
    described = asdict(layout)
    for name in ("gpus_per_node", "network_bytes_per_second", "host_memory_bytes", "nvme_bytes"):
        del described[name]
    for name in _LATER_WORDS:
        if getattr(layout, name) == _PLAIN[name]:
            del described[name]
    if not layout.zero_stage:
        del described["data_parallel"], described["sharding"], described["reshard_after_forward"]
    return described
