"""A hub as one process asks it.

It is allowed or not, a few models are read at a time, and what was read is kept.
"""

import hmac
import json
import threading
import time
from collections import OrderedDict
from hashlib import sha256
from secrets import token_bytes
from typing import Generic, TypeVar

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
MAX_KEPT_BYTES = 64 * 2**20
"""Bytes that what is kept has as JSON: seven indices of 91,000 tensors, as DeepSeek-V3 has."""
REVISION_S = 60.0
"""How long a branch is taken for the commit that it was."""


Value = TypeVar("Value")


class _Kept(Generic[Value]):
    """Values for all threads; what was read first goes first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: OrderedDict[tuple[object, ...], tuple[Value, int]] = OrderedDict()
        self._num_bytes = 0

    def find(self, key: tuple[object, ...]) -> Value | None:
        with self._lock:
            item = self._items.get(key)
        return None if item is None else item[0]

    def keep(self, key: tuple[object, ...], value: Value, *, num_bytes: int) -> None:
        """Keep a value, unless all else would go for it."""
        if num_bytes > MAX_KEPT_BYTES:
            return
        with self._lock:
            before = self._items.pop(key, None)
            self._items[key] = value, num_bytes
            self._num_bytes += num_bytes - (0 if before is None else before[1])
            while len(self._items) > MAX_KEPT or self._num_bytes > MAX_KEPT_BYTES:
                _, (_, size) = self._items.popitem(last=False)
                self._num_bytes -= size


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
        self._secret = token_bytes(32)
        self._models = _Kept[HubModel]()
        self._commits = _Kept[tuple[float, str, frozenset[str]]]()

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
        caller = self._digest(reference.token)
        pinned = self._find_commit(reference, caller)
        model = None if pinned is None else self._find_model(reference, pinned[0], caller)
        if model is not None:
            return model
        if not self._slots.acquire(blocking=False):
            message = f"{MAX_FETCHES} models are being read from the hub: ask again"
            raise HubUnavailableError(message)
        try:
            with HubReader(self._policy, self._transport, token=reference.token) as reader:
                return self._read(reader, reference, caller)
        finally:
            self._slots.release()

    def _read(self, reader: HubReader, reference: HubReference, caller: bytes) -> HubModel:
        pinned = self._find_commit(reference, caller)
        if pinned is None:
            pinned = fetch_commit(reader, reference)
            named = (reference.repository, reference.revision, caller)
            end = time.monotonic() + REVISION_S
            self._commits.keep(named, (end, *pinned), num_bytes=reader.num_bytes)
        commit, names = pinned
        model = self._find_model(reference, commit, caller)
        if model is None:
            model = fetch_model(reader, reference, commit, names)
            key = (reference.repository, commit, reference.file, caller)
            self._models.keep(key, model, num_bytes=_measure(model))
        return model

    def _find_commit(
        self, reference: HubReference, caller: bytes
    ) -> tuple[str, frozenset[str]] | None:
        entry = self._commits.find((reference.repository, reference.revision, caller))
        if entry is None or entry[0] < time.monotonic():
            return None
        return entry[1], entry[2]

    def _find_model(self, reference: HubReference, commit: str, caller: bytes) -> HubModel | None:
        return self._models.find((reference.repository, commit, reference.file, caller))

    def _digest(self, token: str | None) -> bytes:
        return b"" if token is None else hmac.digest(self._secret, token.encode(), sha256)


def _measure(model: HubModel) -> int:
    """Return the bytes of a model as JSON.

    Of a GGUF file more was read: its tokenizer.
    """
    return len(json.dumps([model.source, model.index, model.header]))


def make_hub(settings: Settings) -> Hub:
    """Return the reader of a hub, if one is allowed."""
    if not settings.hub:
        return Hub(None)
    policy = HubPolicy(
        endpoint=settings.hub_endpoint, hosts=settings.hub_hosts, private=settings.hub_private
    )
    return Hub(policy)
