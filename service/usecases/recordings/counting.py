"""Weights counted beside a server, where transformers is installed there."""

import re
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from service.base.packages import list_missing_packages
from service.estimator.model.families.registry import list_model_types
from service.estimator.values.errors import InvalidConfigError, UnknownModelTypeError
from service.runtime.logs import get_logger
from service.usecases.recordings.configs import Config, check_recordable
from service.usecases.recordings.recorder import (
    PACKAGES,
    RECORDER,
    Refused,
    StaticPart,
    count_weights,
)

DEADLINE_S = 20.0
"""Time by the clock; loading torch takes most of the few seconds that are needed."""
TURN_S = 5.0
"""How long a request waits for another's count, before it goes without."""
_MAPPINGS = Path("models", "auto", "auto_mappings.py")
_TYPE = re.compile(r'^[ \t]*+\("([\w.-]+)", "\w+Config"\),$', re.MULTILINE)
_log = get_logger(__name__)


class WeightCounter:
    """Counter of a config's weights, one config at a time."""

    def __init__(
        self,
        *,
        command: Sequence[str] = RECORDER,
        packages: Sequence[str] = PACKAGES,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Count through ``command``, where ``packages`` are installed."""
        self._command, self._packages, self._deadline_s = command, packages, deadline_s
        self._turn = threading.Lock()

    def __call__(self, config: Config) -> StaticPart | None:
        """Return a config's weights, None where only a worker can count them.

        Raises UnknownModelTypeError and InvalidConfigError for what transformers does not know or
        cannot build.
        """
        check_recordable(config)
        if list_missing_packages(self._packages):
            return None
        _check_type(str(config["model_type"]))
        if not self._turn.acquire(timeout=TURN_S):
            return None
        try:
            counted = count_weights(config, deadline_s=self._deadline_s, command=self._command)
        finally:
            self._turn.release()
        if isinstance(counted, StaticPart):
            return counted
        if isinstance(counted, Refused):
            raise InvalidConfigError(counted.message, field="model_type")
        _log.warning("weights.not_counted", outcome=repr(counted))
        return None


def _check_type(model_type: str) -> None:
    """Refuse a type that the installed transformers does not know.

    No process is started for it.
    """
    known = list_installed_types()
    if known and model_type not in known:
        raise UnknownModelTypeError(model_type, list_model_types())


@cache
def list_installed_types() -> frozenset[str]:
    """Return the types of the installed transformers.

    It is read, and not loaded, which takes seconds (transformers 5.23, ``auto_mappings.py``).
    """
    spec = find_spec("transformers")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        mappings = Path(folder) / _MAPPINGS
        if mappings.is_file():
            return frozenset(_TYPE.findall(mappings.read_text(encoding="utf-8")))
    return frozenset()
