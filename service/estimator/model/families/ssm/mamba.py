"""Mamba and Falcon Mamba: norm and mixer in every layer, no attention.

Field names and defaults are those of transformers 5.23 (``models/mamba``, ``models/falcon_mamba``).
"""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, Embedded
from service.estimator.model.config_reader import Config, flag, integer, word
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.modules.ssm.mamba import MambaBlock, MambaMixer, unread_adapters
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast, chain
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError
from service.estimator.values.units import ceil_div

HIDDEN_PER_STEP_RANK = 16
"""``time_step_rank`` "auto" is a sixteenth of the hidden size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaSpec(DecoderSpec):
    """A Mamba: ``intermediate_size`` counts the mixer's channels; it has no heads."""

    state_size: int
    step_rank: int
    kernel_size: int
    convolution_bias: bool = True
    normalised: bool = False
    fp32_residual: bool = True


SPEC = MambaSpec


def mamba(config: Config) -> MambaSpec:
    """Return a Mamba."""
    hidden = integer(config, "hidden_size", 768)
    automatic = config.get("time_step_rank", "auto") == "auto"
    bias = flag(config, "use_bias", default=False)
    return MambaSpec(
        family=word(config, "model_type", "mamba"),
        vocab_size=integer(config, "vocab_size", 50280),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "num_hidden_layers", 32),
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=1,
        intermediate_size=integer(config, "expand", 2) * hidden,
        activation=word(config, "hidden_act", "silu"),
        mlp_bias=bias,
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=True),
        state_size=integer(config, "state_size", 16),
        step_rank=ceil_div(hidden, HIDDEN_PER_STEP_RANK) if automatic else integer(config, "time_step_rank"),
        kernel_size=integer(config, "conv_kernel", 4),
        convolution_bias=flag(config, "use_conv_bias", default=True),
        fp32_residual=flag(config, "residual_in_fp32", default=True),
    )


def falcon_mamba(config: Config) -> MambaSpec:
    """Return a Falcon Mamba: norms without weights on what a token selects."""
    return replace(mamba(config), normalised=True)


def build(spec: MambaSpec) -> Architecture:
    """Return the tree: the first layer apart, since its residual comes in the dtype of the embedding."""
    if spec.activation not in ACTIVATIONS:
        message = f"activation {spec.activation!r} is not known; known: {', '.join(sorted(ACTIVATIONS))}"
        raise InvalidConfigError(message, field="activation")
    block, layers = _block(spec), spec.num_hidden_layers
    dummies = spec.normalised * (spec.intermediate_size + 2 * spec.state_size)  # weights that only a kernel would take
    return Architecture(
        spec=spec,
        embedding=Weight("embeddings.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple((block, count) for count in (1, layers - 1) if count),
        final_norm=_norm(spec, "norm_f"),
        head=Linear(name="lm_head", kind="lm_head", in_features=spec.hidden_size, out_features=spec.vocab_size),
        masks=(),
        buffer_elements=dummies * layers,
        layer_buffer_elements=dummies,
        recurrent=True,
        never_trained=unread_adapters("mixer"),
        embed=_embedded,
        finish_hidden=_in_the_heads_dtype,
        finish_logits=_in_fp32,
    )


def _block(spec: MambaSpec) -> MambaBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    mixer = MambaMixer(
        entry=_linear("in_proj", hidden, 2 * inner, bias=spec.mlp_bias),
        selection=_linear("x_proj", inner, spec.step_rank + 2 * spec.state_size),
        step=_linear("dt_proj", spec.step_rank, inner, bias=True),
        output=_linear("out_proj", inner, hidden, bias=spec.mlp_bias),
        inner_size=inner,
        state_size=spec.state_size,
        step_rank=spec.step_rank,
        kernel_size=spec.kernel_size,
        convolution_bias=spec.convolution_bias,
        activation=spec.activation,
        normalised=spec.normalised,
    )
    return MambaBlock(norm=_norm(spec, "norm"), mixer=mixer, fp32_residual=spec.fp32_residual)


def _norm(spec: MambaSpec, name: str) -> Norm:
    return Norm(name=name, style="rms", size=spec.hidden_size)


def _linear(name: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=f"mixer.{name}", kind="ssm", in_features=ins, out_features=outs, bias=bias)


def _embedded(_: Recording, tokens: Value) -> Embedded:
    return Embedded(x=tokens)


def _in_the_heads_dtype(run: Recording, hidden: Value) -> Value:
    return cast(run.tape, hidden, run.dtype)


def _in_fp32(run: Recording, logits: Value) -> Value:
    return chain(run.tape, logits, lambda t, x: cast(t, x, DType.FP32))
