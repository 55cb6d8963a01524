"""Limits of control groups."""

from pathlib import Path

import pytest

from service.runtime.memory_limit import read_memory_limit

V1 = "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "2147483648\n"}, 2**31),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/pods/one\n",
                "sys/fs/cgroup/pods/memory.max": "1000000\n",
                "sys/fs/cgroup/pods/one/memory.max": "max\n",
            },
            1_000_000,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/docker/a\n1:cpu:/b\n0::/\n",
                f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
                f"{V1}/docker/a/memory.limit_in_bytes": "1000000\n",
            },
            1_000_000,
        ),
        # Of a container the path is the host's, and its own group is what is mounted.
        (
            {
                "proc/self/cgroup": "4:memory:/docker/a\n",
                f"{V1}/memory.limit_in_bytes": "1000000\n",
            },
            1_000_000,
        ),
        ({"proc/self/cgroup": "0::/../other\n", "sys/fs/cgroup/memory.max": "5000\n"}, 5000),
    ],
    ids=["nowhere", "v2", "v2 without", "v2 above", "v1", "v1 in a container", "v2 elsewhere"],
)
def test_the_least_limit_of_the_groups_counts(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    """A process may take what its group and all above it may."""
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    assert read_memory_limit(tmp_path) == limit
