"""Recordings from JSON values.

A document may come from anyone: every number that it names must be there, and what a backward frees
must be what it made.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from service.estimator.model.heads.config import count_predictors
from service.estimator.model.recorded.encoding import READ_FORMATS, compute_digest
from service.estimator.model.recorded.frame_reader import FrameReader
from service.estimator.model.recorded.inputs import INPUT_NUMBERS, InputKind, RecordedInput
from service.estimator.model.recorded.json_reader import MAX_SIZE, Reader
from service.estimator.model.recorded.layer_reader import read_layer, read_plan
from service.estimator.model.recorded.recorded_model import RecordedModel, RecordedSpec
from service.estimator.tape.programs.program import (
    Program,
)
from service.estimator.tape.programs.recorded_pass import Domain, RecordedPass
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError


def _read_optional(top: Reader, name: str, default: int) -> int:
    """Return a count that is written where it is not its default."""
    return top.get(name).read_count() if name in dict(top.entries()) else default


def _read_limits(top: Reader) -> Domain:
    return Domain(
        min_batch=max(_read_optional(top, "min_batch", 1), 1),
        max_length=_read_optional(top, "max_length", 0) or None,
        multiple_of=max(_read_optional(top, "length_step", 1), 1),
    )


def _read_input(top: Reader) -> RecordedInput | None:
    """Return what a model reads in place of tokens, if it does."""
    if "reads" not in dict(top.entries()):
        return None
    part = top.get("reads")
    kind = part.get("kind").read_choice(InputKind)
    return RecordedInput(
        name=part.get("name").read_text(),
        kind=kind,
        shape=tuple(axis.read_count() for axis in part.get("shape").items()),
        **{name: part.get(name).read_count() for name in INPUT_NUMBERS},
    )


MAX_STORAGES = 2**20
"""Storages of one pass, which each of its runs has a place for; a decoder has some hundreds."""
MAX_ORDER = 4096
"""Layers of a model, eight times those of the deepest stack that a config may have."""


def decode_recording(document: object, *, weights_only: bool = False) -> RecordedModel:
    """Return the recording of a document.

    One of weights only may lack passes. Raises InvalidInputError for what is no recording.
    """
    top = Reader(document, "recording")
    version = top.get("format").value
    if version not in READ_FORMATS:
        formats = " or ".join(map(str, READ_FORMATS))
        message = f"this recording has format {version!r}; it must be {formats}"
        raise InvalidInputError(message, field="format")
    sizes = [size.read_any_size() for size in top.get("sizes").items()]
    layers = tuple(read_layer(layer) for layer in top.get("layers").items())
    limits = _read_limits(top)
    order = top.get("order").read_indices(len(layers))
    frame = FrameReader(sizes)
    passes = {
        name: _read_pass(part, frame, len(layers), limits)
        for name, part in top.get("passes").entries()
    }
    if len(order) > MAX_ORDER:
        message = f"this recording has {len(order):,} layers; at most {MAX_ORDER:,} are answered"
        raise InvalidInputError(message, field="order")
    if not weights_only and (not passes or bool(layers) != bool(order)):
        # A model whose layers are no stack runs as one program, and has none.
        message = "this recording has no passes, or layers without an order; it must have both"
        raise InvalidInputError(message, field="layers")
    assert isinstance(document, Mapping)  # noqa: S101 - read as one
    return RecordedModel(
        spec=_read_spec(
            top.get("spec"), compute_digest(document), _find_text_config(document.get("config"))
        ),
        model_type=top.get("model_type").read_text(),
        model_class=top.get("model_class").read_text(),
        transformers=top.get("transformers").read_text(),
        torch=top.get("torch").read_text(),
        layers=layers,
        order=order,
        outer_weights=tuple(part.read_weight() for part in top.get("outer_weights").items()),
        outer_linears=tuple(part.read_linear() for part in top.get("outer_linears").items()),
        embedding=top.get("embedding").read_text(),
        head=top.get("head").read_text(),
        buffer_bytes=top.get("buffer_bytes").read_count(),
        buffer_elements=_read_optional(top, "buffer_elements", 0),
        rotary_elements=top.get("rotary_elements").read_count(),
        difference=_read_optional(top, "difference", 0),
        outer_plan=read_plan(top, "outer_plan"),
        reads=_read_input(top),
        passes=passes,
    )


_STATE_DTYPES: Mapping[object, DType] = MappingProxyType(
    {"float32": DType.FP32, "bfloat16": DType.BF16, "float16": DType.FP16}
)


def _find_text_config(config: object) -> Mapping[str, object]:
    """Return a recorded config's part about its language model."""
    if not isinstance(config, Mapping):
        return {}
    text = config.get("text_config")
    return text if isinstance(text, Mapping) else config


