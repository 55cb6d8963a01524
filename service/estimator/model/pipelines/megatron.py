"""Splits of Megatron-LM: uneven ends, places for embedding and loss, layout strings.

``core/transformer/transformer_block.py`` (``get_num_layers_to_build``),
``core/transformer/pipeline_parallel_layer_layout.py``.
"""

import re

from service.estimator.model.pipelines.chunks import Chunk, build_chunks
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout

LAYOUT_FIELD = "layout.pipeline_model_parallel_layout"
_MAX_LETTERS = 16_384
_MAX_DIGITS = len(str(_MAX_LETTERS)) + 1
"""As many digits as make a number larger than that; how many more there are changes nothing."""
_REPEATS = (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)")
"""Repeated groups, then repeated letters."""


def split_evenly(layout: Layout, num_layers: int) -> tuple[Chunk, ...]:
    """Return chunks of equal numbers of layers."""
    num_chunks = layout.pipeline_parallel * layout.virtual_pipeline_stages
    if num_layers % num_chunks:
        raise _make_refusal(layout, num_layers)
    return build_chunks((num_layers // num_chunks,) * num_chunks)


def split_with_uneven_ends(layout: Layout, num_layers: int) -> tuple[Chunk, ...]:
    """Return chunks with other numbers of layers at the ends.

    The stages between share the others evenly.
    """
    split, stages = layout.pipeline_split, layout.pipeline_parallel
    first = split.num_layers_in_first_pipeline_stage
    last = split.num_layers_in_last_pipeline_stage
    left = num_layers - (first or 0) - (last or 0)
    between = stages - (first is not None) - (last is not None)
    ends = f"{first or 0} layers on the first and {last or 0} on the last stage"
    if left < 0 or (left % between if between else left):
        message = f"{ends} leave {left} of {num_layers} layers for the {between} stages between"
        raise InvalidInputError(f"{message}, which do not divide", field=split.field)
    middle = left // between if between else 0
    by_stage = [middle] * stages
    if first is not None:
        by_stage[0] = first
    if last is not None:
        by_stage[-1] = last
    return build_chunks(_interleave(layout, by_stage))


def split_with_places(layout: Layout, num_layers: int) -> tuple[Chunk, ...]:
    """Return chunks where embedding or loss stands for a layer."""
    split = layout.pipeline_split
    first = int(split.account_for_embedding_in_pipeline_split)
    last = int(split.account_for_loss_in_pipeline_split)
    places = num_layers + first + last
    if places % layout.pipeline_parallel:
        message = (
            f"{num_layers} layers and {first + last} places for embedding and loss are {places}, "
            f"which {layout.pipeline_parallel} stages do not divide"
        )
        raise InvalidInputError(message, field=split.field)
    counts = list(
        _interleave(layout, [places // layout.pipeline_parallel] * layout.pipeline_parallel)
    )
    counts[0] -= first
    counts[-1] -= last
    return build_chunks(tuple(counts))


def _interleave(layout: Layout, by_stage: list[int]) -> tuple[int, ...]:
    """Return the layers of each chunk, in the order of the model."""
    virtual = layout.virtual_pipeline_stages
    uneven = next((count for count in by_stage if count % virtual), None)
    if uneven is not None:
        message = (
            f"virtual_pipeline_stages {virtual} does not divide the {uneven} layers of a stage"
        )
        raise InvalidInputError(message, field="layout.virtual_pipeline_stages")
    return tuple(count // virtual for count in by_stage) * virtual


def split_by_string(layout: Layout, num_layers: int) -> tuple[Chunk, ...]:
    """Return the chunks of a layout string such as ``Ettt|(tt|)*29,m|L``.

    ``E`` is the embedding, ``t`` a layer, ``m`` a layer that predicts a further token, ``L`` the
    loss; bars part the chunks.
    """
    rows = read_layout_string(layout.pipeline_split.pipeline_model_parallel_layout or "")
    num_chunks = layout.pipeline_parallel * layout.virtual_pipeline_stages
    if len(rows) != num_chunks:
        message = (
            f"the layout has {len(rows)} chunks, but pipeline_parallel "
            f"{layout.pipeline_parallel} x virtual_pipeline_stages "
            f"{layout.virtual_pipeline_stages} is {num_chunks}"
        )
        raise InvalidInputError(message, field=LAYOUT_FIELD)
    letters = "".join(rows)
    _check_letters(letters, num_layers)
    starts = [letters_before.count("t") for letters_before in _list_beginnings(rows)]
    return tuple(
        Chunk(
            first_layer=start,
            num_layers=row.count("t"),
            has_embedding="E" in row,
            has_loss="L" in row,
            num_predictors=row.count("m"),
        )
        for start, row in zip(starts, rows, strict=True)
    )


def read_layout_string(text: str) -> tuple[str, ...]:
    """Return a layout string's chunks, each by its letters.

    Raises InvalidInputError for letters that are none of ``E``, ``t``, ``m`` and ``L``.
    """
    unrolled = text.replace(",", "").replace(" ", "")
    for pattern in _REPEATS:
        unrolled = re.sub(pattern, _repeat, unrolled)
        _check_length(len(unrolled))
    unknown = sorted(set(unrolled) - set("EtmL|"))
    if unknown:
        message = (
            f"{', '.join(unknown)} in the layout: E is the embedding, t a layer, m a multi-token "
            "prediction layer, L the loss, | parts chunks, ()*n repeats"
        )
        raise InvalidInputError(message, field=LAYOUT_FIELD)
    return tuple(unrolled.split("|"))


def _repeat(match: re.Match[str]) -> str:
    """Return a group as often as it says, within the limit."""
    count = match[2].lstrip("0")
    _check_length(len(match[1]) * int(count[:_MAX_DIGITS] or 0))
    return match[1] * int(count or 0)


def _check_length(num_letters: int) -> None:
    if num_letters > _MAX_LETTERS:
        message = f"the layout has more than {_MAX_LETTERS} letters"
        raise InvalidInputError(message, field=LAYOUT_FIELD)


def _check_letters(letters: str, num_layers: int) -> None:
    """Refuse layouts that Megatron-LM's ``validate_layer_layout`` refuses."""
    wrong = None
    if not letters.startswith("E") or letters.count("E") != 1:
        wrong = "begins with the embedding E, which is there once"
    elif not letters.endswith("L") or letters.count("L") != 1:
        wrong = "ends with the loss L, which is there once"
    elif letters.count("t") != num_layers:
        wrong = f"has {letters.count('t')} layers t, but the model has {num_layers}"
    elif "m" in letters and "t" in letters[letters.index("m") :]:
        wrong = "has every layer t before the multi-token prediction layers m"
    if wrong:
        must = "the layout" if wrong.startswith("has ") and "but" in wrong else "a layout"
        raise InvalidInputError(f"{must} {wrong}", field=LAYOUT_FIELD)


def _list_beginnings(rows: tuple[str, ...]) -> list[str]:
    return ["".join(rows[:index]) for index in range(len(rows))]


def _make_refusal(layout: Layout, num_layers: int) -> InvalidInputError:
    """Return the error for stages that do not divide the layers."""
    virtual = layout.virtual_pipeline_stages
    interleaved = f" x {virtual} interleaved" if virtual > 1 else ""
    possible = ", ".join(str(n) for n in range(1, num_layers + 1) if num_layers % n == 0)
    chunks = layout.pipeline_parallel * virtual
    uneven = ""
    if chunks <= num_layers:
        counts = ", ".join(str(count) for count in spread_layers(num_layers, chunks))
        uneven = f", or say pipeline_layers [{counts}]"
    message = (
        f"pipeline_parallel {layout.pipeline_parallel}{interleaved} does not divide {num_layers} "
        f"layers into equal stages; stages in all may be {possible}{uneven}"
    )
    name = "virtual_pipeline_stages" if virtual > 1 else "pipeline_parallel"
    return InvalidInputError(message, field=f"layout.{name}")


def spread_layers(num_layers: int, num_chunks: int) -> tuple[int, ...]:
    """Return an uneven split.

    Layers that are left over go before the last chunk: it has the head and the loss as well, the
    first keeps the most micro-batches.
    """
    per_chunk, extra = divmod(num_layers, num_chunks)
    first = max(num_chunks - 1 - extra, 0)
    return tuple(per_chunk + (first <= index < first + extra) for index in range(num_chunks))
