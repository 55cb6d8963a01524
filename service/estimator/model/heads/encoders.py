"""Heads of BERT, RoBERTa, DistilBERT and ELECTRA.

transformers 5.23 (``models/bert``, ``models/roberta``, ``models/distilbert``, ``models/electra``).
A bare BERT or RoBERTa has a pooler, whose output an embedding's loss does not read
(``add_pooling_layer``).
"""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.model.adapters.parameters import ADAPTER_PARTS
from service.estimator.model.architecture import Architecture
from service.estimator.model.heads.config import get_problem
from service.estimator.model.heads.steps import (
    Step,
    iterate_step_weights,
    list_linears,
    make_dropout,
    make_transform,
)
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.saved_modules import is_saved_layer, select_saved_names
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.task_head import NO_OUTPUT, Pooling, TaskHead
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape.ops.elementwise import activate_saving_output
from service.estimator.values.heads import Head


def put_encoder_head(backbone: Architecture) -> Architecture:
    """Return an encoder with the head that its numbers name.

    ``backbone`` has embeddings and layers alone.
    """
    spec, kind = backbone.spec, Head(backbone.spec.head)
    steps = _list_steps(spec, kind)
    pooled = kind in {Head.SEQUENCE_CLASSIFICATION, Head.NONE} and steps
    output = _build_output(spec, kind)
    return add_task(backbone, steps, output, pooling=Pooling.FIRST if pooled else Pooling.ALL)


def add_task(
    backbone: Architecture, steps: tuple[Step, ...], output: Linear, *, pooling: Pooling
) -> Architecture:
    """Return a backbone with steps and an output layer behind it.

    What a bare model computes behind its hidden states is not trained.
    """
    spec, kind = backbone.spec, Head(backbone.spec.head)
    weights = tuple(iterate_step_weights(steps))
    unread = frozenset(_iterate_unread_names(steps)) if kind is Head.NONE else frozenset()
    names = [weight.name for weight in (*weights, *output.weights())]
    task = TaskHead(
        kind=kind,
        pooling=pooling,
        num_labels=spec.num_labels,
        problem=get_problem(spec.problem_type, spec.num_labels),
        transform=make_transform(steps),
        names_input="." not in output.name,
        linears=list_linears(steps),
        saved=select_saved_names(kind, names),
    )
    return replace(
        backbone,
        head=output,
        task=task,
        stem=(*backbone.stem, *weights),
        never_trained=backbone.never_trained | unread,
        outer_linears=tuple(
            layer
            for layer in (*task.linears, *[output] * (output.out_features > 0))
            if not is_saved_layer(layer, task.saved)
        ),
    )


def _iterate_unread_names(steps: tuple[Step, ...]) -> Iterator[str]:
    """Yield the names of the steps' tensors, and of adapters on them."""
    yield from (weight.name for weight in iterate_step_weights(steps))
    for layer in list_linears(steps):
        yield from (f"{layer.name}.{part}" for part in ADAPTER_PARTS)


def _list_steps(spec: DecoderSpec, kind: Head) -> tuple[Step, ...]:
    """Return what the head does before its output layer."""
    dropped, family = make_dropout(spec.head_dropout), spec.family
    if kind is Head.QUESTION_ANSWERING:
        return (dropped,) if family == "distilbert" else ()
    if kind is Head.TOKEN_CLASSIFICATION:
        return (dropped,)
    if family == "distilbert":
        dense = _build_square(spec, "pre_classifier")
        return () if kind is Head.NONE else (dense, activate_saving_output, dropped)
    if family == "electra":
        dense = _build_square(spec, "classifier.dense")
        return () if kind is Head.NONE else (dropped, dense, ACTIVATIONS["gelu"], dropped)
    if kind is Head.NONE or family == "bert":
        pooler: tuple[Step, ...] = (_build_square(spec, "pooler.dense"), activate_saving_output)
        return pooler if kind is Head.NONE else (*pooler, dropped)
    return (dropped, _build_square(spec, "classifier.dense"), activate_saving_output, dropped)


def _build_output(spec: DecoderSpec, kind: Head) -> Linear:
    if kind is Head.NONE:
        return NO_OUTPUT
    nested = kind is Head.SEQUENCE_CLASSIFICATION and spec.family not in {"bert", "distilbert"}
    name = "classifier.out_proj" if nested else "classifier"
    return Linear(
        name="qa_outputs" if kind is Head.QUESTION_ANSWERING else name,
        kind="other",
        in_features=spec.hidden_size,
        out_features=spec.num_labels,
        bias=True,
    )


def _build_square(spec: DecoderSpec, name: str) -> Linear:
    return Linear(
        name=name,
        kind="other",
        in_features=spec.hidden_size,
        out_features=spec.hidden_size,
        bias=True,
    )
