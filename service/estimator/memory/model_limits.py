"""Limits of a model itself.

They are sequences beyond its positions, and kernels that its attention cannot use.
"""

from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.workload import Attention


def check_sequence(
    model: Architecture, tokens: int, *, field: str = "workload.sequence_length"
) -> None:
    """Raise InvalidInputError for more tokens than a model has learned positions."""
    spec = model.spec
    if isinstance(model, EncoderDecoder) and model.encoder.length is not None:
        return  # its tokens are the decoder's, which have a word of their own
    if not spec.rotary and 0 < spec.max_position_embeddings < tokens:
        message = (
            f"{tokens} tokens, but {spec.family} has learned positions for "
            f"{spec.max_position_embeddings}"
        )
        raise InvalidInputError(message, field=field)


def check_attention(model: Architecture, attention: Attention) -> None:
    """Raise for a kernel that cannot run the model's scores.

    It cannot cap them, or takes no bias.
    """
    if (
        isinstance(model, EncoderDecoder)
        and model.biased
        and attention in {Attention.FLASH, Attention.MATH}
    ):
        what = f"attention {attention.value!r} of {model.family}, whose scores get a bias"
        raise NotModelledError(
            what, field="workload.attention", modelled=["eager", "sdpa", "efficient"]
        )
    if model.only_eager and attention not in {Attention.EAGER, Attention.SDPA}:
        what = (
            f"attention {attention.value!r} of a model that caps its scores "
            "(attn_logit_softcapping)"
        )
        raise NotModelledError(
            what, field="workload.attention", modelled=["eager", "sdpa, which falls back to eager"]
        )


def list_attention_warnings(model: Architecture, attention: Attention) -> tuple[str, ...]:
    """Return warnings about a kernel that a model does not run."""
    if attention is Attention.EAGER or not (model.writes_out_attention or model.only_eager):
        return ()
    return (
        (
            f"attention {attention.value} has no effect: {model.family} runs the attention that "
            "its own code writes out"
        ),
    )
