"""The files of the pages: read from the package, compressed once, named by a digest of all of them.

Scripts import each other by relative paths, so that one digest in the path renames them all at once, and a browser may keep
them for good.
"""

import gzip
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

PREFIX = "/static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}
_DIGEST_LETTERS = 16


@cache
def contents() -> Mapping[str, bytes]:
    """Return every file by its path below ``static``."""
    return dict(sorted(_walk(files("service.web.static"), "")))


@cache
def digest() -> str:
    """Return what changes when any file does."""
    whole = sha256()
    for name, body in contents().items():
        whole.update(name.encode() + b"\0" + sha256(body).digest())
    return whole.hexdigest()[:_DIGEST_LETTERS]


@cache
def compressed(name: str) -> bytes:
    """Return one file as gzip."""
    return gzip.compress(contents()[name], mtime=0)


def url_of(name: str) -> str:
    """Return the path under which a file is served; a template that names no file fails in its test."""
    if name not in contents():
        message = f"service/web/static has no {name!r}"
        raise LookupError(message)
    return f"{PREFIX}/{digest()}/{name}"


def media_type_of(name: str) -> str:
    """Return the content type of a file."""
    return f"{MEDIA_TYPES[name[name.rindex('.') :]]}; charset=utf-8"


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(tuple(MEDIA_TYPES)):
            yield prefix + entry.name, entry.read_bytes()
