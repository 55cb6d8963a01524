"""Weights of a model that is only built, never run."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from service.estimator.model.recorded.encoding import encode_recording
from service.estimator.model.recorded.kinds import guess_kind
from service.estimator.model.recorded.recorded_model import RecordedModel
from service.estimator.tape.programs.recorded_pass import RecordedPass
from worker.probes.architecture.depth import find_stack
from worker.probes.architecture.describe import describe_model
from worker.probes.architecture.programs import LoweredPass
from worker.probes.models.model_class import build_any_model, build_config

_NOTHING = RecordedPass(
    values=(),
    num_storages=0,
    inputs=(),
    prologue=(),
    x=0,
    holds_x=False,
    layer_args=(),
    blocks=(),
    block_inputs=(),
    output=0,
    epilogue=(),
    hidden=0,
    tail=(),
    loss=None,
    returned=(),
)


def count_parameters(config: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameters of a config's model by kind.

    It is built on the meta device, and weights that are tied count once. Raises Refusal for what
    transformers does not know.
    """
    hf_config = build_config(config)
    with torch.device("meta"):
        model = build_any_model(config, hf_config, dtype=torch.float32, attention="sdpa")
    by_kind: Counter[str] = Counter()
    for name, weight in model.named_parameters():
        by_kind[guess_kind(name)] += weight.numel()
    return {
        "total": by_kind.total(),
        "by_kind": dict(by_kind),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "document": encode_recording(describe_weights(model)),
    }


def describe_weights(model: PreTrainedModel) -> RecordedModel:
    """Return a recording without passes: a model's weights, layer by layer."""
    stack = find_stack(model)
    kinds = list(dict.fromkeys(stack.signatures))
    order = tuple(kinds.index(signature) for signature in stack.signatures)
    lowered = LoweredPass(recorded=_NOTHING, kinds=order, prefix=stack.prefix if order else None)
    return replace(describe_model(model, {"": lowered}, order), passes={})
