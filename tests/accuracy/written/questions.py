"""Questions that a recording and a written family both answer.

Their batches and lengths made no recording.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from service.estimator.values.generation import Client
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from tests.tiny_models import tiny_config

_STEP = TrainWorkload(sequence_length=192, micro_batch_size=4, precision=POLICIES["bf16"])
_LORA: Mapping[str, Any] = {"method": Method.LORA, "lora": Lora(rank=8)}
_CHECKPOINTED: Mapping[str, Any] = {"activation_checkpointing": Checkpointing.FULL}
_REPLICA = ServeWorkload(num_sequences=4, prompt_tokens=180, output_tokens=12, client=Client.LOOP)
_MOST_TOKENS: Mapping[str, int] = {"falcon_mamba": 16, "jamba": 16, "mamba": 16, "vit": 17}
"""Tokens of types whose states take a step for each, and of the patches of an image."""
_FURTHER: Mapping[str, Mapping[str, object]] = {
    "t5": {"decoder_start_token_id": 0},
    "whisper": {"max_target_positions": 512},
}
"""Fields that a recording needs beside the small config: the first token, enough positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A workload, and the recorded variants that answer it."""

    variants: tuple[str, ...]
    workload: Workload


QUESTIONS: Mapping[str, Question] = {
    "bf16": Question(variants=("half",), workload=_STEP),
    "one sequence": Question(
        variants=("half",), workload=replace(_STEP, micro_batch_size=1, sequence_length=448)
    ),
    "checkpointed": Question(variants=("half",), workload=replace(_STEP, **_CHECKPOINTED)),
    "LoRA": Question(variants=("half/frozen",), workload=replace(_STEP, **_LORA)),
    "LoRA, checkpointed": Question(
        variants=("half/frozen",), workload=replace(_STEP, **_LORA, **_CHECKPOINTED)
    ),
    "loop": Question(variants=("half/prefill", "half/decode"), workload=_REPLICA),
    "generate": Question(
        variants=("half/generate/prefill", "half/generate/decode"),
        workload=replace(_REPLICA, client=Client.GENERATE),
    ),
    "fp32": Question(variants=("fp32",), workload=replace(_STEP, precision=POLICIES["fp32"])),
    "autocast": Question(
        variants=("autocast",), workload=replace(_STEP, precision=POLICIES["amp_bf16"])
    ),
}
"""By name; those that share a variant stand together."""


def make_config(model_type: str) -> Mapping[str, object]:
    """Return the small config that both answers are of."""
    return {**tiny_config(model_type), **_FURTHER.get(model_type, {})}


def make_workload(model_type: str, question: str) -> Workload:
    """Return a question's workload, short enough for the type's scans and positions."""
    workload = QUESTIONS[question].workload
    config = make_config(model_type)
    most = _MOST_TOKENS.get(model_type, int(str(config.get("max_position_embeddings", 512))))
    if isinstance(workload, TrainWorkload):
        return replace(workload, sequence_length=min(workload.sequence_length, most))
    return replace(workload, prompt_tokens=min(workload.prompt_tokens, most - 12))
