"""Families of models as answers of /v1/families."""

from service.catalog.families import FamilyEntry
from service.contract.schemas.model_parts.families import (
    ModelFamilyAnswer,
    RefusalAnswer,
    TrainingAnswer,
)


def build_family(entry: FamilyEntry) -> ModelFamilyAnswer:
    """Return a family with what is modelled of it."""
    return ModelFamilyAnswer(
        name=entry.name,
        group=entry.group,
        models=entry.models,
        training=tuple(
            TrainingAnswer(framework=framework, methods=methods)
            for framework, methods in entry.training.items()
        ),
        serving=entry.serving,
        refused=tuple(
            RefusalAnswer(
                task=capability.task,
                runner=capability.runner,
                method=capability.method,
                reason=capability.refusal,
            )
            for capability in entry.capabilities
            if capability.refusal is not None
        ),
    )
