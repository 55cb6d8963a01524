"""Decoders with the head of another task than a language model's.

transformers 5.23 has one code for most (``modeling_layers.py``); the GPT line has its own, which
differs in names and in the loss's number format.
"""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.heads.config import get_problem
from service.estimator.model.heads.steps import Step, make_dropout, make_transform
from service.estimator.model.saved_modules import select_saved_names
from service.estimator.model.task_head import NO_OUTPUT, Pooling, TaskHead
from service.estimator.model.weights.tensors import Linear
from service.estimator.values.heads import Head

_LINE = frozenset({"bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "mpt"})
"""Families whose token classification calls its loss itself, in the dtype of the scores."""
_CLASSIFIERS = _LINE | {"gpt_neox"}
"""Families whose token classifier is no ``score``."""
_NAMES = {
    Head.SEQUENCE_CLASSIFICATION: "score",
    Head.TOKEN_CLASSIFICATION: "score",
    Head.QUESTION_ANSWERING: "qa_outputs",
}


def put_task_head(plain: Architecture) -> Architecture:
    """Return a decoder with the head that its numbers name."""
    spec, kind = plain.spec, Head(plain.spec.head)
    is_token = kind is Head.TOKEN_CLASSIFICATION
    steps: tuple[Step, ...] = (make_dropout(spec.head_dropout),) if is_token else ()
    name = "classifier" if is_token and spec.family in _CLASSIFIERS else _NAMES.get(kind, "")
    output = Linear(
        name=name,
        kind="other",
        in_features=plain.head.in_features,
        out_features=spec.num_labels,
        bias=kind is not Head.SEQUENCE_CLASSIFICATION,
    )
    task = TaskHead(
        kind=kind,
        pooling=Pooling.LAST if kind is Head.SEQUENCE_CLASSIFICATION else Pooling.ALL,
        num_labels=spec.num_labels,
        problem=get_problem(spec.problem_type, spec.num_labels),
        transform=make_transform(steps),
        upcasts=is_token and spec.family not in _LINE,
        saved=select_saved_names(kind, [weight.name for weight in output.weights()]),
    )
    return replace(
        plain,
        head=output if spec.num_labels else NO_OUTPUT,
        task=task,
        finish_hidden=None,
        finish_logits=None,
    )
