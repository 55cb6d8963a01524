"""Fields of a model that a command brings along."""

from typing import Any

Brought = dict[str, Any]
"""Fields of a request's ``model``: its config or the header of its file, and the origin."""
