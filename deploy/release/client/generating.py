"""Generation of `service/client/generated` from the OpenAPI document.

It has openapi-python-client's models and calls, without its client.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, rmtree

from deploy.release.client.document import build_client_document

ROOT = Path(__file__).resolve().parents[3]
TARGET = ROOT / "service" / "client" / "generated"
_TEMPLATES = Path(__file__).with_name("templates")
# The hand-written layer has a client and errors of its own.
_UNUSED = ("client.py", "errors.py")
_RUFF = "ruff {} --isolated --line-length 128 --target-version py311 {} ."
_CONFIG = {
    "literal_enums": True,
    "post_hooks": [
        _RUFF.format("check", "--fix-only --select F401,I,UP,Q"),
        _RUFF.format("format", ""),
    ],
}


def generate(scratch: Path) -> Path:
    """Generate the client into a directory below ``scratch``.

    Returns the directory. Raises RuntimeError with all output of the generator.
    """
    source, config, target = (
        scratch / "openapi.json",
        scratch / "config.json",
        scratch / "generated",
    )
    source.write_text(json.dumps(build_client_document()))
    config.write_text(json.dumps(_CONFIG))
    command = [
        sys.executable,
        "-m",
        "openapi_python_client",
        "generate",
        "--path",
        str(source),
        "--config",
        str(config),
    ]
    command += [
        "--meta",
        "none",
        "--output-path",
        str(target),
        "--custom-template-path",
        str(_TEMPLATES),
    ]
    # Its hooks look for ruff on the path; the one beside this interpreter is the pinned one.
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    process = subprocess.run(  # noqa: S603 - every word is ours
        [*command, "--fail-on-warning"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if process.returncode:
        raise RuntimeError(process.stdout + process.stderr)
    for name in _UNUSED:
        (target / name).unlink()
    return target


def write(generated: Path) -> None:
    """Replace the committed client by the generated one."""
    if TARGET.exists():
        rmtree(TARGET)
    copytree(generated, TARGET)


def read_contents(directory: Path) -> dict[str, str]:
    """Return the text of every module below a directory."""
    return {
        str(file.relative_to(directory)): file.read_text()
        for file in sorted(directory.rglob("*.py"))
    }
