"""Mamba-2: norm and mixer in every layer, a chunked scan.

There is no attention. Field names and defaults are those of transformers 5.23 (``models/mamba2``).
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.config_reader import Config, read_flag, read_integer, read_string
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.modules.ssm.mamba_block import MambaBlock
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.outputs import cast_logits
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast
from service.estimator.values.errors import InvalidConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2Spec(DecoderSpec):
    """Numbers of a Mamba-2 model.

    The heads are those of its state space; ``intermediate_size`` counts their channels.
    """

    state_size: int
    num_groups: int
    kernel_size: int
    chunk_size: int
    convolution_bias: bool = True
    fp32_residual: bool = True


SPEC = Mamba2Spec


def mamba2(config: Config) -> Mamba2Spec:
    """Return a Mamba-2."""
    hidden, heads, head_dim = (
        read_integer(config, name, default)
        for name, default in (("hidden_size", 4096), ("num_heads", 128), ("head_dim", 64))
    )
    expanded = int(float(str(config.get("expand", 2))) * hidden)
    if expanded != heads * head_dim:
        message = (
            f"num_heads {heads} x head_dim {head_dim} is not expand x hidden_size = {expanded}"
        )
        raise InvalidConfigError(message, field="num_heads")
    return Mamba2Spec(
        family=read_string(config, "model_type", "mamba2"),
        vocab_size=read_integer(config, "vocab_size", 32768),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 64),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=head_dim,
        intermediate_size=expanded,
        activation=read_string(config, "hidden_act", "silu"),
        mlp_bias=read_flag(config, "use_bias", default=False),
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        state_size=read_integer(config, "state_size", 128),
        num_groups=read_integer(config, "n_groups", 8),
        kernel_size=read_integer(config, "conv_kernel", 4),
        chunk_size=read_integer(config, "chunk_size", 256),
        convolution_bias=read_flag(config, "use_conv_bias", default=True),
        fp32_residual=read_flag(config, "residual_in_fp32", default=True),
    )


def build(spec: Mamba2Spec) -> Architecture:
    """Return the tree of a Mamba-2.

    The first layer stands apart, since its residual comes in the dtype of the embedding.
    """
    if spec.activation not in ACTIVATIONS:
        message = (
            f"activation {spec.activation!r} is not known; known: {', '.join(sorted(ACTIVATIONS))}"
        )
        raise InvalidConfigError(message, field="activation")
    if spec.num_attention_heads % spec.num_groups:
        message = f"n_groups {spec.num_groups} does not divide num_heads {spec.num_attention_heads}"
        raise InvalidConfigError(message, field="n_groups")
    block = MambaBlock(
        norm=_build_norm(spec, "norm"), mixer=_build_mixer(spec), fp32_residual=spec.fp32_residual
    )
    return Architecture(
        spec=spec,
        embedding=Weight("embeddings.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple((block, count) for count in (1, spec.num_hidden_layers - 1) if count),
        final_norm=_build_norm(spec, "norm_f"),
        head=Linear(
            name="lm_head",
            kind="lm_head",
            in_features=spec.hidden_size,
            out_features=spec.vocab_size,
        ),
        masks=(),
        recurrent=True,
        chunked=True,
        embed=_record_embedding,
        finish_hidden=_cast_to_weight_dtype,
        finish_logits=cast_logits,
    )


def _build_mixer(spec: Mamba2Spec) -> Mamba2Mixer:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    convolved = inner + 2 * spec.num_groups * spec.state_size
    return Mamba2Mixer(
        in_proj=_build_linear(
            "in_proj", hidden, inner + convolved + spec.num_attention_heads, bias=spec.mlp_bias
        ),
        out_proj=_build_linear("out_proj", inner, hidden, bias=spec.mlp_bias),
        name="mixer",
        num_heads=spec.num_attention_heads,
        head_dim=spec.head_dim,
        state_size=spec.state_size,
        num_groups=spec.num_groups,
        kernel_size=spec.kernel_size,
        chunk_size=spec.chunk_size,
        convolution_bias=spec.convolution_bias,
        activation=spec.activation,
        norm_groups=spec.num_groups,
    )


def _build_norm(spec: Mamba2Spec, name: str) -> Norm:
    return Norm(name=name, style="rms", size=spec.hidden_size)


def _build_linear(name: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=f"mixer.{name}", kind="ssm", in_features=ins, out_features=outs, bias=bias)


def _record_embedding(_: Recording, tokens: Value) -> EmbeddingOutput:
    return EmbeddingOutput(x=tokens)


def _cast_to_weight_dtype(ctx: Recording, hidden: Value) -> Value:
    return cast(ctx.tape, hidden, ctx.settings.dtype)
