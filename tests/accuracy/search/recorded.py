"""Probes of types that have a recording alone: their class is built as a recorder builds it.

A probe knows the heads and layers of written families. Here it is told those of a recording, so
that its steps (optimizers, adapters, checkpoints, ranks of FSDP2) run on the code of the type.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

from transformers import PreTrainedModel

from service.estimator.model.architecture import Architecture
from worker.probes.models import build
from worker.probes.models.model_class import find_class
from worker.probes.run import training
from worker.probes.run.marks import Marks, find_layer_stacks, mark_layers


@contextmanager
def probe_recorded(model: Architecture) -> Iterator[None]:
    """Let probes build the class of a recorded model, whole or cut, for a block."""

    def get_auto_class(config: Mapping[str, object]) -> SimpleNamespace:
        own = find_class(config)
        return SimpleNamespace(
            _model_mapping={own.config_class: own},
            from_config=own._from_config,  # noqa: SLF001 - what the auto classes call
        )

    def mark_all(model: PreTrainedModel, _num_layers: int) -> Marks:
        return mark_layers(model, sum(map(len, find_layer_stacks(model))))

    with (
        patch.object(build, "architecture_from_config", lambda _config: model),
        patch.object(build, "get_auto_class", get_auto_class),
        # A recording counts the layers of its decoder, beside which an encoder has others.
        patch.object(training, "mark_layers", mark_all),
    ):
        yield
