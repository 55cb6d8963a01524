"""A model on a hub, named and read."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HubReference:
    """A model on a hub, and for whom.

    ``revision`` is a branch, a tag or a commit, ``file`` one of several GGUF files.
    """

    repository: str
    revision: str = "main"
    file: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """A model as it was read at a commit."""

    repository: str
    commit: str
    source: Mapping[str, object]
    file: str | None = None
    index: Mapping[str, object] | None = None
    header: Mapping[str, object] | None = None

    @property
    def origin(self) -> str:
        """Name that stays true."""
        name = f"{self.repository} at {self.commit}"
        return name if self.file is None else f"{name}, {self.file}"
