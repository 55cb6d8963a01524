"""Our readings against launchers' own parsers: ``python -m tests.corpus.parsers --python PYTHON``.

``PYTHON`` is an environment with axolotl, LLaMA-Factory, TRL or accelerate. ``--write`` keeps their
values of the samples for the suite; ``--clones`` compares every file of the corpus too.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from service.estimator.values.errors import InvalidInputError
from service.formats.launches.read_launch import read_launch
from service.formats.launches.values.launch import Launch
from tests.corpus.manifest import MANIFEST, read_entry, read_manifest
from tests.corpus.parsers.fields import FIELDS, list_differences
from tests.corpus.parsers.samples import list_texts, make_launch

VALUES = Path(__file__).with_name("values")
_PROJECTS = {
    "axolotl": "axolotl-ai-cloud/axolotl",
    "llamafactory": "hiyouga/LLaMA-Factory",
    "accelerate": "huggingface/accelerate",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and return 1 where a reading differs."""
    options = _build_parser().parse_args(arguments)
    differences = 0
    for parser in options.parser or FIELDS:
        samples = run_parser(options.python, parser, list_texts(parser))
        if options.write:
            path = VALUES / f"{parser}.json"
            text = json.dumps(samples, indent=1, sort_keys=True, ensure_ascii=False)
            path.write_text(text + "\n", encoding="utf-8")
        launches = {name: make_launch(parser, name) for name in samples}
        differences += _compare(parser, samples, launches)
        if options.clones is not None and parser in _PROJECTS:
            launches = _read_corpus(options.clones, _PROJECTS[parser])
            texts = {place: launch.files[0].content for place, launch in launches.items()}
            values = run_parser(options.python, parser, texts)
            differences += _compare(parser, values, launches)
    return int(differences > 0)


def run_parser(python: Path, parser: str, texts: Mapping[str, object]) -> dict[str, Any]:
    """Return a parser's own values of these texts by name."""
    script = Path(__file__).with_name(f"{parser}_values.py")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [python, script],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if run.returncode:
        message = f"{parser} cannot be run by {python}: {run.stderr[-500:]}"
        raise SystemExit(message)
    values: dict[str, Any] = json.loads(run.stdout)
    return values


def _compare(parser: str, values: Mapping[str, Any], launches: Mapping[str, Launch]) -> int:
    refused, compared, differing = 0, 0, 0
    for place, own in values.items():
        if "error" in own:
            refused += 1
            continue
        try:
            question = read_launch(launches[place]).question
        except InvalidInputError as error:
            sys.stdout.write(f"{place}: read by {parser}, refused here: {error.message}\n")
            continue
        compared += 1
        for field, expected, actual in list_differences(parser, own, question):
            differing += 1
            sys.stdout.write(f"{place}: {field} is {expected} by {parser}, {actual} here\n")
    sys.stdout.write(
        f"{parser}: {compared} compared, {differing} fields differ, {refused} it refuses itself\n"
    )
    return differing


def _read_corpus(clones: Path, repository: str) -> dict[str, Launch]:
    return {
        entry.place: read_entry(clones, entry)
        for entry in read_manifest(MANIFEST.read_text(encoding="utf-8"))
        if entry.repository == repository and entry.paths[0].endswith((".yaml", ".yml"))
    }


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.parsers", description=__doc__)
    parser.add_argument("--python", type=Path, required=True, help="interpreter that has them")
    parser.add_argument("--clones", type=Path, help="folder with a git clone owner+name of each")
    parser.add_argument("--parser", action="append", choices=[*FIELDS], help="one of them alone")
    parser.add_argument("--write", action="store_true", help="keep the samples' values")
    return parser


if __name__ == "__main__":
    sys.exit(main())
