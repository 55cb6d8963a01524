"""The table that a bare ``nvidia-smi`` prints: GPUs above, processes below."""

import re
from collections.abc import Iterable

from service.formats.measured.reading import MIB, Place, Quantity, Reading

TABLE = re.compile(r"^\| NVIDIA-SMI [0-9.]+", re.MULTILINE)
_LONGEST = 200
"""Columns of the table are narrower; a longer line is none of it."""
_VERSIONS = re.compile(r"Driver Version: ([0-9.]{1,30})")
_CUDA = re.compile(r"CUDA Version: ([0-9.]{1,20})")
_GPU = re.compile(r"\| {1,5}([0-9]{1,3}) {1,4}(\S.{0,60}?) {1,40}(?:On|Off|N/A) *\|")
_MEMORY = re.compile(r"\| {1,10}([0-9]{1,7})MiB / {1,10}[0-9]{1,7}MiB \|")
_PROCESS = re.compile(
    r"\| {1,6}([0-9]{1,3}) {1,6}(?:(?:N/A|[0-9]{1,3}) {1,6}(?:N/A|[0-9]{1,3}) {1,6})?([0-9]{1,10}) {1,8}"  # noqa: E501
    r"(C|C\+G|M\+C) {1,6}(\S.{0,120}?) {1,60}([0-9]{1,7})MiB \|",
)


def read_table(lines: Iterable[tuple[int, str]]) -> tuple[list[Reading], dict[str, str]]:
    """Return the readings and versions of printed tables.

    There is one table, or many one after another; versions are in their heads.
    """
    readings: list[Reading] = []
    environment: dict[str, str] = {}
    gpu = Place()
    names: dict[str, str] = {}
    for number, line in lines:
        if len(line) > _LONGEST:
            continue
        if (driver := _VERSIONS.search(line)) is not None:
            environment.setdefault("driver", driver[1])
            environment |= (
                {"driver_cuda": cuda_version[1]} if (cuda_version := _CUDA.search(line)) else {}
            )
        elif (process := _PROCESS.search(line)) is not None:
            place = Place(
                gpu=process[1],
                gpu_name=names.get(process[1]),
                pid=int(process[2]),
                process=process[4],
            )
            readings.append(_make_reading(process[5], Quantity.DEVICE, place, number))
        elif (named := _GPU.search(line)) is not None:
            gpu = Place(gpu=named[1], gpu_name=named[2])
            names[named[1]] = named[2]
        elif (memory := _MEMORY.search(line)) is not None and gpu.gpu is not None:
            readings.append(_make_reading(memory[1], Quantity.DEVICE_TOTAL_USED, gpu, number))
    return readings, environment


def _make_reading(mib: str, quantity: Quantity, place: Place, line: int) -> Reading:
    value = int(mib) * MIB
    return Reading(
        quantity=quantity,
        value=value,
        low=max(0, value - MIB),
        high=value + MIB,
        place=place,
        line=line,
        sampled=True,
    )
