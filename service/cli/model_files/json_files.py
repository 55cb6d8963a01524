"""Files that a user names, read as JSON objects.

A refusal names the place of the fault.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError

STDIN = "-"
"""Name of the standard input, where a file is named."""


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        # PowerShell begins the files that it writes with a byte order mark.
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise InvalidRequestError(message) from None
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 (byte {error.start})"
        raise InvalidRequestError(message) from None
    except json.JSONDecodeError as error:
        message = f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidRequestError(message) from None
    except ValueError as error:
        message = f"{path} is no JSON that is read: {error}"
        raise InvalidRequestError(message) from None
    except RecursionError:
        message = f"{path} is nested too deeply"
        raise InvalidRequestError(message) from None
    if not isinstance(document, dict):
        message = f"{path} must hold a JSON object, and holds {type(document).__name__}"
        raise InvalidRequestError(message)
    return document


def read_bounded_file(name: str, limit: int) -> dict[str, str]:
    """Return a file or stdin as a request's text or base64."""
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as handle:
                data = handle.read(limit + 1)
    except OSError as error:
        message = f"cannot read {name}: {error.strerror}"
        raise InvalidRequestError(message) from None
    content = _encode_content(data)
    if len(data) > limit or len(next(iter(content.values()))) > limit:
        message = (
            f"{name} has more than the {limit:,} bytes that a server reads at once: cut a log to "
            "its end, or leave the server out"
        )
        raise InvalidRequestError(message)
    return content


def _encode_content(data: bytes) -> dict[str, str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return {"content_base64": base64.b64encode(data).decode()}
    # No JSON of the API holds a NUL, and a log may.
    return {"content": text.replace("\0", "")}


def read_config(path: Path) -> dict[str, Any]:
    """Return the config.json in a file.

    ModelOpt's ``hf_quant_config.json`` beside it counts where it has no quantisation of its own.
    """
    config = read_object(path)
    companion = path.with_name("hf_quant_config.json")
    if "quantization_config" not in config and companion.is_file():
        config |= {"quantization_config": read_object(companion)}
    return config
