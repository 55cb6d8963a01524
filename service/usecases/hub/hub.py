"""A hub as one process asks it.

It is allowed or not, a few models are read at a time, and what was read is kept.
"""

import hmac
import threading
import time
from collections import OrderedDict
from hashlib import sha256
from secrets import token_bytes

import httpx

from service.base.hub_errors import HubOffError, HubUnavailableError
from service.runtime.settings import Settings
from service.usecases.hub.addresses import GuardedTransport, HubPolicy
from service.usecases.hub.models import fetch_commit, fetch_model
from service.usecases.hub.reading import HubReader
from service.usecases.hub.values import HubModel, HubReference

MAX_FETCHES = 4
"""Models that are read at once: each holds a thread for some seconds."""
MAX_KEPT = 64
REVISION_S = 60.0
"""How long a branch is taken for the commit that it was."""


class Hub:
    """Reads models from a hub and keeps them by commit.

    What a token was shown is kept apart from what others were shown; of the token itself a keyed
    digest stays, whose key ends with the process.
    """

    def __init__(
        self, policy: HubPolicy | None, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        """Ask nothing yet; without a policy every model is refused."""
        self._policy = policy
        self._transport = transport or (GuardedTransport(policy) if policy is not None else None)
        self._slots = threading.BoundedSemaphore(MAX_FETCHES)
        self._lock = threading.Lock()
        self._secret = token_bytes(32)
        self._models: OrderedDict[tuple[object, ...], HubModel] = OrderedDict()
        self._commits: dict[tuple[object, ...], tuple[float, str, frozenset[str]]] = {}

    def fetch(self, reference: HubReference) -> HubModel:
        """Return a model, by three requests or from what was read before.

        Raises HubOffError, HubRefusedError, HubContentError or HubUnavailableError.
        """
        if self._policy is None or self._transport is None:
            message = (
                "this server reaches out to no hub: its operator sets HEADROOM_HUB=true to allow "
                "it. Send the model's config.json as hf_config; `headroom models push` does"
            )
            raise HubOffError(message, errors=[{"field": "model.hub", "message": message}])
        if not self._slots.acquire(blocking=False):
            message = f"{MAX_FETCHES} models are being read from the hub: ask again"
            raise HubUnavailableError(message)
        try:
            with HubReader(self._policy, self._transport, token=reference.token) as reader:
                return self._read(reader, reference)
        finally:
            self._slots.release()

    def _read(self, reader: HubReader, reference: HubReference) -> HubModel:
        caller = self._digest(reference.token)
        named = (reference.repository, reference.revision, caller)
        commit, names = self._find_commit(named) or self._keep_commit(
            named, *fetch_commit(reader, reference)
        )
        key = (reference.repository, commit, reference.file, caller)
        with self._lock:
            model = self._models.get(key)
        if model is None:
            model = fetch_model(reader, reference, commit, names)
            with self._lock:
                self._models[key] = model
                while len(self._models) > MAX_KEPT:
                    self._models.popitem(last=False)
        return model

    def _find_commit(self, named: tuple[object, ...]) -> tuple[str, frozenset[str]] | None:
        with self._lock:
            entry = self._commits.get(named)
        if entry is None or entry[0] < time.monotonic():
            return None
        return entry[1], entry[2]

    def _keep_commit(
        self, named: tuple[object, ...], commit: str, names: frozenset[str]
    ) -> tuple[str, frozenset[str]]:
        with self._lock:
            if len(self._commits) >= MAX_KEPT:
                self._commits.clear()
            self._commits[named] = (time.monotonic() + REVISION_S, commit, names)
        return commit, names

    def _digest(self, token: str | None) -> bytes:
        return b"" if token is None else hmac.digest(self._secret, token.encode(), sha256)


def make_hub(settings: Settings) -> Hub:
    """Return the reader of a hub, if one is allowed."""
    if not settings.hub:
        return Hub(None)
    policy = HubPolicy(
        endpoint=settings.hub_endpoint, hosts=settings.hub_hosts, private=settings.hub_private
    )
    return Hub(policy)
