"""Refusals of the estimator.

EstimatorError (ValueError)
 ├── InvalidInputError      a value or a combination that no framework could run
 ├── InvalidConfigError     a config.json that lacks or contradicts something
 ├── UnknownModelTypeError  a model_type that no family file claims
 └── NotModelledError       legal, but this version has no term for it: refused, never guessed
"""

from collections.abc import Sequence
from difflib import get_close_matches


class EstimatorError(ValueError):
    """Base of every refusal of the estimator.

    ``field`` is the dotted path of the offending value, ``decided_by`` are those of all that decide
    it beside the model and the GPU: None where that is not known.
    """

    decided_by: frozenset[str] | None = None

    def __init__(self, message: str, *, field: str | None = None) -> None:
        """Store the message and the path of its field."""
        super().__init__(message)
        self.message = message
        self.field = field


class InvalidInputError(EstimatorError):
    """A value, or a combination of values, that cannot run."""


class InvalidConfigError(EstimatorError):
    """A model configuration that lacks a field or contradicts itself."""


class UnknownModelTypeError(EstimatorError):
    """A ``model_type`` that no family claims; names the nearest known ones."""

    def __init__(self, model_type: str, known_types: Sequence[str]) -> None:
        """Build the message from the unknown, the nearest and all known types."""
        near = get_close_matches(model_type, known_types, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(
            f"model_type {model_type!r} is not known.{hint} Known: "
            f"{', '.join(sorted(known_types))}. Any other type of transformers is recorded: "
            "`headroom models add NAME --config config.json` has a server do it (POST /v1/models), "
            "`headroom models record config.json` does it here; its document goes as recording.",
            field="model_type",
        )
        self.model_type = model_type
        self.known_types = tuple(sorted(known_types))


class NotModelledError(EstimatorError):
    """A legal request for which there is no term yet.

    Its message names what is modelled instead.
    """

    def __init__(self, what: str, *, field: str, modelled: Sequence[str]) -> None:
        """Build the message from the unmodelled feature and the modelled ones."""
        super().__init__(
            f"Not modelled yet, and nothing is guessed: {what}; modelled: {', '.join(modelled)}.",
            field=field,
        )
        self.modelled = tuple(modelled)
