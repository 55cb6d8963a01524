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


def get_unread_names(model: "Architecture") -> frozenset[str]:
    """Return the names of trainable tensors that no step reads.

    A recorded model's tower is one, and so are adapters on its layers.
    """
    return model.unread_names if is_recorded(model) else frozenset()
