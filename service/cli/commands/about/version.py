"""Print the version of this installation."""

import argparse
import sys
from importlib.metadata import version

DISTRIBUTION = "gpu-headroom"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(_options: argparse.Namespace) -> int:
    """Print ``headroom 0.1.0``."""
    sys.stdout.write(f"headroom {version(DISTRIBUTION)}\n")
    return 0
