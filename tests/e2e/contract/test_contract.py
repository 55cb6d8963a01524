"""Every operation under generated data, right and wrong: what is answered is what the OpenAPI
document says.
"""

from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from tests.e2e.access.conftest import make_key, until_known
from tests.e2e.contract.running import explore

# One seed and a few cases: `python -m tests.e2e.contract` runs three with thousands.
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


def test_generated_requests_without_a_key_are_refused_as_documented(address: str) -> None:
    """Without a key every operation refuses, in the documented words, whatever it is sent."""
    outcome = explore(address, key=None, seed=_SEED, examples=1, phases=("examples", "fuzzing"))

    assert outcome.is_clean, outcome.report
