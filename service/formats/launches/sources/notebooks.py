"""Notebooks as the Python of their cells (nbformat 4 and 3)."""

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from service.formats.launches.values.errors import LaunchFormatError

SUFFIX = ".ipynb"
_MAGICS = ("!", "%", "?")
"""Beginnings of lines that IPython takes for itself."""
_PYTHON_MAGICS = ("%%capture", "%%time", "%%timeit")
"""Magics of a cell whose other lines are Python."""


def is_python(name: str) -> bool:
    """Return whether a file is a Python script, or a notebook."""
    return PurePosixPath(name).suffix.casefold() in {".py", SUFFIX}


def read_notebook(name: str, text: str) -> str:
    """Return the Python of a notebook's cells, joined line by line.

    What a shell is told, and cells in other languages, are left out. Raises LaunchFormatError for
    what is no notebook.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        message = "is no notebook: it is not JSON"
        raise LaunchFormatError(message, where=name) from None
    cells = _list_cells(document)
    if not cells:
        message = "is no notebook of Python: it has no cell of code"
        raise LaunchFormatError(message, where=name)
    return "\n".join(_keep_python(cell) for cell in cells) + "\n"


def drop_outputs(text: str) -> str:
    """Return a notebook with nothing but its code.

    Another text is returned as it is. Outputs are pictures and tables of a run, often of megabytes.
    """
    try:
        cells = _list_cells(json.loads(text))
    except (ValueError, RecursionError):
        return text
    code = [{"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"cells": code}) if code else text


def _list_cells(document: object) -> list[str]:
    """Return the code of cells, which nbformat 3 has in worksheets."""
    sheets: list[object] = [*_list_objects(document, "worksheets")] or [document]
    return [
        _join(cell.get("source", cell.get("input")))
        for sheet in sheets
        for cell in _list_objects(sheet, "cells")
        if cell.get("cell_type") == "code"
    ]


def _list_objects(document: object, name: str) -> list[Mapping[str, object]]:
    value = document.get(name) if isinstance(document, Mapping) else None
    entries = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _join(source: object) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source or "")


def _keep_python(cell: str) -> str:
    """Return a cell without magics; empty lines where it is no Python."""
    first = cell.lstrip()
    code = "\n".join(_iter_lines(cell))
    is_other = first.startswith("%%") and not first.startswith(_PYTHON_MAGICS)
    try:
        if not is_other:
            ast.parse(code)
            return code
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return "\n" * cell.count("\n")


def _iter_lines(cell: str) -> Iterator[str]:
    """Yield lines with ``pass`` in place of what is IPython's."""
    is_magic = False
    for line in cell.split("\n"):
        code = line.lstrip()
        continues, is_magic = is_magic, (is_magic or code.startswith(_MAGICS))
        if not is_magic:
            yield line
        else:
            yield "" if continues else f"{line[: len(line) - len(code)]}pass"
        is_magic = is_magic and line.rstrip().endswith("\\")
