"""Speculative decoding of a replica."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.errors import InvalidInputError


class DraftHead(StrEnum):
    """Layers that guess from the hidden states of the model itself."""

    MTP = "mtp"
    """the model's own layers of multi-token prediction (arXiv:2412.19437, section 2.2)"""
    EAGLE = "eagle"
    """a draft of the last hidden state (arXiv:2401.15077)"""
    EAGLE3 = "eagle3"
    """a draft of several layers' hidden states, with a head of its own (arXiv:2503.01840)"""


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
    head: DraftHead | None = None
    """What reads the model's hidden states; None where a whole model drafts, or nobody."""

    @property
    def has_draft(self) -> bool:
        """Whether a model guesses, and not the prompt's n-grams."""
        return self.config is not None or self.spec is not None

    def __post_init__(self) -> None:
        """Refuse numbers below one, and heads without a checkpoint."""
        if self.num_tokens < 1:
            message = f"num_tokens is {self.num_tokens}; it must be 1 or more"
            raise InvalidInputError(message, field="workload.speculative.num_tokens")
        if self.head is DraftHead.MTP and self.has_draft:
            message = "head mtp is layers of the model itself: leave the draft out"
            raise InvalidInputError(message, field="workload.speculative.draft")
        if self.head in {DraftHead.EAGLE, DraftHead.EAGLE3} and not self.has_draft:
            message = (
                f"head {self.head} reads the config of its checkpoint: say it as the draft, by "
                "hf_config or hub"
            )
            raise InvalidInputError(message, field="workload.speculative.draft")
