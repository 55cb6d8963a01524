"""Arguments of Megatron-LM that no other framework has.

Whose layers run, how tokens reach their experts, what waits for the head's gradient
(``megatron/training/arguments.py``, ``core/transformer/transformer_config.py``).
"""

from service.formats.launches.pretraining.megatron_keys import SOURCE
from service.formats.launches.pretraining.megatron_model import ModelShape
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

_FIELD = "workload.megatron"
_DISPATCHERS = {"alltoall": "alltoall", "allgather": "allgather", "flex": "alltoall"}
_SWITCHES = {
    "gradient_accumulation_fusion": "gradient_accumulation_fusion",
    "create_attention_mask_in_dataloader": "create_attention_mask",
    "defer_embedding_wgrad_compute": "defer_embedding_wgrad_compute",
}
"""Switches by the fields that say the same."""
_LOCAL_SWITCHES = {
    "masked_softmax_fusion": "masked_softmax_fusion",
    "attention_softmax_in_fp32": "attention_softmax_in_fp32",
    "apply_query_key_layer_scaling": "attention_softmax_in_fp32",
}
"""Switches of local layers; scaled queries take their softmax in fp32 (arguments.py)."""
_ENGINE = "counted as its default: fused kernels of Transformer Engine keep the same tensors"


def put_options(arguments: Settings, draft: Draft, shape: ModelShape) -> None:
    """Set what the arguments say."""
    for name, field in _SWITCHES.items():
        switch = arguments.take(name)
        if switch is not None:
            draft.put(f"{_FIELD}.{field}", switch.as_bool(), switch)
    limit = arguments.take("wgrad_deferral_limit")
    if limit is not None:
        draft.put(f"{_FIELD}.wgrad_deferral_limit", limit.as_int(), limit)
    _put_layers(arguments, draft)
    _put_experts(arguments, draft, shape)


def put_option_defaults(draft: Draft, shape: ModelShape) -> None:
    """Set what Megatron-LM takes where its arguments say nothing."""
    if not shape.num_experts:
        return
    defaults: dict[str, object] = {
        "moe_token_dispatcher_type": "allgather",
        "moe_grouped_gemm": False,
    }
    for name, value in defaults.items():
        if draft.get(f"{_FIELD}.{name}") is None:
            draft.put(f"{_FIELD}.{name}", value, make_default(name, value, SOURCE))


def _put_layers(arguments: Settings, draft: Draft) -> None:
    """Set whose layers run, and how local ones normalise scores."""
    implementation = arguments.take("transformer_impl")
    name = "transformer_engine" if implementation is None else str(implementation.value)
    is_local = name == "local"
    if implementation is not None and name not in {"local", "transformer_engine"}:
        draft.ignore(implementation, "layers are counted as Transformer Engine's")
    elif implementation is not None:
        draft.put(f"{_FIELD}.transformer_impl", name, implementation)
    for argument, field in _LOCAL_SWITCHES.items():
        switch = arguments.take(argument)
        if switch is None:
            continue
        # Scaling switches fp32 on, and nothing off.
        if is_local and (switch.as_bool() or argument == field):
            draft.put(f"{_FIELD}.{field}", switch.as_bool(), switch)
        else:
            draft.note(switch, _ENGINE)


def _put_experts(arguments: Settings, draft: Draft, shape: ModelShape) -> None:
    """Set how tokens reach their experts, and how these run."""
    dispatcher = arguments.take("moe_token_dispatcher_type")
    grouped = arguments.take("moe_grouped_gemm")
    backend = arguments.take("moe_flex_dispatcher_backend", "moe_enable_deepep")
    if not shape.num_experts:
        for setting in (dispatcher, grouped, backend):
            if setting is not None:
                draft.drop(setting)
        return
    if dispatcher is not None:
        _put_dispatcher(dispatcher, draft)
    if backend is not None:
        draft.ignore(backend, "its buffers are not counted")
    if grouped is not None:
        draft.put(f"{_FIELD}.moe_grouped_gemm", grouped.as_bool(), grouped)


def _put_dispatcher(dispatcher: Setting, draft: Draft) -> None:
    kind = dispatcher.as_choice(_DISPATCHERS)
    if dispatcher.value == kind:
        draft.put(f"{_FIELD}.moe_token_dispatcher_type", kind, dispatcher)
    else:
        draft.put(f"{_FIELD}.moe_token_dispatcher_type", kind)
        draft.ignore(dispatcher, "tokens are counted as sent by alltoall")
