"""Fits that are rendered for a scheduler; pure."""

from dataclasses import dataclass

from service.formats.renderings.job import NO_OPTIONS, FormatOptions
from service.usecases.questions.fit import FitQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderingQuestion:
    """A fit question, and the format that is to start it.

    ``word`` is the format's, ``model_name`` what rendered objects are called by, ``checkpoints``
    ids on the Hugging Face hub of weights of the model's shape; ``image`` is None where a published
    one will do.
    """

    fit: FitQuestion
    word: str
    model_name: str
    checkpoints: tuple[str, ...] = ()
    image: str | None = None
    options: FormatOptions = NO_OPTIONS
