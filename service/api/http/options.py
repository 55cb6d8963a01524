"""OPTIONS of every resource: the framework's own answer names the methods of one of several handlers (litestar#4169)."""

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import Receive, Scope, Send

from service.api.http.responses import Whole
from service.api.http.routing import allowed_methods


class Options:
    """An ASGI application around the routed one, which answers OPTIONS with all methods that a path has."""

    def __init__(self, app: Litestar) -> None:
        """Wrap ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer OPTIONS of a path that is routed, and leave everything else to the application."""
        if scope["type"] == ScopeType.HTTP and scope["method"] == "OPTIONS" and (found := self._methods(scope["path"])):
            await Whole(b"", status=204, headers=[(b"allow", found)])(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _methods(self, path: str) -> bytes:
        # Litestar takes /v1/models/ for /v1/models as well.
        return ", ".join(allowed_methods(self._app, path.rstrip("/") or "/")).encode()
