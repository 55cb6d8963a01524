"""Run the controller for Kueue: it sizes jobs that wait behind the gate ``headroom.dev/fit``, and
answers the AdmissionChecks of that name; any number of replicas may run, one acts.
"""

import argparse
import os
import signal
import socket
import uuid
from dataclasses import dataclass

import anyio

from service.cli.http import add_server, build_headers, check_url, find_server
from service.kueue.access import Access, find_access
from service.kueue.api import KubeApi
from service.kueue.asking import Asker, connect_to_server
from service.kueue.checks import CheckKeeper, Unfit
from service.kueue.controller import RESYNC_S, Controller
from service.kueue.events import Recorder
from service.kueue.gates import GateKeeper
from service.kueue.lease import Elector
from service.kueue.metrics import Metrics
from service.kueue.pulse import Pulse
from service.kueue.reports import Reporter
from service.runtime.logs import configure, get_logger
from service.runtime.settings import Settings
from service.terminal.arguments import (
    format_choices,
    make_choice_reader,
    parse_count,
    parse_positive,
)
from service.usecases.hooks.decision import Mode

_NONE = "none"
_GATES = (*(mode.value for mode in Mode), _NONE)
_CHECKS = (*(unfit.value for unfit in Unfit), _NONE)
_LEASE = "headroom-kueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """This process: its way to the cluster, its metrics and its pulse."""

    access: Access
    metrics: Metrics
    pulse: Pulse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two servers, and what becomes of jobs that do not fit."""
    add_server(parser)
    parser.add_argument(
        "--gate",
        type=make_choice_reader(_GATES),
        metavar=format_choices(_GATES),
        default=Mode.CHANGE.value,
        help="a gated job that does not fit gets the GPUs that it needs, or stays gated (change, "
        "the default); stays gated (refuse); is released with a warning (warn); none leaves all "
        "gates alone",
    )
    parser.add_argument(
        "--check",
        type=make_choice_reader(_CHECKS),
        metavar=format_choices(_CHECKS),
        default=Unfit.RETRY.value,
        help="a workload that does not fit goes back to its queue (retry, the default); is "
        "deactivated (reject); starts with a warning (warn); none answers no AdmissionCheck",
    )
    parser.add_argument(
        "--pin",
        action="store_true",
        help="give pods the nodes (nvidia.com/gpu.product) of the GPU that their question names, "
        "where neither they nor their flavor do",
    )
    parser.add_argument("--namespace", help="look at jobs of this one alone (default all)")
    parser.add_argument(
        "--resync",
        type=parse_positive,
        default=int(RESYNC_S),
        metavar="SECONDS",
        help="how often everything is listed anew (default %(default)s)",
    )
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="how to reach the API server (default the pod's account, else KUBECONFIG, else "
        "~/.kube/config)",
    )
    cluster.add_argument("--context", help="the kubeconfig's context (default its current one)")
    cluster.add_argument(
        "--lease-namespace", help="where the Lease of the replicas is (default the account's)"
    )
    parser.add_argument(
        "--metrics-port",
        type=parse_count,
        metavar="PORT",
        help="serve /metrics and /livez on this port of all addresses (default none)",
    )


def run(options: argparse.Namespace) -> int:
    """Act, or wait to act, until SIGINT or SIGTERM."""
    settings = Settings.from_env(os.environ)
    configure(level=settings.log_level, log_format=settings.log_format)
    access = find_access(os.environ, kubeconfig=options.kubeconfig, context=options.context)
    server = find_server(options.server)
    check_url(server)
    metrics, pulse = Metrics(), Pulse()
    if options.metrics_port is not None:
        metrics.serve("0.0.0.0", options.metrics_port, pulse)  # noqa: S104 - Prometheus scrapes a pod's address
    get_logger("kueue").info(
        "kueue.started",
        cluster=access.server,
        server=server,
        gate=options.gate,
        check=options.check,
    )
    process = _Process(access=access, metrics=metrics, pulse=pulse)
    anyio.run(_run_until_stopped, options, settings, server, process)
    return 0


async def _run_until_stopped(
    options: argparse.Namespace, settings: Settings, server: str, process: _Process
) -> None:
    async with (
        process.access.connect() as cluster,
        connect_to_server(server, build_headers()) as answering,
        anyio.create_task_group() as group,
    ):
        asker = Asker(client=answering, fails_closed=settings.hook_fail == "closed")
        controller = _build_controller(options, KubeApi(cluster), asker, process)
        group.start_soon(process.pulse.run)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            group.start_soon(controller.run)
            async for _ in signals:
                group.cancel_scope.cancel()
                break


def _build_controller(
    options: argparse.Namespace, api: KubeApi, asker: Asker, process: _Process
) -> Controller:
    access, metrics = process.access, process.metrics
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"
    reporter = Reporter(recorder=Recorder(api=api, instance=identity), metrics=metrics)
    gates = GateKeeper(
        api=api,
        asker=asker,
        reporter=reporter,
        mode=Mode.WARN if options.gate == _NONE else Mode(options.gate),
    )
    checks = CheckKeeper(
        api=api,
        asker=asker,
        reporter=reporter,
        unfit=Unfit.RETRY if options.check == _NONE else Unfit(options.check),
        pins=options.pin,
    )
    return Controller(
        api=api,
        elector=Elector(
            api=api,
            namespace=options.lease_namespace or access.namespace,
            name=_LEASE if options.namespace is None else f"{_LEASE}-{options.namespace}",
            identity=identity,
            on_change=metrics.set_leads,
        ),
        gates=None if options.gate == _NONE else gates,
        checks=None if options.check == _NONE else checks,
        namespace=options.namespace,
        resync_s=float(options.resync),
    )
