"""Sweep of many configurations on a GPU: ``python -m tests.gpu.sweep --out sweep.jsonl``.

Needs torch, transformers, peft, msgspec and nvidia-ml-py, and no server of any kind. Run again with
the same file it goes on where it was ended; ``python -m tests.gpu.sweep.report sweep.jsonl`` makes
tables of it.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from service.estimator.values.units import format_bytes
from service.jobs.contract import ProbeDevice
from tests.gpu.sweep.case import Case, Header, Measurement, Row, read_lines
from tests.gpu.sweep.cases import list_cases
from tests.gpu.sweep.child import CaseResult
from tests.gpu.sweep.predict import get_device, predict
from tests.gpu.sweep.runner import build_child_command, open_pool, run_all

_OF_THE_CASE = frozenset({"allocator", "attention_kernel"})
METHOD = (
    "python -m tests.gpu.sweep: each case in a fresh process, random weights; on cuda 2 cold "
    "steps, 3 timed by CUDA events, 1 whose peaks are read between marks; device bytes by NVML at "
    "100 Hz"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases that the file does not have yet."""
    options = _build_parser().parse_args(arguments)
    header, rows = read_lines(options.out.read_bytes()) if options.out.exists() else (None, [])
    if header is not None and header.device != options.device:
        sys.stderr.write(
            f"{options.out} was measured on device {header.device}, not {options.device}: name "
            "another file\n"
        )
        return 2
    remaining = find_remaining(filter_cases(list_cases(), options.only), rows)
    file = DataFile(path=options.out, device=options.device, header=header)
    until = time.monotonic() + 60 * options.minutes
    command, log = build_child_command(options.device), options.out.with_suffix(".log")
    with open_pool(command, ahead=options.ahead, num_cases=len(remaining), log=log) as pool:
        num_run = run_all(remaining, pool, until=until, on_answer=file.take)
    sys.stdout.write(
        f"{num_run} of {len(remaining)} cases run, {len(rows)} were there; {options.out}\n"
    )
    return 0 if num_run == len(remaining) else 1


def filter_cases(cases: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """Return the cases of these groups, or all."""
    return [case for case in cases if not only or case.group in only]


def find_remaining(cases: Sequence[Case], rows: Sequence[Row]) -> list[Case]:
    """Return the cases without an outcome.

    A case that failed is run again.
    """
    done = {row.case.name for row in rows if row.failed is None}
    return [case for case in cases if case.name not in done]


class DataFile:
    """The lines of a sweep, each written when its case is done."""

    def __init__(
        self,
        *,
        path: Path,
        device: str,
        header: Header | None,
        write: Callable[[str], object] = sys.stdout.write,
    ) -> None:
        """Continue after the lines that the file has."""
        self._path, self._device, self._header, self._write = path, device, header, write
        self._drop_partial_line()

    def take(self, case: Case, answer: CaseResult, seconds: float) -> None:
        """Write the outcome of a case.

        The first outcome with an environment names the file's.
        """
        if self._header is None and answer.environment:
            self._header = Header(
                date=datetime.now(UTC).strftime("%Y-%m-%d"),
                device=self._device,
                how=METHOD,
                environment=answer.environment,
            )
            self._append(self._header)
        environment = {} if self._header is None else self._header.environment
        row = Row(
            case=case,
            predicted=predict(case, get_device(environment)),
            measured=answer.measured,
            refused=answer.refused,
            failed=answer.failed or self._describe_difference(answer),
            seconds=round(seconds, 2),
        )
        self._append(row)
        self._write(f"{describe(row)}\n")

    def _describe_difference(self, answer: CaseResult) -> str | None:
        """Describe how a case's environment differs from the others'.

        The settings of the allocator, and the kernel that attention took, are the case's own.
        """
        if self._header is None or not answer.environment:
            return None
        expected, actual = (
            {key: value for key, value in environment.items() if key not in _OF_THE_CASE}
            for environment in (self._header.environment, answer.environment)
        )
        return (
            None if actual == expected else f"measured on {actual}, and the file is of {expected}"
        )

    def _append(self, line: Header | Row) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")

    def _drop_partial_line(self) -> None:
        if self._path.exists():
            text = self._path.read_bytes()
            self._path.write_bytes(text[: text.rfind(b"\n") + 1])


def describe(row: Row) -> str:
    """Return one line about an outcome."""
    outcome = (
        row.failed
        or row.refused
        or ("" if row.measured is None else _format_numbers(row.measured, row))
    )
    return f"{row.seconds:6.1f} s  {row.case.name}: {outcome}"


def _format_numbers(measured: Measurement, row: Row) -> str:
    if measured.out_of_memory_at is not None:
        return f"out of memory at {format_bytes(measured.out_of_memory_at)}"
    error = (
        ""
        if row.predicted is None
        else f" (predicted {row.predicted.allocated_bytes / measured.live_bytes - 1:+.2%})"
    )
    reserved = (
        ""
        if measured.reserved_bytes is None
        else f", reserved {format_bytes(measured.reserved_bytes)}"
    )
    return f"live {format_bytes(measured.live_bytes)}{error}{reserved}"


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.sweep", description=__doc__)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="the data file, JSON lines; what it has is not run again",
    )
    parser.add_argument(
        "--device", choices=[device.value for device in ProbeDevice], default=ProbeDevice.CUDA.value
    )
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="how long it may take (default %(default)s)"
    )
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="GROUP", help="run these groups only, as in smoke"
    )
    parser.add_argument(
        "--ahead",
        type=int,
        default=3,
        help="processes that import while one works (default %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
