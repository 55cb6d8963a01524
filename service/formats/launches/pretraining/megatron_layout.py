"""Megatron-LM's degrees of parallelism and pipeline as a layout.

``megatron/training/arguments.py`` (``validate_args``).
"""

from service.estimator.model.pipelines.megatron import read_layout_string
from service.estimator.values.errors import InvalidInputError
from service.formats.launches.pretraining.megatron_model import ModelShape
from service.formats.launches.pretraining.mesh import Degrees
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_SHARDS_GRADIENTS = 2
"""The first stage that does."""
_STRATEGIES = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_SPLITS = {
    "decoder_first_pipeline_num_layers": "num_layers_in_first_pipeline_stage",
    "decoder_last_pipeline_num_layers": "num_layers_in_last_pipeline_stage",
}
_PLACES = (
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
)


def read_tensor_parallel(arguments: Settings, draft: Draft) -> Setting | None:
    """Set the tensor-parallel ranks; return what says so."""
    setting = arguments.take("tensor_model_parallel_size", "model_parallel_size")
    if setting is not None:
        draft.put("layout.tensor_parallel", setting.as_int(minimum=1), setting)
    return setting


def put_layout(
    arguments: Settings, draft: Draft, tensor: Setting | None, shape: ModelShape
) -> Degrees:
    """Set degrees, pipeline and sharding; return how many GPUs they need."""
    tensor_ranks = 1 if tensor is None else tensor.as_int(minimum=1)
    stages, pipeline = _put_degree(arguments, "pipeline_model_parallel_size", "pipeline", draft)
    context, cp = _put_degree(arguments, "context_parallel_size", "context", draft)
    experts = _put_experts(arguments, draft, shape, tensor_ranks)
    _put_sequence_parallel(arguments, draft, tensor_ranks)
    _put_pipeline(arguments, draft, stages, shape)
    _put_sharding(arguments, draft)
    return Degrees(
        model=tensor_ranks * stages * context,
        experts=experts,
        stage_ranks=tensor_ranks * context,
        settings=tuple(setting for setting in (tensor, pipeline, cp) if setting is not None),
    )


def _put_degree(
    arguments: Settings, name: str, kind: str, draft: Draft
) -> tuple[int, Setting | None]:
    setting = arguments.take(name)
    if setting is None:
        return 1, None
    number = setting.as_int(minimum=1)
    draft.put(f"layout.{kind}_parallel", number, setting)
    return number, setting


def _put_experts(arguments: Settings, draft: Draft, shape: ModelShape, tensor_ranks: int) -> int:
    """Set how experts are spread; return the ranks that hold all once."""
    spread, split = (
        arguments.take("expert_model_parallel_size"),
        arguments.take("expert_tensor_parallel_size"),
    )
    if not shape.num_experts:
        for setting in (spread, split):
            if setting is not None and setting.as_int(minimum=1) == 1:
                draft.drop(setting)
            elif setting is not None:
                draft.note(setting, "the launch has no experts")
        return 1
    ranks = 1 if spread is None else spread.as_int(minimum=1)
    split_ranks = tensor_ranks if split is None else split.as_int(minimum=1)
    if spread is not None:
        draft.put("layout.expert_parallel", ranks, spread)
    if split is not None:
        draft.put("layout.expert_tensor_parallel", split_ranks, split)
    return ranks * split_ranks


def _put_sequence_parallel(arguments: Settings, draft: Draft, tensor_ranks: int) -> None:
    setting = arguments.take("sequence_parallel")
    if setting is None:
        return
    if tensor_ranks == 1 and setting.as_bool():
        draft.note(setting, "turned off on one tensor-parallel rank (validate_args)")
    else:
        draft.put("layout.sequence_parallel", setting.as_bool(), setting)


def _put_pipeline(arguments: Settings, draft: Draft, stages: int, shape: ModelShape) -> None:
    """Set how layers are spread over stages."""
    text = arguments.take("pipeline_model_parallel_layout")
    per_chunk = arguments.take("num_layers_per_virtual_pipeline_stage")
    per_rank = arguments.take("num_virtual_stages_per_pipeline_rank")
    several = [setting for setting in (text, per_chunk, per_rank) if setting is not None]
    if len(several) > 1:
        message = f"{several[0].key} and {several[1].key} both say how stages interleave; say one"
        raise LaunchFormatError(message, where=several[1].where)
    places = _put_uneven(arguments, draft)
    if text is not None:
        _put_drawn(text, draft, stages, arguments)
    elif per_rank is not None:
        draft.put("layout.virtual_pipeline_stages", per_rank.as_int(minimum=1), per_rank)
    elif per_chunk is not None:
        _put_chunks(per_chunk, draft, stages, shape, places)
    _put_predictors(arguments, draft)


