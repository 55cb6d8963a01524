"""A system whose parts may be killed."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker

from tests.system import System, build_environment


@pytest.fixture
def system(sessions: sessionmaker[Session], database_url: str, tmp_path: Path) -> Iterator[System]:
    """Return a system whose processes end with the test; it has no Redis until a test brings
    one.
    """
    with ExitStack() as stack:
        yield System(
            sessions=sessions,
            environment=build_environment(database_url),
            dir=tmp_path,
            stack=stack,
        )
