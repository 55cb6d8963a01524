"""Predicates about the split of a pipeline."""

from service.estimator.model.pipelines.chunks import Chunk
from service.estimator.model.pipelines.split import get_pipeline, split_layers, split_model
from service.estimator.model.pipelines.torchtitan import name_torchtitan_split
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.predicates.models import get_training
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.pipeline import PipelineSplit
from service.estimator.values.workload import Framework

_TORCHTITAN = (
    "pipeline_parallel_layers_per_stage",
    "pipeline_parallel_first_stage_less_layers",
    "pipeline_parallel_last_stage_less_layers",
)


def can_split(case: Case) -> bool:
    """Return whether a layout spreads the layers as it says."""
    return _find_error(case) is None


def explain_split(case: Case) -> str:
    """Return why a layout cannot spread the layers as it says."""
    return str(_find_error(case))


def get_split_field(case: Case) -> str:
    """Return the field that cannot be kept."""
    error = _find_error(case)
    return case.layout.pipeline_split.field if error is None else str(error.field)


def predicts_beside_loss(case: Case) -> bool:
    """Return whether all layers that predict further tokens are beside the loss."""
    chunks = _split(case) if can_split(case) else ()
    return all(chunk.has_loss for chunk in chunks if chunk.num_predictors)


def draws_as_many_predictors(case: Case) -> bool:
    """Return whether a layout string draws as many predictors as are said."""
    count = get_training(case).megatron.mtp_num_layers
    is_drawn = case.layout.pipeline_split.pipeline_model_parallel_layout is not None
    if not (count and is_drawn and can_split(case)):
        return True
    return sum(chunk.num_predictors for chunk in _split(case)) == count


def has_layers_everywhere(case: Case) -> bool:
    """Return whether every chunk has a layer."""
    return not can_split(case) or all(chunk.num_layers for chunk in _split(case))


def is_split_as_torchtitan(case: Case) -> bool:
    """Return whether the split is said in torchtitan's words."""
    return _says_any(case.layout.pipeline_split, _TORCHTITAN)


def is_split_by_others(case: Case) -> bool:
    """Return whether the split is said in words that torchtitan has not."""
    split = case.layout.pipeline_split
    names = (name for name in PipelineSplit.__dataclass_fields__ if name not in _TORCHTITAN)
    return _says_any(split, tuple(name for name in names if name != "pipeline_layers"))


def _says_any(split: PipelineSplit, names: tuple[str, ...]) -> bool:
    return any(name in split.names for name in names)


def _split(case: Case) -> tuple[Chunk, ...]:
    """Return the chunks of a case, with its facts' layers."""
    if case.layout.pipeline_split.partition_method is not None:
        return split_model(case.model.tree, case.layout)
    pipeline = get_pipeline(case.layout)
    if get_training(case).framework is Framework.TORCHTITAN:
        pipeline = name_torchtitan_split(pipeline)
    return split_layers(pipeline, case.model.num_hidden_layers)


def _find_error(case: Case) -> InvalidInputError | None:
    try:
        _split(case)
    except InvalidInputError as error:
        return error
    return None
