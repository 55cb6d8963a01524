"""Refusals that came from a server."""

from service.base.errors import ServiceError


class ServerRefusalError(ServiceError):
    """Refusal of a server that this program asked, with its problem document."""

    def __init__(self, document: dict[str, object]) -> None:
        """Keep the document; its ``detail`` says what happened."""
        super().__init__(str(document["detail"]))
        self.document = document
