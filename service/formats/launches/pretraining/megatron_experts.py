"""Experts and latent attention among Megatron-LM's arguments.

``core/transformer/moe``, ``core/transformer/multi_latent_attention.py``.
"""

import ast
import re

from service.formats.launches.pretraining.megatron_keys import SOURCE
from service.formats.launches.pretraining.megatron_sizes import MODEL, take_flag, take_size
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

MAX_LAYERS = 512
_ROUTERS = {"sigmoid": "grouped_sigmoid"}
_FACTOR = re.compile(r"\[(?P<list>[01](,[01])*)\](\*(?P<count>[0-9]{1,4}))?")


def read_experts(
    arguments: Settings, draft: Draft, experts: Setting, sizes: dict[str, object]
) -> dict[str, object]:
    """Return the sizes of routed and shared experts."""
    draft.note(experts, MODEL)
    frequency = arguments.take("moe_layer_freq")
    num_layers = sizes["num_hidden_layers"]
    dense = 0 if frequency is None else _count_dense_layers(frequency, num_layers)
    if frequency is not None:
        draft.note(frequency, f"the first {dense} layers have no experts")
    topk = arguments.take("moe_router_topk") or make_default("moe_router_topk", 2, SOURCE)
    draft.note(topk, MODEL)
    shared = take_size(arguments, "moe_shared_expert_intermediate_size", draft)
    gate = take_flag(arguments, "moe_shared_expert_gate", draft, "a gate of the shared expert")
    function = arguments.take("moe_router_score_function")
    score = "softmax" if function is None else str(function.value)
    if function is not None:
        draft.note(function, MODEL)
    inner = take_size(arguments, "moe_ffn_hidden_size", draft)
    return {
        "num_experts": experts.as_int(),
        "num_experts_per_token": topk.as_int(minimum=1),
        "expert_intermediate_size": sizes["intermediate_size"] if inner is None else inner,
        "shared_intermediate_size": shared or 0,
        "first_dense_layers": dense,
        "router": "softmax" if gate else _ROUTERS.get(score, "softmax_fp32"),
    }


def _count_dense_layers(frequency: Setting, num_layers: object) -> int:
    """Return how many layers come before those with experts.

    ``moe_freq_type``: a number, or a list of zeros and ones by products and sums. Raises
    LaunchFormatError where layers without experts come between.
    """
    text = re.sub(r"[\s()'\"]", "", str(frequency.value))
    if text.isdecimal() and int(text[:4]) == 1:
        return 0
    layers: list[int] = []
    for factor in text.split("+"):
        match = _FACTOR.fullmatch(factor)
        if match is None:
            raise frequency.refuse("1, or a pattern such as ([0]*3+[1]*58)")
        layers += ast.literal_eval(f"[{match['list']}]") * int(match["count"] or 1)
        if len(layers) > MAX_LAYERS:
            raise frequency.refuse(f"{MAX_LAYERS} layers at most")
    dense = layers.index(1) if 1 in layers else len(layers)
    if len(layers) != num_layers or 0 in layers[dense:]:
        raise frequency.refuse(
            f"a pattern of {num_layers} layers, those without experts first: others have no model"
        )
    return dense


def read_latent(arguments: Settings, draft: Draft, sizes: dict[str, object]) -> dict[str, object]:
    """Return the widths of latent attention, with the defaults of arguments.py."""
    query = take_size(arguments, "q_lora_rank", draft)
    widths = {
        name: take_size(arguments, name, draft) or default
        for name, default in (
            *(("kv_lora_rank", 32), ("qk_head_dim", 128)),
            *(("qk_pos_emb_head_dim", 64), ("v_head_dim", 128)),
        )
    }
    dense = {} if "num_experts" in sizes else _NO_EXPERTS
    return {
        **dense,
        **({} if not dense else {"first_dense_layers": sizes["num_hidden_layers"]}),
        "head_dim": widths["qk_head_dim"] + widths["qk_pos_emb_head_dim"],
        "rotary_dim": widths["qk_pos_emb_head_dim"],
        "query_latent": query or 0,
        "key_value_latent": widths["kv_lora_rank"],
        "passed_dim": widths["qk_head_dim"],
        "value_dim": widths["v_head_dim"],
        "query_key_norm": False,
        "num_key_value_heads": sizes["num_attention_heads"],
    }


_NO_EXPERTS = {
    "num_experts": 1,
    "num_experts_per_token": 1,
    "expert_intermediate_size": 1,
    "router": "softmax_fp32",
}
"""Latent attention in dense layers alone: its family has experts, in none of these layers."""
