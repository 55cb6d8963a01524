"""Checks of transformers' own code, whoever runs it."""

from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.model.architecture import Architecture
from service.estimator.rules.checks import check
from service.estimator.rules.tables.serving.transformers import SERVE_ENCODERS, SERVE_TRANSFORMERS
from service.estimator.rules.tables.training.transformers import TRAIN_TRANSFORMERS
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload


def check_in_transformers(model: Architecture, workload: Workload, layout: Layout) -> None:
    """Raise InvalidInputError or NotModelledError for what transformers cannot run."""
    if isinstance(workload, ServeWorkload):
        table = SERVE_TRANSFORMERS if model.shifts_labels else SERVE_ENCODERS
        check(table, model, workload, layout)
        return
    check(TRAIN_TRANSFORMERS, model, resolve_peft_method(model, workload), layout)
