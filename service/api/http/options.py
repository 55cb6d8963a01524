"""OPTIONS of every resource.

The framework's own answer names the methods of one of several handlers (litestar#4169).
"""

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import Receive, Scope, Send

from service.api.http.responses import BytesResponse
from service.api.http.routing import list_allowed_methods


class OptionsMiddleware:
    """Middleware that answers OPTIONS with all methods of a path."""

    def __init__(self, app: Litestar) -> None:
        """Wrap ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer OPTIONS of routed paths, pass everything else on."""
        if (
            scope["type"] == ScopeType.HTTP
            and scope["method"] == "OPTIONS"
            and (allowed := self._list_methods(scope["path"]))
        ):
            await BytesResponse(b"", status=204, headers=[(b"allow", allowed)])(
                scope, receive, send
            )
        else:
            await self._app(scope, receive, send)

    def _list_methods(self, path: str) -> bytes:
        # Litestar takes /v1/models/ for /v1/models as well.
        return ", ".join(list_allowed_methods(self._app, path.rstrip("/") or "/")).encode()
