"""Children of tests' servers, at the priority of whoever waits for them.

A nice one gets a ninth of what each test beside it gets, and its client waits for minutes.
"""

import sys

from service.runtime.children import child, fork_server


def main() -> int:
    """Start children as the service does."""
    child.NICENESS = 0
    return fork_server.main()


if __name__ == "__main__":
    sys.exit(main())