def _read_state_dtype(config: Mapping[str, object], name: str) -> DType | None:
    """Return a number format of states; None where the config names none."""
    word = config.get(name)
    if word is None:
        return None
    if not isinstance(word, str) or word not in _STATE_DTYPES:
        message = f"{name} is {word!r}; it must be one of {', '.join(map(str, _STATE_DTYPES))}"
        raise InvalidInputError(message, field=f"config.{name}")
    return _STATE_DTYPES[word]


def _read_spec(reader: Reader, digest: str, config: Mapping[str, object]) -> RecordedSpec:
    def count(name: str) -> int:
        return reader.get(name).read_count()

    return RecordedSpec(
        recording=digest,
        state_dtype=_read_state_dtype(config, "mamba_ssm_dtype"),
        cached_state_dtype=_read_state_dtype(config, "mamba_ssm_cache_dtype"),
        family=reader.get("family").read_text(),
        vocab_size=count("vocab_size"),
        hidden_size=count("hidden_size"),
        num_hidden_layers=count("num_hidden_layers"),
        num_attention_heads=count("num_attention_heads"),
        num_key_value_heads=count("num_key_value_heads"),
        head_dim=count("head_dim"),
        intermediate_size=count("intermediate_size"),
        activation=reader.get("activation").read_text(),
        tie_word_embeddings=reader.get("tie_word_embeddings").read_flag(),
        max_position_embeddings=count("max_position_embeddings"),
        num_experts=_read_optional(reader, "num_experts", 0),
        num_experts_per_token=_read_optional(reader, "num_experts_per_token", 0),
        num_predictors=count_predictors(config),
    )


def _enter_frame(part: Reader, document: FrameReader) -> FrameReader:
    """Return a reader of what a program of a document names."""
    return replace(
        document,
        num_values=len(part.get("values").read_list()),
        num_storages=part.get("num_storages").read_index(MAX_STORAGES),
    )


def _read_program(part: Reader, document: FrameReader) -> Program:
    frame = _enter_frame(part, document)
    return Program(
        values=frame.read_values(part.get("values")),
        num_storages=frame.num_storages,
        inputs=part.get("inputs").read_index(frame.num_values + 1),
        instructions=frame.read_instructions(part.get("instructions")),
        output=frame.value(part.get("output")),
    )


def _read_domain(part: Reader, limits: Domain) -> Domain:
    if "domain" not in dict(part.entries()):
        return limits
    fewest, largest, shortest, longest, multiple, no_multiple = part.get("domain").items(6)
    return Domain(
        min_batch=fewest.read_count(),
        max_batch=largest.read_optional_index(MAX_SIZE),
        min_length=shortest.read_count(),
        max_length=longest.read_optional_index(MAX_SIZE),
        multiple_of=max(multiple.read_count(), 1),
        no_multiple_of=no_multiple.read_count(),
    )


def _read_pass(part: Reader, document: FrameReader, kinds: int, limits: Domain) -> RecordedPass:
    frame = _enter_frame(part, document)
    return RecordedPass(
        values=frame.read_values(part.get("values")),
        num_storages=frame.num_storages,
        inputs=frame.values(part.get("inputs")),
        prologue=frame.read_instructions(part.get("prologue")),
        x=frame.value(part.get("x")),
        holds_x=part.get("holds_x").read_flag(),
        layer_args=frame.values(part.get("layer_args")),
        blocks=tuple(_read_program(block, frame) for block in part.get("blocks").items(kinds)),
        block_inputs=tuple(
            frame.values(inputs) for inputs in part.get("block_inputs").items(kinds)
        ),
        output=frame.value(part.get("output")),
        epilogue=frame.read_instructions(part.get("epilogue")),
        hidden=frame.value(part.get("hidden")),
        tail=frame.read_instructions(part.get("tail")),
        loss=part.get("loss").read_optional_index(frame.num_values),
        returned=frame.values(part.get("returned")),
        domain=_read_domain(part, limits),
    )
