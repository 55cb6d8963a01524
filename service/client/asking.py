"""Questions as JSON bodies.

Made of objects of the generated models or plain ones; fields that were not given are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from service.client.generated.models import (
    GpuByMemory,
    InlineModel,
    LayoutRequest,
    ServeRequest,
    TrainRequest,
)

Plain: TypeAlias = Mapping[str, Any]
"""An object of the contract as plain JSON; the server refuses a word that it does not know."""
Model: TypeAlias = str | InlineModel | Plain
Workload: TypeAlias = TrainRequest | ServeRequest | Plain
Gpu: TypeAlias = str | GpuByMemory | Plain
Layout: TypeAlias = LayoutRequest | Plain


class _Generated(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def build_body(**fields: object) -> dict[str, Any]:
    """Return a body of the fields that were given.

    ``None`` says that a field was not.
    """
    return {name: to_json(value) for name, value in fields.items() if value is not None}


def to_json(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value as JSON, generated models in it included."""
    match value:
        case str() | bytes() | None:
            return value
        case Mapping():
            return {name: to_json(item) for name, item in value.items()}
        case Sequence():
            return [to_json(item) for item in value]
        case _ if hasattr(value, "to_dict"):
            generated: _Generated = value
            return generated.to_dict()
        case _:
            return value
