"""What a device can bear, as its probe found it: what a plan rests on, told with it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a device can bear; what does not bound it is None.

    ``available_bytes`` is for tensors and their scratch, ``scratch_factor`` the room for both over the tensors alone; where a
    caching allocator ``reserves``, what it may reserve at most has to fit instead, by the estimate's own interval. Where
    nothing is computed, as under fake tensors, an operator takes the same time whatever its size: ``operators_per_second``.
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
    def computes_nothing(self) -> bool:
        """Whether a run takes as long whatever the size of its tensors."""
        return self.flops_per_second is None and self.operators_per_second is not None