def _put_uneven(arguments: Settings, draft: Draft) -> int:
    """Set uneven ends; return the places of embedding and loss."""
    places = 0
    for name in _PLACES:
        place = arguments.take(name)
        if place is not None:
            draft.put(f"layout.{name}", place.as_bool(), place)
            places += place.as_bool()
    for name, field in _SPLITS.items():
        layers = arguments.take(name)
        if layers is not None:
            draft.put(f"layout.{field}", layers.as_int(minimum=1), layers)
    return places


def _put_predictors(arguments: Settings, draft: Draft) -> None:
    """Set the layers that predict further tokens, where no layout draws them."""
    predictors = arguments.take("mtp_num_layers")
    if predictors is not None and predictors.as_int():
        draft.put("workload.megatron.mtp_num_layers", predictors.as_int(minimum=0), predictors)
    elif predictors is not None:
        draft.drop(predictors)


def _put_drawn(text: Setting, draft: Draft, stages: int, arguments: Settings) -> None:
    """Set a pipeline as it is drawn, with its predicting layers."""
    try:
        chunks = read_layout_string(text.as_text())
    except InvalidInputError as error:
        raise text.refuse(f"a layout such as Ettt|tttL ({error.message[:200]})") from None
    if len(chunks) % stages:
        raise text.refuse(f"chunks for {stages} stages, not {len(chunks)}")
    if stages == 1:
        draft.note(text, "one stage has all layers")
        return
    draft.put("layout.pipeline_model_parallel_layout", text.as_text(), text)
    if len(chunks) > stages:
        draft.put("layout.virtual_pipeline_stages", len(chunks) // stages)
    predictors = arguments.peek("mtp_num_layers")
    if predictors is not None and "m" in "".join(chunks):
        draft.note(predictors, "m of the pipeline's layout")
        arguments.take("mtp_num_layers")


def _put_chunks(
    per_chunk: Setting, draft: Draft, stages: int, shape: ModelShape, places: int
) -> None:
    """Set the chunks of a stage by the layers of each."""
    if shape.num_layers is None:
        draft.ask("layout.virtual_pipeline_stages", f"{per_chunk.key} is for layers not said")
        draft.note(per_chunk, "layers of one chunk")
        return
    layers = stages * per_chunk.as_int(minimum=1)
    chunks, remainder = divmod(shape.num_layers + places, layers)
    if remainder:
        raise per_chunk.refuse(
            f"a number that divides the layers of a stage: {shape.num_layers + places} layers on "
            f"{stages} stages"
        )
    draft.put("layout.virtual_pipeline_stages", chunks, per_chunk)


def _put_sharding(arguments: Settings, draft: Draft) -> None:
    """Set who shards, and what."""
    distributed = arguments.take("use_distributed_optimizer")
    fsdp, torch = (
        arguments.take("use_megatron_fsdp", "use_custom_fsdp"),
        arguments.take("use_torch_fsdp2"),
    )
    strategy = arguments.take("data_parallel_sharding_strategy")
    if torch is not None and torch.as_bool():
        draft.put("layout.sharding", "fsdp2", torch)
        draft.put("layout.zero_stage", 3)
        return
    draft.put("layout.sharding", "megatron")
    if fsdp is not None and fsdp.as_bool():
        stage = 3 if strategy is None else strategy.as_choice(_STRATEGIES)
        draft.put("layout.zero_stage", stage, *(fsdp, *(() if strategy is None else (strategy,))))
        if distributed is not None:
            draft.note(distributed, "Megatron-FSDP shards by its own strategy")
        if stage < _SHARDS_GRADIENTS:
            draft.ignore(fsdp, "the buffers of Megatron-FSDP are counted as the usual ones")
        return
    if strategy is not None:
        draft.drop(strategy)
    is_on = distributed is not None and distributed.as_bool()
    settings = () if distributed is None else (distributed,)
    draft.put("layout.zero_stage", int(is_on), *settings)
