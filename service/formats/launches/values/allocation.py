"""GPUs that a scheduler gives a launch."""

from dataclasses import dataclass

from service.formats.launches.values.settings import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """GPUs of a job: ``per_node`` on each of ``num_nodes``.

    Either is None where it does not say. ``features`` are its words for them: alternatives of
    which one holds, several that all do.
    ``counts`` and ``names`` are the settings that say either. ``slice_profile`` is that of MIG
    slices in place of GPUs.
    """

    per_node: int | None = None
    num_nodes: int | None = None
    features: tuple[tuple[str, ...], ...] = ()
    counts: tuple[Setting, ...] = ()
    names: tuple[Setting, ...] = ()
    slice_profile: str | None = None
    hint: Setting | None = None
    """What may be named for its GPUs, such as a partition."""
    remarks: tuple[str, ...] = ()
    """What whoever asks should read of them."""

    @property
    def total(self) -> int | None:
        """All GPUs of the job."""
        if self.per_node is None or self.num_nodes is None:
            return None
        return self.per_node * self.num_nodes
