"""Static files of the pages.

Read from the package, compressed once, named by a digest of all of them. Scripts import each other
by relative paths, so that one digest in the path renames them all at once, and a browser may keep
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
def load_contents() -> Mapping[str, bytes]:
    """Return every file by its path below ``static``."""
    return dict(sorted(_walk(files("service.web.static"), "")))


@cache
def compute_digest() -> str:
    """Return a digest of all files."""
    combined = sha256()
    for name, body in load_contents().items():
        combined.update(name.encode() + b"\0" + sha256(body).digest())
    return combined.hexdigest()[:_DIGEST_LETTERS]


@cache
def compress_file(name: str) -> bytes:
    """Return one file as gzip."""
    return gzip.compress(load_contents()[name], mtime=0)


def get_url(name: str) -> str:
    """Return the path under which a file is served.

    A template that names no file fails in its test.
    """
    if name not in load_contents():
        message = f"service/web/static has no {name!r}"
        raise LookupError(message)
    return f"{PREFIX}/{compute_digest()}/{name}"


def get_media_type(name: str) -> str:
    """Return the content type of a file."""
    return f"{MEDIA_TYPES[name[name.rindex('.') :]]}; charset=utf-8"


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(tuple(MEDIA_TYPES)):
            yield prefix + entry.name, entry.read_bytes()
