"""The fastest answer that this server stack can give.

It is a raw ASGI application with a constant body.
"""

from collections.abc import Awaitable, Callable, MutableMapping

Message = MutableMapping[str, object]
BODY = b'{"ok":true}'


async def app(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Read the request and answer with a constant."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})
