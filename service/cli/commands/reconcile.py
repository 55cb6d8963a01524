"""Run the loop that gives back what dead workers held and rings for jobs that nobody heard; any
number may run at once.
"""

import argparse
import os
import signal
import threading
from contextlib import ExitStack
from datetime import timedelta
from types import FrameType

from service.cli.lifetimes import add_keep
from service.db.session import make_engine, make_sessions
from service.jobs.notify import Notifier, Notify, connect_to_notify, skip_notification
from service.runtime.logs import configure, get_logger
from service.runtime.settings import Settings
from service.telemetry.spans import send_spans
from service.usecases.operations.reconcile import run_forever

# RQ's own limit is never the first to act: the deadline in Postgres is.
_GRACE_S = 30.0
_POOL_SIZE = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how long growing tables are kept.

    The environment says which database and which Redis.
    """
    add_keep(parser)


def run(options: argparse.Namespace) -> int:
    """Reconcile until SIGINT or SIGTERM."""
    settings = Settings.from_env(os.environ)
    configure(level=settings.log_level, log_format=settings.log_format)
    keep = None if options.keep is None else timedelta(seconds=options.keep)
    stop = _stop_on_signals()
    engine = make_engine(
        settings.require_database_url(), application_name="headroom-reconcile", pool_size=_POOL_SIZE
    )
    get_logger("reconcile").info("reconcile.started", every_s=settings.reconcile_interval_s)
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        stack.enter_context(send_spans("headroom-reconcile"))
        run_forever(
            make_sessions(engine),
            settings=settings,
            notify=_make_notify(settings, stack),
            stop=stop,
            keep=keep,
        )
    return 0


def _make_notify(settings: Settings, stack: ExitStack) -> Notify:
    if settings.redis_url is None:
        return skip_notification
    notifier = Notifier(
        connect_to_notify(settings.redis_url), job_timeout_s=settings.job_deadline_s + _GRACE_S
    )
    stack.callback(notifier.close)
    return notifier.notify


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop
