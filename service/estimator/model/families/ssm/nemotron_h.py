"""Nemotron-H (arXiv:2504.03624): a mixer, attention, feed-forward or experts in each layer.

Field names and defaults are those of transformers 5.23 (``models/nemotron_h``).
"""

from collections.abc import Callable, Mapping

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.ssm.bamba_parts import build_linear, build_mixer
from service.estimator.model.families.ssm.nemotron_h_spec import (
    ATTENTION,
    EXPERTS,
    FEED_FORWARD,
    MIXER,
    NemotronHSpec,
    nemotron_h,
)
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Mixer, PositionwiseLayer
from service.estimator.model.modules.layers.single import SingleBlock
from service.estimator.model.modules.mlp.experts import SharedExpert, SparseFeedForward
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.modules.mlp.group_routers import GroupedSigmoidRouter
from service.estimator.model.modules.mlp.plain_experts import LatentSparseFeedForward, PlainExperts
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.trees.decoder import check_decoder
from service.estimator.model.trees.outputs import cast_logits
from service.estimator.model.weights.tensors import Norm, Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError

__all__ = ["SPEC", "build", "nemotron_h"]

SPEC = NemotronHSpec
_CORRECTION_BYTES = DType.FP32.bytes_per_element
"""Bytes of an expert's correction, which routers keep in fp32."""


def build(spec: NemotronHSpec) -> Architecture:
    """Return the tree of up to four kinds of layer.

    They come in the order that the config gives.
    """
    _check(spec)
    kinds = spec.layer_kinds[: spec.num_hidden_layers]
    present = sorted(set(kinds), key=kinds.index)
    corrections = tuple(
        _CORRECTION_BYTES * spec.num_experts * (kind == EXPERTS) for kind in present
    )
    return Architecture(
        spec=spec,
        embedding=Weight("embeddings.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple(
            (
                SingleBlock(norm=_build_norm(spec, "norm"), mixer=_BUILDERS[kind](spec)),
                kinds.count(kind),
            )
            for kind in present
        ),
        order=tuple(present.index(kind) for kind in kinds),
        final_norm=_build_norm(spec, "norm_f"),
        head=build_linear("lm_head", "lm_head", spec.hidden_size, spec.vocab_size),
        buffer_bytes=sum(
            size * kinds.count(kind) for size, kind in zip(corrections, present, strict=True)
        ),
        layer_buffer_bytes=corrections if any(corrections) else (),
        recurrent=MIXER in kinds,
        chunked=MIXER in kinds,
        finish_logits=cast_logits,
    )


def _check(spec: NemotronHSpec) -> None:
    check_decoder(spec)
    if spec.mixer_heads % spec.num_groups:
        message = f"n_groups {spec.num_groups} does not divide mamba_num_heads {spec.mixer_heads}"
        raise InvalidConfigError(message, field="n_groups")
    if spec.num_experts % spec.num_expert_groups or spec.num_chosen_groups > spec.num_expert_groups:
        message = (
            f"{spec.num_experts} experts in {spec.num_expert_groups} groups, of which "
            f"{spec.num_chosen_groups} are chosen"
        )
        raise InvalidConfigError(message, field="n_group")


def _build_mixer(spec: NemotronHSpec) -> Mamba2Mixer:
    return build_mixer(spec, "mixer", spec.mixer_activation)


def _build_attention(spec: NemotronHSpec) -> Attention:
    hidden, query = spec.hidden_size, spec.num_attention_heads * spec.head_dim
    key = spec.num_key_value_heads * spec.head_dim
    return Attention(
        projections=tuple(
            build_linear(f"mixer.{name}", "attention", hidden, out)
            for name, out in (("q_proj", query), ("k_proj", key), ("v_proj", key))
        ),
        output=build_linear("mixer.o_proj", "attention", query, hidden),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary=False,
        dropout=spec.attention_dropout,
    )


def _build_feed_forward(spec: NemotronHSpec) -> FeedForward:
    return _build_plain(spec, "mixer", "mlp", spec.intermediate_size)


def _build_plain(spec: NemotronHSpec, name: str, kind: str, inner: int) -> FeedForward:
    hidden, bias = spec.hidden_size, spec.mlp_bias
    return FeedForward(
        up=build_linear(f"{name}.up_proj", kind, hidden, inner, bias=bias),
        down=build_linear(f"{name}.down_proj", kind, inner, hidden, bias=bias),
        activation=spec.activation,
    )


def _build_experts(spec: NemotronHSpec) -> SparseFeedForward:
    hidden, latent, num_chosen = spec.hidden_size, spec.latent_size, spec.num_experts_per_token
    router = GroupedSigmoidRouter(
        name="mixer.gate",
        hidden_size=hidden,
        num_experts=spec.num_experts,
        top_k=num_chosen,
        num_groups=spec.num_expert_groups,
        num_chosen_groups=spec.num_chosen_groups,
        renormalised=spec.renormalised,
    )
    experts = PlainExperts(
        name="mixer.experts",
        hidden_size=latent or hidden,
        intermediate_size=spec.expert_intermediate_size,
        num_experts=spec.num_experts,
        num_experts_per_token=num_chosen,
        activation=spec.activation,
    )
    shared = SharedExpert(
        layer=_build_plain(
            spec, "mixer.shared_experts", "mlp_shared_expert", spec.shared_intermediate_size
        )
    )
    if not latent:
        return SparseFeedForward(router=router, experts=experts, shared=shared, experts_first=True)
    bias = spec.mlp_bias
    return LatentSparseFeedForward(
        router=router,
        experts=experts,
        shared=shared,
        experts_first=True,
        entering=build_linear("mixer.fc1_latent_proj", "mlp", hidden, latent, bias=bias),
        leaving=build_linear("mixer.fc2_latent_proj", "mlp", latent, hidden, bias=bias),
    )


_BUILDERS: Mapping[str, Callable[[NemotronHSpec], Mixer | PositionwiseLayer]] = {
    MIXER: _build_mixer,
    ATTENTION: _build_attention,
    FEED_FORWARD: _build_feed_forward,
    EXPERTS: _build_experts,
}


def _build_norm(spec: NemotronHSpec, name: str) -> Norm:
    return Norm(name=name, style="rms_cast_weight", size=spec.hidden_size)
