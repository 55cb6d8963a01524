"""Parameters of a model that is only built, never run."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
import transformers

from service.estimator.model.recorded.kinds import guess_kind
from worker.probes.architecture.listening.model_class import build_any_model, build_config


def count_parameters(config: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameters of a config's model, by kind of module.

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
    }
