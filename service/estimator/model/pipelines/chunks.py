"""Chunks of a pipeline: what of a model lies between two exchanges."""

from dataclasses import dataclass

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import V_SHAPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One chunk: ``num_layers`` decoder layers from ``first_layer`` on, and what stands around.

    ``num_predictors`` are multi-token prediction layers (arXiv:2412.19437, section 2.2).
    """

    first_layer: int
    num_layers: int
    has_embedding: bool = False
    has_loss: bool = False
    num_predictors: int = 0


def build_chunks(counts: tuple[int, ...]) -> tuple[Chunk, ...]:
    """Return chunks of so many layers.

    The embedding is on the first, the loss on the last.
    """
    last = len(counts) - 1
    return tuple(
        Chunk(
            first_layer=sum(counts[:index]),
            num_layers=count,
            has_embedding=index == 0,
            has_loss=index == last,
        )
        for index, count in enumerate(counts)
    )


def list_stage_positions(layout: Layout, stage: int) -> tuple[int, ...]:
    """Return the positions of a stage's chunks in the model.

    They take turns (Megatron-LM; torchtitan's ``loop``), or come back from the last stage (``v``).
    """
    stages, virtual = layout.pipeline_parallel, layout.virtual_pipeline_stages
    if layout.schedule in V_SHAPED:
        return stage, 2 * stages - 1 - stage
    return tuple(range(stage, stages * virtual, stages))


def check_sum(counts: tuple[int, ...], num_layers: int, field: str) -> None:
    """Refuse counts that are not all of a model's layers."""
    if sum(counts) != num_layers:
        listed = " + ".join(str(count) for count in counts)
        message = f"{listed} = {sum(counts)} layers, but the model has {num_layers}"
        raise InvalidInputError(message, field=field)
