"""Recorded architectures told from others, without what runs them.

Commands about families written by hand load no recordings.
"""

from typing import TYPE_CHECKING, TypeGuard

from service.estimator.model.recorded.walker import WALKER

if TYPE_CHECKING:
    from service.estimator.model.architecture import Architecture
    from service.estimator.model.recorded.architecture import RecordedArchitecture
    from service.estimator.model.recorded.outer_layers import OuterLayer


def is_recorded(model: "Architecture") -> "TypeGuard[RecordedArchitecture]":
    """Return whether a model's passes were recorded."""
    return model.walker == WALKER


def get_unread_names(model: "Architecture") -> frozenset[str]:
    """Return the names of trainable tensors that no step reads.

    A recorded model's tower is one, and so are adapters on its layers.
    """
    return model.unread_names if is_recorded(model) else frozenset()


def get_outer_layers(model: "Architecture") -> "tuple[OuterLayer, ...]":
    """Return the layers beside a recorded stack that a step runs."""
    return model.outer_layers if is_recorded(model) else ()


def shares_gradients(model: "Architecture") -> bool:
    """Return whether recorded layers hand gradients to one tensor beside their input."""
    return is_recorded(model) and model.shares_gradients
