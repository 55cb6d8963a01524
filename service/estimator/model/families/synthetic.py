"""Synthetic model of which only the size is known.

It has the shape that published models of that size have. Depth over width, feed-forward over width
and vocabulary are those of Llama 2 and 3, Mistral and Qwen2.5 between 0.5e9 and 72e9 parameters:
about one layer per 128 of hidden size, 128 per head, 8 key/value heads, an inner size of 3.5 times
the hidden size, a vocabulary of 128,256. The depth is then chosen so that the parameters come as
near to the requested number as one layer allows.
"""

from service.estimator.model.architecture import Architecture
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.units import ceil_div

HEAD_DIM = 128
NUM_KEY_VALUE_HEADS = 8
VOCAB_SIZE = 128_256
MAX_HIDDEN_SIZE = 64 * 1024
MIN_PARAMETERS, MAX_PARAMETERS = 100_000_000, 2_000_000_000_000


def build_synthetic_architecture(num_parameters: int) -> Architecture:
    """Return a llama of about ``num_parameters``.

    Raises InvalidInputError outside of 1e8 to 2e12.
    """
    if not MIN_PARAMETERS <= num_parameters <= MAX_PARAMETERS:
        message = (
            f"num_parameters is {num_parameters}; a rough answer exists from {MIN_PARAMETERS:.0e} "
            f"to {MAX_PARAMETERS:.0e}"
        )
        raise InvalidInputError(message, field="model.num_parameters")
    step = HEAD_DIM * NUM_KEY_VALUE_HEADS
    widths = (step // 2, *range(step, MAX_HIDDEN_SIZE, step))
    return min(
        (_fit_depth(width, num_parameters) for width in widths),
        key=lambda model: _compute_shape_penalty(model, num_parameters),
    )


def _fit_depth(hidden_size: int, num_parameters: int) -> Architecture:
    """Return the model of a width with the best depth.

    Its size comes nearest to the requested number of parameters.
    """
    single_layer = build_decoder(_build_spec(hidden_size, 1))
    per_layer = single_layer.parameter_counts().largest_block
    layers = max(
        1, round((num_parameters - single_layer.parameter_counts().outside_blocks) / per_layer)
    )
    return build_decoder(_build_spec(hidden_size, layers))


def _compute_shape_penalty(model: Architecture, num_parameters: int) -> float:
    """Compute how unusual a model's shape and size are.

    It is how far depth over width is from one layer per 128, plus how far the size is off.
    """
    aspect = model.num_hidden_layers * HEAD_DIM / model.spec.hidden_size
    return abs(aspect - 1) + 10 * abs(model.parameter_counts().total / num_parameters - 1)


def _build_spec(hidden_size: int, num_layers: int) -> DecoderSpec:
    heads = hidden_size // HEAD_DIM
    tied = hidden_size <= 2048  # noqa: PLR2004 - Llama 3.2 and Qwen2.5 tie up to this width
    return DecoderSpec(
        family="scaled",
        vocab_size=VOCAB_SIZE,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=heads,
        num_key_value_heads=min(heads, NUM_KEY_VALUE_HEADS),
        head_dim=HEAD_DIM,
        intermediate_size=HEAD_DIM * ceil_div(7 * hidden_size, 2 * HEAD_DIM),
        activation="silu",
        tie_word_embeddings=tied,
        approximate=True,
    )
