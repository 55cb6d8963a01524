"""Storage format of quantised weights.

The packing of their codes, the reach of their scales, and the weights that stay as they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import chain
from typing import Any

from service.estimator.model.weights.name_patterns import check_patterns, is_any_named
from service.estimator.values.errors import InvalidConfigError


class Packing(StrEnum):
    """Library or format that lays out codes, scales and zero points.

    Each library lays its scales and zero points out in its own way.
    """

    BLOCKS_4BIT = "blocks_4bit"
    """bitsandbytes' nf4 and fp4: codes of 4 bits, one scale per block of 64"""
    INT8_ROWS = "int8_rows"
    """bitsandbytes' LLM.int8: one byte, one fp32 scale per row (arXiv:2208.07339)"""
    GPTQ = "gptq"
    """codes packed into 32-bit integers along the input, zero points along the output, a group
    index per input
    """
    AWQ = "awq"
    """codes and zero points packed into 32-bit integers along the output"""
    FP8 = "fp8"
    """one byte; a scale per tensor, per row or per rectangle"""
    MXFP4 = "mxfp4"
    """blocks of 32 codes of 4 bits with one exponent byte each (OCP Microscaling Formats 1.0)"""
    PACKED = "packed"
    """compressed-tensors: codes in 32-bit integers along the input, the shape beside them"""
    NVFP4 = "nvfp4"
    """blocks of 16 codes of 4 bits with one fp8 scale each, and an fp32 scale of the tensor
    (ModelOpt, compressed-tensors)
    """
    MX_BLOCKS = "mx_blocks"
    """blocks of 32 codes of 4 or 8 bits with one exponent byte each, in any linear layer (ModelOpt,
    compressed-tensors)
    """
    HQQ = "hqq"
    """codes in bytes, scale and zero point of every group in the dtype of the weights"""


class Scope(StrEnum):
    """Weights that a scheme applies to."""

    LINEARS = "linears"
    """``torch.nn.Linear`` modules: stacked experts are bare parameters, and stay (bitsandbytes in
    transformers 5)
    """
    EXPERTS = "experts"
    """stacked experts alone (mxfp4)"""
    ALL = "all"
    """both: the checkpoint has each expert as a linear layer of its own"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One format of quantised weights.

    ``group_size`` counts the inputs that share a scale, None all of a row; ``block`` are the rows
    and columns of an fp8 scale, None one for the full tensor; ``kept`` are patterns of module names
    that are not quantised, as transformers matches them.
    """

    packing: Packing
    bits: int = 4
    group_size: int | None = None
    block: tuple[int, int] | None = None
    scope: Scope = Scope.ALL
    double: bool = False
    """Whether the scales are quantised themselves, to 8 bits in blocks of 256 (arXiv:2305.14314,
    section 3).
    """
    per_row: bool = False
    """Whether an fp8 or 8-bit code has a scale for its row (compressed-tensors' ``channel``,
    fbgemm).
    """
    zero_points: bool = True
    group_index: bool = True
    scale_bytes: int = 2
    static_inputs: bool = False
    """Whether a scale for the layer's input is stored as well."""
    head: bool = False
    """Whether the output head is quantised too."""
    kept: tuple[str, ...] = ()
    fp8_cache: bool = False
    """Whether the checkpoint has scales of keys and values, which engines then keep in fp8."""
    only: tuple[str, ...] = ()
    """Patterns of the modules that it is for, in a mixture of formats; of all where there are none.
    """
    parts: tuple["Scheme", ...] = ()
    """Formats of other modules, each with its ``only``; ``kept`` is said of the whole."""

    def __post_init__(self) -> None:
        """Refuse more patterns than a model has modules."""
        check_patterns(self.kept)
        check_patterns(self.only)

    def select_format(self, *names: str) -> "Scheme | None":
        """Return the format of a module, ``None`` of 16 bits."""
        if self.is_excluded(*names):
            return None
        formats = (self, *self.parts)
        named = next((part for part in formats if part.is_for(*names)), None)
        return named or next((part for part in formats if not part.only), None)

    def is_for(self, *names: str) -> bool:
        """Return whether a module has this format of a mixture."""
        return is_any_named(self.only, names)

    def is_excluded(self, *names: str) -> bool:
        """Return whether the module of one of these names is excluded.

        An excluded module is not quantised; the names are full ones (transformers'
        ``should_convert_module``).
        """
        return is_any_named(self.kept, names)

    @property
    def has_layer_patterns(self) -> bool:
        """Whether a pattern could tell one layer from the next.

        It could by a number, or by a rule of its own.
        """
        return any(
            pattern.startswith("re:") or any(sign.isdigit() for sign in pattern)
            for pattern in chain(self.kept, self.only, *(part.only for part in self.parts))
        )

    def describe(self) -> dict[str, object]:
        """Return the values that differ from the defaults, as JSON."""
        values = {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if getattr(self, item.name) != item.default
        }
        return {
            name: [part.describe() if isinstance(part, Scheme) else part for part in value]
            if isinstance(value, tuple)
            else value
            for name, value in values.items()
        }


def read_scheme(described: Mapping[str, object]) -> Scheme:
    """Return the scheme that ``Scheme.describe`` wrote."""
    field_names = {item.name for item in fields(Scheme)}
    unknown = sorted(set(described) - field_names)
    if unknown:
        message = f"unknown field {unknown[0]!r}; known: {', '.join(sorted(field_names))}"
        raise InvalidConfigError(message, field=f"quantization.{unknown[0]}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in described.items()
    }
    try:
        if "parts" in values:
            values["parts"] = tuple(_read_part(part) for part in values["parts"])
        values |= {
            name: kind(values[name])
            for name, kind in (("packing", Packing), ("scope", Scope))
            if name in values
        }
        return Scheme(**values)
    except (TypeError, ValueError) as error:
        message = f"quantization cannot be read: {error}"
        raise InvalidConfigError(message, field="quantization") from error


def join_formats(formats: Iterable[Scheme]) -> Scheme:
    """Return a mixture of formats, whose rules are those of the narrowest."""
    main, *parts = sorted(formats, key=lambda scheme: scheme.bits)
    return replace(main, parts=tuple(parts))


def _read_part(described: object) -> Scheme:
    """Return one format of a mixture, which is none itself."""
    if not isinstance(described, Mapping) or "parts" in described:
        message = "a part is an object without parts"
        raise ValueError(message)
    return read_scheme(described)
