"""What a worker says of its machine."""

import subprocess
import sys

from service.jobs.contract import ProbeDevice
from worker.machine import describe_worker, list_versions, parse_cpu_name

CPUINFO = "processor\t: 0\nvendor_id\t: x\nmodel name\t: Some CPU @ 2.00GHz\nflags\t: a b\n"


def test_the_cpu_is_named_as_the_kernel_names_it() -> None:
    """The first model name counts."""
    assert parse_cpu_name(CPUINFO) == "Some CPU @ 2.00GHz"


def test_a_cpu_without_a_name_has_that_of_its_architecture() -> None:
    """On other machines /proc/cpuinfo names none, or is not there."""
    assert parse_cpu_name("processor\t: 0\n")


def test_every_start_has_a_fresh_name() -> None:
    """A dead worker's row, or its key in Redis, never stands in the way of the next."""
    assert describe_worker(ProbeDevice.CPU).name != describe_worker(ProbeDevice.CPU).name


def test_versions_are_read_without_loading_what_they_are_of() -> None:
    """The worker stays thin."""
    program = (
        "import sys, worker.machine as m; print(m.list_versions()['torch'], 'torch' in sys.modules)"
    )

    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert told == [list_versions()["torch"], "False"]
