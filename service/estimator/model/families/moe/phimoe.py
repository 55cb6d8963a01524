"""Phi-3.5-MoE: experts, layer norms and a sampling router.

Field names and defaults are those of transformers 5.23 (``models/phimoe``).
"""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.mlp.experts import Experts, SparseFeedForward
from service.estimator.model.modules.mlp.sparse_mixer import SparseMixerRouter
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.values.errors import InvalidConfigError, NotModelledError

CHOICES = 2
"""Number of experts that the router samples, whatever ``num_experts_per_tok`` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhimoeSpec(DecoderSpec):
    """A Phi-MoE: every layer has experts of ``intermediate_size``."""

    head_bias: bool = False


SPEC = PhimoeSpec


def phimoe(config: Config) -> PhimoeSpec:
    """Return a Phi-MoE."""
    if config.get("input_jitter_noise"):
        what = f"input_jitter_noise {config['input_jitter_noise']}"
        raise NotModelledError(what, field="input_jitter_noise", modelled=["input_jitter_noise: 0"])
    hidden, heads = (
        read_integer(config, "hidden_size", 4096),
        read_integer(config, "num_attention_heads", 32),
    )
    bias = read_flag(config, "attention_bias", default=False)
    per_token = read_integer(config, "num_experts_per_tok", CHOICES)
    if per_token != CHOICES:
        message = f"num_experts_per_tok is {per_token}; phimoe's router always chooses {CHOICES}"
        raise InvalidConfigError(message, field="num_experts_per_tok")
    window = config.get("sliding_window")
    return PhimoeSpec(
        family=read_string(config, "model_type", "phimoe"),
        vocab_size=read_integer(config, "vocab_size", 32064),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 32),
        num_attention_heads=heads,
        num_key_value_heads=read_integer(config, "num_key_value_heads", 8),
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "intermediate_size", 6400),
        activation=read_string(config, "hidden_act", "silu"),
        norm="layer",
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        attention_bias=bias,
        attention_output_bias=bias,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 131072),
        num_experts=read_integer(config, "num_local_experts", 16),
        num_experts_per_token=per_token,
        sliding_window=None if window is None else read_integer(config, "sliding_window"),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        head_bias=read_flag(config, "lm_head_bias", default=False),
    )


def build(spec: PhimoeSpec) -> Architecture:
    """Return the tree of a plain decoder with experts.

    The experts take the place of its feed-forward layers.
    """
    plain = build_decoder(spec)
    block = plain.blocks[0][0]
    assert isinstance(block, Block)  # noqa: S101 - build_decoder makes no other
    assert isinstance(block.attention, Attention)  # noqa: S101 - nor another attention
    sparse = replace(
        block,
        attention=replace(block.attention, upcast_softmax=True),
        feed_forward=_build_feed_forward(spec),
    )
    return replace(
        plain,
        blocks=((sparse, spec.num_hidden_layers),),
        head=replace(plain.head, bias=spec.head_bias),
    )


def _build_feed_forward(spec: PhimoeSpec) -> SparseFeedForward:
    router = SparseMixerRouter(
        name="mlp.router", hidden_size=spec.hidden_size, num_experts=spec.num_experts
    )
    experts = Experts(
        name="mlp.experts",
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        num_experts=spec.num_experts,
        num_experts_per_token=spec.num_experts_per_token,
        activation=spec.activation,
    )
    return SparseFeedForward(router=router, experts=experts)
