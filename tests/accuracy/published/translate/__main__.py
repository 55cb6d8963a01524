"""``python -m tests.accuracy.published.translate FOLDER [FAMILY …]``: published figures into
questions of the contract.

``FOLDER`` holds one file of collected figures per source family. Each module in ``sources``
translates the rows of the file of its name; what it makes of them is kept under
``tests/data/truth/published``, one case a line, with the reasons of the rows that were left out.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.accuracy.published.rows import PUBLISHED, SKIPPED, Untranslatable, case_of, skipped_rows

_GPUS = {
    "NVIDIA A100": "A100-SXM4-80GB",
    "NVIDIA A100 80GB": "A100-SXM4-80GB",
    "NVIDIA H100": "H100-SXM5-80GB",
    "NVIDIA H200": "H200-SXM5-141GB",
    "AMD MI300X": "MI300X-192GB",
    "RTX 4090": "RTX-4090",
    "RTX A6000": "RTX-A6000",
}
"""What sources call the GPUs whose memory their rows state in another way."""
Row = Mapping[str, Any]
Translate = Callable[[Row], Iterator[dict[str, Any]]]


def translators() -> dict[str, Translate]:
    """Return the translator of each source family."""
    here = Path(__file__).parent
    files = sorted((here / "sources").rglob("*.py"), key=lambda file: file.stem)
    dotted = {file.stem: ".".join(file.relative_to(here).with_suffix("").parts) for file in files}
    modules = {
        name: import_module(f"tests.accuracy.published.translate.{path}")
        for name, path in dotted.items()
    }
    return {
        getattr(one, "FAMILY", name): one.translate
        for name, one in modules.items()
        if hasattr(one, "translate")
    }


def translate_all(
    rows: list[Row], translate: Translate
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the translated cases, and the reasons of the rows that were left out."""
    cases: list[dict[str, Any]] = []
    reasons: Counter[str] = Counter()
    for row in rows:
        try:
            made = list(translate(row))
        except Untranslatable as reason:
            reasons[str(reason)] += 1
            continue
        cases += [_timed(row) | case for case in made]
    return cases, reasons


def _timed(row: Row) -> dict[str, Any]:
    """Return what a row says of time, and on which GPU of the catalogue."""
    stated = (row.get("hardware") or {}).get("gpu")
    on = {"timed_on": _GPUS[stated]} if stated in _GPUS else {}
    return {"throughput": row.get("throughput") or {}, **on}


def main(folder: Path, names: list[str]) -> None:
    """Write the files of the given families, or of all."""
    skipped = {family: dict(reasons) for family, reasons in skipped_rows().items()}
    for name, translate in translators().items():
        if names and name not in names:
            continue
        cases, reasons = translate_all(
            json.loads((folder / f"{name}.json").read_bytes()), translate
        )
        for case in cases:
            case_of(case)  # refuses a line that cannot be read back
        lines = [json.dumps(case, separators=(",", ":"), ensure_ascii=False) for case in cases]
        (PUBLISHED / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        skipped[name] = dict(sorted(reasons.items()))
        sys.stdout.write(f"{name}: {len(cases)} cases, {sum(reasons.values())} rows left out\n")
    SKIPPED.write_text(
        json.dumps(dict(sorted(skipped.items())), indent=1, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
