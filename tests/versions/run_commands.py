"""Commands of an installed command line, in one process: ``python run_commands.py PACKAGE``.

It reads commands as JSON from stdin, and writes for each its code and outputs. It imports nothing
of this repository: an older version runs it.
"""

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module


def main() -> None:
    """Run every command in turn."""
    program = import_module(f"{sys.argv[1]}.__main__").main
    made = ""
    for words in json.load(sys.stdin):
        command = [word.replace("{id}", made) for word in words]
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = program(command)
            except SystemExit as error:
                code = error.code
        made = read_id(out.getvalue()) or made
        told = {"command": words, "code": code, "out": out.getvalue(), "err": err.getvalue()}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def read_id(text: str) -> str:
    """Return the id of what was made, as JSON or as a line; empty where nothing was."""
    try:
        answer = json.loads(text)
    except ValueError:
        line = text.strip()
        return line if re.fullmatch(r"[0-9a-f-]{36}", line) else ""
    return str(answer.get("id", "")) if isinstance(answer, dict) else ""


if __name__ == "__main__":
    main()
