"""Speculative decoding of a replica."""

from dataclasses import dataclass

from service.estimator.values.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculative:
    """Speculative decoding (arXiv:2211.17192).

    Tokens are guessed ahead, by a draft model or from the prompt's n-grams, and verified at once.
    ``config`` is the draft's config.json as text, ``spec`` our own specification of one that came
    otherwise; both None for n-grams. ``name`` is its name in the catalogue.
    """

    num_tokens: int
    config: str | None = None
    spec: str | None = None
    name: str | None = None

    @property
    def has_draft(self) -> bool:
        """Whether a model guesses, and not the prompt's n-grams."""
        return self.config is not None or self.spec is not None

    def __post_init__(self) -> None:
        """Refuse a number of tokens below one."""
        if self.num_tokens < 1:
            message = f"num_tokens is {self.num_tokens}; it must be 1 or more"
            raise InvalidInputError(message, field="workload.speculative.num_tokens")
