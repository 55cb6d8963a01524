"""Metadata of a GGUF model by the names of its own architecture."""

from collections.abc import Mapping

from service.estimator.values.errors import InvalidConfigError, NotModelledError
from service.formats.checkpoints.gguf_document import GgufModel

_TABLE = "token_embd.weight"
_LAYER = "blk.0."


class GgufFields:
    """Numbers of a file's metadata, and what its tensors say."""

    def __init__(self, model: GgufModel, architecture: str) -> None:
        """Read the tensors' names once."""
        self.metadata: Mapping[str, object] = model.metadata
        self._prefix = architecture
        self._shapes = {tensor.name: tensor.shape for tensor in model.tensors}
        self._tails = {name.partition(".")[2].partition(".")[2] for name in self._shapes}

    def get(self, key: str) -> int | None:
        """Return a number of the architecture, or None.

        Converters write some numbers layer by layer: equal ones are one. Raises NotModelledError
        where layers differ.
        """
        name = f"{self._prefix}.{key}"
        value = self.metadata.get(name)
        if isinstance(value, list | tuple) and value:
            if any(item != value[0] for item in value):
                what = f"{name} that differs from layer to layer"
                raise NotModelledError(what, field=f"metadata.{name}", modelled=["one number"])
            value = value[0]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            message = f"{name} is {value!r}; it must be a whole number, 0 or more"
            raise InvalidConfigError(message, field=f"metadata.{name}")
        return value

    def require(self, key: str) -> int:
        """Return a number that the architecture cannot do without.

        Raises InvalidConfigError where it is missing.
        """
        value = self.get(key)
        if not value:
            name = f"{self._prefix}.{key}"
            message = f"the metadata lack {name}, a whole number of 1 or more"
            raise InvalidConfigError(message, field=f"metadata.{name}")
        return value

    def read_windows(self) -> dict[str, object]:
        """Return the layers that slide: each of them, or every so many.

        Empty where the file leaves it to the architecture.
        """
        name = f"{self._prefix}.attention.sliding_window_pattern"
        pattern = self.metadata.get(name)
        if pattern is None:
            return {}
        if isinstance(pattern, list | tuple):
            kinds = ["sliding_attention" if slides else "full_attention" for slides in pattern]
            return {"layer_types": kinds}
        return {"sliding_window_pattern": pattern}

    def has(self, name: str) -> bool:
        """Return whether the model or a layer has a tensor."""
        return name in self._shapes or name in self._tails or f"{name}.bias" in self._tails

    @property
    def vocab_size(self) -> int:
        """Rows of the token table."""
        shape = self._shapes.get(_TABLE, ())
        if len(shape) != 2:  # noqa: PLR2004 - a table has rows and columns
            message = f"the file has no table {_TABLE}: is it one part of a split file?"
            raise InvalidConfigError(message, field="tensors")
        return shape[1]

    @property
    def head_dim(self) -> int:
        """Elements of one head."""
        stated = self.get("attention.key_length")
        return stated or self.require("embedding_length") // self.require("attention.head_count")
