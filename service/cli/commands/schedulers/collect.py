"""Send what pods used of this node's GPUs: it looks at the page of the node's DCGM exporter, keeps
each pod's peaks, and hands them in once the pod has ended.
"""

import argparse
import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import httpx

from service.base.errors import InvalidRequestError
from service.cli.http import add_server, build_headers, check_url, find_server
from service.cli.nodes.collector import Collector
from service.runtime.logs import configure, get_logger
from service.runtime.settings import Settings
from service.terminal.arguments import parse_positive

_RELEASES = ("torch", "transformers", "peft", "cuda")
_TIMEOUT_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the exporter, the server, and the times."""
    add_server(parser)
    parser.add_argument(
        "--exporter", required=True, metavar="URL", help="the page of this node's DCGM exporter"
    )
    parser.add_argument(
        "--node",
        metavar="NAME",
        help="this node's name: pages whose Hostname is another's are left alone (default: read "
        "any)",
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=Path("headroom-pods.json"),
        metavar="FILE",
        help="where peaks outlive a restart (default %(default)s)",
    )
    parser.add_argument(
        "--every",
        type=parse_positive,
        default=10,
        metavar="SECONDS",
        help="how often to look (default %(default)s)",
    )
    parser.add_argument(
        "--patience",
        type=parse_positive,
        default=90,
        metavar="SECONDS",
        help="how long a pod is on no page before it has ended (default %(default)s: three rounds "
        "of the exporter)",
    )
    parser.add_argument(
        "--release",
        action="append",
        default=[],
        metavar="NAME=VERSION",
        help=f"what every pod of the cluster runs ({', '.join(_RELEASES)}); without torch and "
        "transformers nothing is corrected",
    )
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        help="the stored cluster of this node (default: the one that the webhook was asked about)",
    )


def run(options: argparse.Namespace) -> int:
    """Look until SIGINT or SIGTERM."""
    settings = Settings.from_env(os.environ)
    configure(level=settings.log_level, log_format=settings.log_format)
    server = find_server(options.server)
    check_url(server)
    releases = dict(_read_release(text) for text in options.release)
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    get_logger("collect").info("collect.started", exporter=options.exporter, server=server)
    with (
        httpx.Client(base_url=server, headers=build_headers(), timeout=_TIMEOUT_S) as client,
        httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as pages,
    ):
        collector = Collector(
            client=client,
            pages=pages,
            exporter=options.exporter,
            node=options.node,
            state=options.state,
            patience=timedelta(seconds=options.patience),
            releases=releases,
            cluster=options.cluster,
        )
        while not stopped.is_set():
            collector.step(datetime.now(UTC))
            stopped.wait(options.every)
    return 0


def _read_release(text: str) -> tuple[str, str]:
    name, sign, version = text.partition("=")
    if name not in _RELEASES or not sign or not version:
        message = (
            f"--release {text!r}: expected NAME=VERSION such as torch=2.13.0, with a name of "
            f"{', '.join(_RELEASES)}"
        )
        raise InvalidRequestError(message)
    return name, version
