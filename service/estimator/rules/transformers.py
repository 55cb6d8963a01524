"""Checks of transformers' own code, whoever runs it."""

from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.model.architecture import Architecture
from service.estimator.rules.checks import check
from service.estimator.rules.grammar.rule import RuleTable
from service.estimator.rules.tables.serving.transformers import SERVE_ENCODERS, SERVE_TRANSFORMERS
from service.estimator.rules.tables.training.transformers import TRAIN_TRANSFORMERS
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload


def select_serving_table(model: Architecture) -> RuleTable:
    """Return the rules of serving a decoder or an encoder."""
    return SERVE_TRANSFORMERS if model.generates else SERVE_ENCODERS


def check_in_transformers(model: Architecture, workload: Workload, layout: Layout) -> None:
    """Raise InvalidInputError or NotModelledError for what transformers cannot run."""
    if isinstance(workload, ServeWorkload):
        check(select_serving_table(model), model, workload, layout)
        return
    check(TRAIN_TRANSFORMERS, model, resolve_peft_method(model, workload), layout)
