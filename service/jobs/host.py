"""Limits of a device as its probe measured them.

A plan rests on them and is sent with them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Limits of a device; ``None`` does not bound it.

    ``available_bytes`` is for tensors and their scratch, ``scratch_factor`` the room for both over
    the tensors alone; where a caching allocator ``reserves``, what it may reserve at most has to
    fit instead, by the estimate's own interval. Where nothing is computed, as under fake tensors,
    an operator takes the same time whatever its size: ``operators_per_second``.
    """

    available_bytes: int | None = None
    flops_per_second: float | None = None
    state_bytes_per_second: float | None = None
    operators_per_second: float | None = None
    scratch_factor: float = 1.0
    reserves: bool = False
    num_steps: int = 2
    """Training steps of one point."""

    @property
    def has_no_compute(self) -> bool:
        """Whether a run's time is independent of its tensors' sizes."""
        return self.flops_per_second is None and self.operators_per_second is not None
