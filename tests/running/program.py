"""The command in tests, with children at the priority of whoever waits for them."""

from service import __main__ as command
from service.runtime.children import starting


def main() -> int:
    """Run the command."""
    starting.FORK_SERVER = "tests.running.children"
    return command.main()
