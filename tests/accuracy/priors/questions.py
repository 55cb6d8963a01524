"""Questions that are measured on fake tensors.

They are of models of many families, each at three sizes of one curve.
"""

from collections.abc import Iterator
from dataclasses import dataclass

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

SIZES = ((1, 256), (1, 768), (2, 1024))
"""Batch and sequence.

Of each three, two are probes and the third is what they are to predict.
"""
MODELS = (
    "gpt2",
    "pythia-160m",
    "smollm2-360m",
    "qwen3-0.6b",
    "gemma-3-1b",
    "olmo-1b",
    "llama-3.2-1b",
)
CHECKPOINTED = ("mistral-7b-v0.1", "llama-3-8b")
ADAPTED = ("llama-2-7b",)
SERVED = ("llama-3.2-1b", "qwen3-0.6b")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeQuestion:
    """One question about a model of the catalogue."""

    model: str
    workload: Workload

    @property
    def size(self) -> str:
        """The size in words."""
        if isinstance(self.workload, TrainWorkload):
            return (
                f"{self.workload.method.value} {self.workload.micro_batch_size} x "
                f"{self.workload.sequence_length}"
            )
        return f"serving {self.workload.num_sequences} x {self.workload.prompt_tokens}"


def iter_questions() -> Iterator[ProbeQuestion]:
    """Yield every question, a model's sizes one after the other."""
    bf16 = POLICIES["bf16"]
    for model in MODELS:
        for batch, length in SIZES:
            yield ProbeQuestion(
                model=model,
                workload=TrainWorkload(
                    micro_batch_size=batch, sequence_length=length, precision=bf16
                ),
            )
    for model in CHECKPOINTED:
        for batch, length in SIZES:
            yield ProbeQuestion(
                model=model,
                workload=TrainWorkload(
                    micro_batch_size=batch,
                    sequence_length=length,
                    precision=bf16,
                    activation_checkpointing=Checkpointing.FULL,
                ),
            )
    for model in ADAPTED:
        for batch, length in SIZES:
            yield ProbeQuestion(
                model=model,
                workload=TrainWorkload(
                    micro_batch_size=batch,
                    sequence_length=length,
                    precision=bf16,
                    method=Method.LORA,
                    lora=Lora(),
                ),
            )
    for model in SERVED:
        for batch, length in SIZES:
            yield ProbeQuestion(
                model=model,
                workload=ServeWorkload(
                    num_sequences=batch,
                    prompt_tokens=length,
                    output_tokens=2,
                    client=Client.LOOP,
                ),
            )
