"""Recorded architectures told from others, without what runs them.

Commands about families written by hand load no recordings.
"""

from typing import TYPE_CHECKING, TypeGuard

from service.estimator.model.recorded.walker import WALKER

if TYPE_CHECKING:
    from service.estimator.model.architecture import Architecture
    from service.estimator.model.recorded.architecture import RecordedArchitecture


def is_recorded(model: "Architecture") -> "TypeGuard[RecordedArchitecture]":
    """Return whether a model's passes were recorded."""
    return model.walker == WALKER
