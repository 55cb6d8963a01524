"""Fits that are rendered for a scheduler; pure."""

from dataclasses import dataclass

from service.formats.renderings.job import JobNames
from service.usecases.questions.fit import FitQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderingQuestion:
    """A fit question, and the format that is to start it.

    ``word`` is the format's.
    """

    fit: FitQuestion
    word: str
    names: JobNames
