"""Modules that PEFT trains in full beside adapters.

peft 0.21 (``peft_model.py``, ``PeftModelForSequenceClassification`` and those beside it) puts a
trained copy next to each module whose name ends in one of these words (``utils/other.py``,
``_set_trainable``): DistilBERT's ``pre_classifier`` among them.
"""

from collections.abc import Iterable, Mapping

from service.estimator.model.weights.tensors import Linear
from service.estimator.values.heads import Head

_CLASSIFIER = ("classifier", "score")
SAVED_MODULES: Mapping[Head, tuple[str, ...]] = {
    Head.SEQUENCE_CLASSIFICATION: _CLASSIFIER,
    Head.TOKEN_CLASSIFICATION: _CLASSIFIER,
    Head.QUESTION_ANSWERING: ("qa_outputs",),
}
"""Ends of the names of those modules."""


def select_saved_names(kind: Head, names: Iterable[str]) -> frozenset[str]:
    """Return the names of the tensors that PEFT trains in full."""
    return frozenset(name for name in names if _is_saved(kind, name))


def select_saved_modules(kind: Head, modules: Iterable[str]) -> list[str]:
    """Return the names of the modules that PEFT trains in full."""
    ends = SAVED_MODULES.get(kind, ())
    return [name for name in modules if name.endswith(ends)] if ends else []


def is_saved_layer(layer: Linear, saved: frozenset[str]) -> bool:
    """Return whether a layer is trained in full."""
    return bool(saved) and f"{layer.name}.weight" in saved


def _is_saved(kind: Head, name: str) -> bool:
    parts = name.split(".")[:-1]
    modules = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return bool(select_saved_modules(kind, modules))
