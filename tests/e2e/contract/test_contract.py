"""Every operation under generated data, right and wrong: what is answered is what the OpenAPI
document says.
"""

from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from tests.e2e.access.conftest import make_key, until_known
from tests.e2e.contract.running import explore

# One seed and a few cases: `python -m tests.e2e.contract` runs three with thousands, and without a
# key as well. That each operation wants one is what `tests/e2e/access/test_every_route.py` says.
_SEED = 7


def test_generated_requests_are_answered_as_documented(
    address: str, sessions: sessionmaker[Session]
) -> None:
    """With an admin's key: no 5xx, nothing undocumented, nothing accepted that the document
    forbids, no key ignored.
    """
    key = make_key(sessions, Scope.ADMIN)
    until_known(address, key)

    outcome = explore(
        address, key=key, seed=_SEED, examples=2, phases=("examples", "fuzzing", "stateful")
    )

    assert outcome.is_clean, outcome.report
