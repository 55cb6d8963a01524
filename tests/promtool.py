"""Prometheus' own tool, promtool, where it is installed.

Debian has it in the package prometheus.
"""

import os
import shutil
import subprocess

import pytest


def promtool(*arguments: str, text: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run promtool with ``text`` on its stdin.

    Where it is not installed the test is skipped, or fails under HEADROOM_REQUIRE_PROMTOOL=1.
    """
    program = shutil.which("promtool")
    if program is None:
        reason = (
            "promtool is not installed; on Debian: apt-get install --no-install-recommends "
            "prometheus"
        )
        if os.environ.get("HEADROOM_REQUIRE_PROMTOOL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return subprocess.run(
        [program, *arguments], input=text, capture_output=True, text=True, check=False, timeout=60
    )
