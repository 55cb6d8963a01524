"""Small models traced for one training step, set beside what the estimator says of them.

The bytes are sums of live storages under fake tensors (torch 2.13, transformers 5.23), above what
is there between steps; the batch's own ids and labels, which the estimator counts, are added.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method
from tests.builders import a_training

IDS_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallStep:
    """A config, how it was trained, and the highest points of forward and backward; LoRA
    ``targets`` None is all-linear.
    """

    name: str
    config: Mapping[str, object]
    forward: int
    backward: int
    batch: int = 1
    sequence: int = 24
    precision: str = "bf16"
    checkpointed: bool = False
    padded: bool = False
    lora: int | None = None
    targets: tuple[str, ...] | None = None

    def estimated(self) -> tuple[int, int]:
        """Return what the estimator says of forward and backward, above what is there between steps
        and without the ids.
        """
        model = architecture_from_config(self.config)
        workload = a_training(
            precision=self.precision,
            micro_batch_size=self.batch,
            sequence_length=self.sequence,
            attention=Attention.EAGER,
            activation_checkpointing=Checkpointing.FULL
            if self.checkpointed
            else Checkpointing.NONE,
            padding_mask=self.padded,
            keeps_logits=True,
            fp32_outputs=False,
            method=Method.FULL if self.lora is None else Method.LORA,
            lora=None if self.lora is None else Lora(rank=self.lora, targets=self.targets),
        )
        check_in_transformers(model, workload, Layout())
        timeline = build_train_timeline(model, workload, Layout())
        phases = dict(timeline.phases)
        batch = IDS_BYTES * self.batch * self.sequence * (1 + self.padded)
        return phases["forward_pass"] - timeline.steady_bytes - batch, phases[
            "backward_pass"
        ] - timeline.steady_bytes - batch
