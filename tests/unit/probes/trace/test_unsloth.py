"""Steps with Unsloth's kernels, held against traces of the tensors that they make."""

from dataclasses import replace

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.batches import SequencePacking
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.workload import (
    Checkpointing,
    Lora,
    Method,
    Offload,
    OffloadTarget,
)
from tests.builders import a_training
from tests.unit.probes.trace.unsloth_functions import Shape
from tests.unit.probes.trace.unsloth_step import run_step
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.recorder import record_storages

LLAMA = Shape(
    hidden=1024,
    inner=2048,
    layers=3,
    heads=8,
    kv_heads=2,
    head_dim=128,
    words=49152,
    rank=8,
    batch=2,
    length=2048,
)


LOSS_BYTES = 4
"""The loop's own name for the loss, which the estimator does not count."""


def trace(shape: Shape) -> dict[str, int]:
    """Return the most bytes of each stretch beyond the weights."""
    with FakeTensorMode(), record_storages() as recorder:
        run_step(shape)
    stretches = {
        one.name: one for one in compute_stretches(recorder.ledger, recorder.ledger.live())
    }
    start = stretches["forward"].start
    return {name: stretches[name].live_peak - start for name in ("forward", "backward")}


def predict(shape: Shape, family: str) -> dict[str, int]:
    """Return the same of an estimate."""
    config = {
        "model_type": family,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.words,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    }
    moves = Offload(activations=OffloadTarget.CPU) if shape.checkpoints else Offload()
    workload = a_training(
        precision="bf16_autocast",
        sequence_length=shape.length,
        micro_batch_size=shape.batch,
        method=Method.QLORA if shape.quantised else Method.LORA,
        lora=Lora(rank=shape.rank),
        kernels=Kernels.UNSLOTH,
        loss=Loss.FUSED_LINEAR,
        activation_checkpointing=Checkpointing.FULL if shape.checkpoints else Checkpointing.NONE,
        offload=moves,
        packing=SequencePacking.PADDING_FREE if shape.tells_positions else SequencePacking.NONE,
    )
    timeline = build_train_timeline(architecture_from_config(config), workload, Layout())
    resident = timeline.static_memory.resident_bytes
    phases = dict(timeline.phases)
    bytes_ = {name: phases[f"{name}_pass"] - resident for name in ("forward", "backward")}
    return bytes_ | {"backward": bytes_["backward"] + LOSS_BYTES}


@pytest.mark.parametrize(
    ("shape", "family"),
    [
        (LLAMA, "llama"),
        (replace(LLAMA, quantised=True), "llama"),
        (replace(LLAMA, checkpoints=False), "llama"),
        (replace(LLAMA, normalises_heads=True), "qwen3"),
        (replace(LLAMA, kv_heads=8), "llama"),
        (replace(LLAMA, length=1024, chunk=1024), "llama"),
        (replace(LLAMA, length=512, chunk=1024, moves_inputs=False), "llama"),
        (replace(LLAMA, tells_positions=True), "llama"),
        (replace(LLAMA, gemma=True), "gemma"),
    ],
)
def test_a_step_is_that_of_unsloth(shape: Shape, family: str) -> None:
    """Projections, norms, rotations, checkpoints and the loss are counted."""
    assert predict(shape, family) == trace(shape)
