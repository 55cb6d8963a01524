"""Serve tools for language models over stdin and stdout (Model Context Protocol): questions are
answered here, or by a server that is named, with its key.
"""

import argparse
from importlib import import_module
from importlib.util import find_spec

from service.base.errors import InvalidRequestError
from service.cli.answer_source import add_source, get_source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server that may answer."""
    add_source(parser, "stored models, clusters and measurements")


def run(options: argparse.Namespace) -> int:
    """Serve until stdin ends."""
    if find_spec("mcp") is None:
        message = "the SDK of the protocol is not installed: pip install 'gpu-headroom[mcp]'"
        raise InvalidRequestError(message)
    source = get_source(options)
    # What the protocol needs takes half a second to load, and no other command needs it.
    if source.url is None:
        import_module("service.cli.offline.mcp").serve()
    else:
        import_module("service.mcp.bridge").serve(source.url)
    return 0
