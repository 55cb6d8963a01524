"""Files that a user names, read as JSON objects.

A refusal names the place of the fault.
"""

import json
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError


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
    except RecursionError:
        message = f"{path} is nested too deeply"
        raise InvalidRequestError(message) from None
    if not isinstance(document, dict):
        message = f"{path} must hold a JSON object, and holds {type(document).__name__}"
        raise InvalidRequestError(message)
    return document


def read_config(path: Path) -> dict[str, Any]:
    """Return the config.json in a file.

    ModelOpt's ``hf_quant_config.json`` beside it counts where it has no quantisation of its own.
    """
    config = read_object(path)
    companion = path.with_name("hf_quant_config.json")
    if "quantization_config" not in config and companion.is_file():
        config |= {"quantization_config": read_object(companion)}
    return config
