"""Collector of a node: from the DCGM exporter's pages to field measurements."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import httpx
import msgspec

from service.base.typed import get_decoder
from service.cli.nodes.peaks import GpuPeak, PodPeaks, Record, look
from service.formats.measured.node_report import MARK
from service.formats.measured.prometheus import parse_exposition
from service.formats.measured.reading import MeasuredFormatError, Parsed
from service.runtime.logs import get_logger

_KEPT = frozenset({401, 403, 408, 429})
"""Refusals of the moment, or of a key: what was sent is kept and sent again."""
_SHOWN = 300

_log = get_logger("collect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """Watch of one node.

    ``client`` is one of the server. ``exporter`` is the address of the node's page, ``node`` the
    name that its lines must have, ``releases`` what all pods of the cluster run, where an operator
    says so.
    """

    client: httpx.Client
    pages: httpx.Client
    exporter: str
    node: str | None
    state: Path
    patience: timedelta
    releases: Mapping[str, str]
    cluster: str | None = None
    """The node's cluster, where the webhook was not asked about it."""

    def step(self, now: datetime) -> None:
        """Look once, and tell of the pods that ended."""
        record = self._read_state()
        page = self._read_page()
        if page is not None:
            record = look(record, page, now, self.patience)
            self._write_state(record)
        for pod in record.ended:
            is_done = self._send(pod)
            # One that the server cannot take does not hold up the others.
            rest = record.ended[1:] if is_done else (*record.ended[1:], pod)
            record = replace(record, ended=rest)
            self._write_state(record)
            if not is_done:
                return

    def _read_page(self) -> Parsed | None:
        """Return the exporter's page, None where it cannot be had."""
        try:
            answer = self.pages.get(self.exporter).raise_for_status()
            page = parse_exposition(answer.text)
        except (httpx.HTTPError, MeasuredFormatError) as error:
            _log.warning("collect.no_page", exporter=self.exporter, reason=str(error)[:_SHOWN])
            return None
        hosts = {reading.place.host for reading in page.readings}
        if self.node is not None and hosts != {self.node}:
            names = ", ".join(sorted(str(host) for host in hosts))
            _log.warning("collect.other_node", exporter=self.exporter, page=names, node=self.node)
            return None
        return page

    def _send(self, pod: PodPeaks) -> bool:
        """Send a pod, and return whether it is done with."""
        name = f"{pod.namespace}/{pod.name}"
        try:
            answer = self.client.post("/v1/measurements/import", json=self._make_body(pod))
            stored = answer.json()["num_stored"] if answer.is_success else None
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            _log.warning("collect.not_sent", pod=name, reason=str(error) or type(error).__name__)
            return False
        if answer.is_success:
            _log.info("collect.sent", pod=name, num_stored=stored)
            return True
        done = answer.is_client_error and answer.status_code not in _KEPT
        _log.warning(
            "collect.refused" if done else "collect.not_sent",
            pod=name,
            status=answer.status_code,
            reason=answer.text[:_SHOWN],
        )
        return done

    def _make_body(self, pod: PodPeaks) -> dict[str, object]:
        named = {} if self.cluster is None else {"cluster": self.cluster}
        return make_body(pod, self.releases) | named

    def _read_state(self) -> Record:
        try:
            return cast("Record", get_decoder(Record).decode(self.state.read_bytes()))
        except FileNotFoundError:
            return Record()
        except msgspec.MsgspecError as error:
            _log.warning("collect.state_lost", path=str(self.state), reason=str(error))
            return Record()

    def _write_state(self, record: Record) -> None:
        new = self.state.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(record))
        new.replace(self.state)


def make_body(pod: PodPeaks, releases: Mapping[str, str]) -> dict[str, object]:
    """Return the body that tells what a pod used."""
    head = f"{MARK} 1\njob {pod.namespace}/{pod.name}\n"
    if pod.host is not None:
        head += f"host {pod.host}\n"
    return {
        "pod": {"namespace": pod.namespace, "name": pod.name, "seen_at": pod.since.isoformat()},
        "format": "node",
        "dry_run": False,
        "content": head + "".join(_make_part(pod, gpu) for gpu in pod.gpus),
        **({"environment": dict(releases)} if releases else {}),
    }


def _make_part(pod: PodPeaks, gpu: GpuPeak) -> str:
    document = {
        "gpu": gpu.gpu,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "driver": pod.driver,
        "peak_bytes": gpu.peak_bytes,
        "looks": pod.num_looks,
        "since": pod.since.isoformat(),
        "until": pod.until.isoformat(),
    }
    return f"[gpu]\n{json.dumps(document)}\n"
