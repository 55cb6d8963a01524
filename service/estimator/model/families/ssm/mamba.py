"""Mamba and Falcon Mamba: norm and mixer in every layer, no attention.

Field names and defaults are those of transformers 5.23 (``models/mamba``, ``models/falcon_mamba``).
"""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.config_reader import Config, read_flag, read_integer, read_string
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.ssm.mamba import MambaMixer, list_unread_adapters
from service.estimator.model.modules.ssm.mamba_block import MambaBlock
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.outputs import cast_logits
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast
from service.estimator.values.errors import InvalidConfigError
from service.estimator.values.units import ceil_div

HIDDEN_PER_STEP_RANK = 16
"""``time_step_rank`` "auto" is a sixteenth of the hidden size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaSpec(DecoderSpec):
    """Numbers of a Mamba model, which has no heads.

    ``intermediate_size`` counts the mixer's channels.
    """

    state_size: int
    step_rank: int
    kernel_size: int
    convolution_bias: bool = True
    normalised: bool = False
    fp32_residual: bool = True


SPEC = MambaSpec


def mamba(config: Config) -> MambaSpec:
    """Return a Mamba."""
    hidden = read_integer(config, "hidden_size", 768)
    automatic = config.get("time_step_rank", "auto") == "auto"
    bias = read_flag(config, "use_bias", default=False)
    return MambaSpec(
        family=read_string(config, "model_type", "mamba"),
        vocab_size=read_integer(config, "vocab_size", 50280),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 32),
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=1,
        intermediate_size=read_integer(config, "expand", 2) * hidden,
        activation=read_string(config, "hidden_act", "silu"),
        mlp_bias=bias,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        state_size=read_integer(config, "state_size", 16),
        step_rank=ceil_div(hidden, HIDDEN_PER_STEP_RANK)
        if automatic
        else read_integer(config, "time_step_rank"),
        kernel_size=read_integer(config, "conv_kernel", 4),
        convolution_bias=read_flag(config, "use_conv_bias", default=True),
        fp32_residual=read_flag(config, "residual_in_fp32", default=True),
    )


def falcon_mamba(config: Config) -> MambaSpec:
    """Return a Falcon Mamba.

    It has norms without weights on steps, B and C of a token.
    """
    return replace(mamba(config), normalised=True)


def build(spec: MambaSpec) -> Architecture:
    """Return the tree of a Mamba.

    The first layer stands apart, since its residual comes in the dtype of the embedding.
    """
    if spec.activation not in ACTIVATIONS:
        message = (
            f"activation {spec.activation!r} is not known; known: {', '.join(sorted(ACTIVATIONS))}"
        )
        raise InvalidConfigError(message, field="activation")
    block, layers = _build_block(spec), spec.num_hidden_layers
    dummies = spec.normalised * (
        spec.intermediate_size + 2 * spec.state_size
    )  # weights that only a kernel would take
    return Architecture(
        spec=spec,
        embedding=Weight("embeddings.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple((block, count) for count in (1, layers - 1) if count),
        final_norm=_build_norm(spec, "norm_f"),
        head=Linear(
            name="lm_head",
            kind="lm_head",
            in_features=spec.hidden_size,
            out_features=spec.vocab_size,
        ),
        masks=(),
        buffer_elements=dummies * layers,
        layer_buffer_elements=dummies,
        recurrent=True,
        never_trained=list_unread_adapters("mixer"),
        embed=_record_embedding,
        finish_hidden=_cast_to_weight_dtype,
        finish_logits=cast_logits,
    )


def _build_block(spec: MambaSpec) -> MambaBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    mixer = MambaMixer(
        in_proj=_build_linear("in_proj", hidden, 2 * inner, bias=spec.mlp_bias),
        x_proj=_build_linear("x_proj", inner, spec.step_rank + 2 * spec.state_size),
        dt_proj=_build_linear("dt_proj", spec.step_rank, inner, bias=True),
        out_proj=_build_linear("out_proj", inner, hidden, bias=spec.mlp_bias),
        inner_size=inner,
        state_size=spec.state_size,
        step_rank=spec.step_rank,
        kernel_size=spec.kernel_size,
        convolution_bias=spec.convolution_bias,
        activation=spec.activation,
        normalised=spec.normalised,
    )
    return MambaBlock(norm=_build_norm(spec, "norm"), mixer=mixer, fp32_residual=spec.fp32_residual)


def _build_norm(spec: MambaSpec, name: str) -> Norm:
    return Norm(name=name, style="rms", size=spec.hidden_size)


def _build_linear(name: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=f"mixer.{name}", kind="ssm", in_features=ins, out_features=outs, bias=bias)


def _record_embedding(_: Recording, tokens: Value) -> EmbeddingOutput:
    return EmbeddingOutput(x=tokens)


def _cast_to_weight_dtype(ctx: Recording, hidden: Value) -> Value:
    return cast(ctx.tape, hidden, ctx.settings.dtype)
