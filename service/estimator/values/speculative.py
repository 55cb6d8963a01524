"""Speculative decoding of a replica."""

from dataclasses import dataclass

from service.estimator.values.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculative:
    """Speculative decoding (arXiv:2211.17192).

    Tokens are guessed ahead, by a draft model or from the prompt's n-grams, and verified at once.
    ``config`` is the draft's config.json as text, None for n-grams; ``name`` is its name in the
    catalogue.
    """

    num_tokens: int
    config: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse a number of tokens below one."""
        if self.num_tokens < 1:
            message = f"num_tokens is {self.num_tokens}; it must be 1 or more"
            raise InvalidInputError(message, field="workload.speculative.num_tokens")
