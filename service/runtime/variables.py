"""Environment variables of the settings, and their parsers."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from service.access.keys import Scope
from service.access.limits import parse_limit
from service.base.startup_errors import InvalidSettingError

DRIVER = "postgresql+psycopg"
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("json", "console")
ACCESS_WORDS = ("local", "keys", "open")
MAX_PORT = 65_535
_HOST = re.compile(r"\.?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def parse_psycopg_url(variable: str, text: str) -> str:
    """Return a Postgres URL with the driver that this service has."""
    scheme, separator, address = text.partition("://")
    if not separator or scheme not in {"postgres", "postgresql", DRIVER}:
        refuse_setting(
            variable,
            _redact_password(text),
            "a URL such as postgresql://user:password@host:5432/headroom",
        )
    return f"{DRIVER}://{address}"


def _parse_redis_url(variable: str, text: str) -> str:
    if urlsplit(text).scheme not in {"redis", "rediss", "unix"}:
        refuse_setting(
            variable,
            _redact_password(text),
            "a URL such as redis://host:6379/0, rediss://… or unix:///path/to.sock",
        )
    return text


def _parse_port(variable: str, text: str) -> int:
    if "://" in text:
        # Kubernetes sets HEADROOM_PORT=tcp://… in every pod beside a Service that is named
        # headroom.
        refuse_setting(
            variable,
            text,
            "a port number; in Kubernetes set enableServiceLinks: false on the pod, or "
            "HEADROOM_PORT",
        )
    port = _parse_count(variable, text)
    if port > MAX_PORT:
        refuse_setting(variable, text, f"a port number, at most {MAX_PORT}")
    return port


def _parse_count(variable: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        refuse_setting(variable, text, "a whole number, 1 or more")
    return int(text)


def _parse_number(variable: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        refuse_setting(variable, text, "a whole number, 0 or more")
    return int(text)


def _parse_seconds(variable: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        refuse_setting(variable, text, "a number of seconds above 0")
    return seconds


def _make_choice_parser(choices: tuple[str, ...]) -> Callable[[str, str], str]:
    def parse(variable: str, text: str) -> str:
        if text.lower() not in choices:
            refuse_setting(variable, text, f"one of {', '.join(choices)}")
        return text.lower()

    return parse


def _parse_flag(variable: str, text: str) -> bool:
    values = {"1": True, "true": True, "0": False, "false": False}
    if text.lower() not in values:
        refuse_setting(variable, text, "true or false")
    return values[text.lower()]


def _parse_issuer(variable: str, text: str) -> str:
    parsed = urlsplit(text)
    is_local = parsed.scheme == "http" and parsed.hostname in {"127.0.0.1", "::1", "localhost"}
    if (
        not parsed.hostname
        or not (parsed.scheme == "https" or is_local)
        or parsed.query
        or parsed.fragment
    ):
        refuse_setting(
            variable,
            text,
            "an https:// URL without query or fragment, just as the issuer's tokens spell it",
        )
    return text


def _parse_scopes(variable: str, text: str) -> Mapping[str, Scope]:
    scopes: dict[str, Scope] = {}
    for pair in text.split(","):
        word, _, scope = pair.strip().rpartition("=")
        if not word or scope not in set(Scope):
            refuse_setting(
                variable,
                text,
                f"pairs such as gpu-admins=admin,gpu-users=plan, of {', '.join(Scope)}",
            )
        scopes[word] = Scope(scope)
    return scopes


def _parse_limit(variable: str, text: str) -> str:
    try:
        parse_limit(text)
    except ValueError:
        refuse_setting(variable, text, "a limit such as 600/minute or 100/day")
    return text


def _make_address_parser(example: str) -> Callable[[str, str], str]:
    """Return a parser of URLs without a user or a query."""

    def parse(variable: str, text: str) -> str:
        parsed = urlsplit(text)
        if (
            parsed.scheme not in {"http", "https"}
            or not parsed.hostname
            or parsed.username
            or parsed.query
            or parsed.fragment
        ):
            refuse_setting(
                variable, _redact_password(text), f"a URL such as {example}, without a user"
            )
        return text.rstrip("/")

    return parse


def _parse_hosts(variable: str, text: str) -> tuple[str, ...]:
    hosts = tuple(part.strip().lower() for part in text.split(","))
    if not all(_HOST.fullmatch(host) for host in hosts):
        refuse_setting(
            variable,
            text,
            "names of hosts such as huggingface.co,.hf.co",
        )
    return hosts


def _parse_text(_variable: str, text: str) -> str:
    return text


def _parse_path(_variable: str, text: str) -> Path:
    return Path(text).expanduser().absolute()


def _redact_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://…{at}{tail}" if at else url


def refuse_setting(variable: str, value: object, expected: str) -> NoReturn:
    """Refuse the value of a variable, and say what would be right."""
    message = f"{variable} is {str(value)!r}; it must be {expected}"
    raise InvalidSettingError(message, variable=variable)


VARIABLES: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "database_url": ("DATABASE_URL", parse_psycopg_url),
    "redis_url": ("REDIS_URL", _parse_redis_url),
    "host": ("HEADROOM_HOST", _parse_text),
    "access": ("HEADROOM_ACCESS", _make_choice_parser(ACCESS_WORDS)),
    "port": ("HEADROOM_PORT", _parse_port),
    "data_dir": ("HEADROOM_DATA_DIR", _parse_path),
    "cache_dir": ("HEADROOM_CACHE_DIR", _parse_path),
    "question_budget_s": ("HEADROOM_QUESTION_BUDGET_S", _parse_seconds),
    "search_processes": ("HEADROOM_SEARCH_PROCESSES", _parse_number),
    "log_level": ("HEADROOM_LOG_LEVEL", _make_choice_parser(LOG_LEVELS)),
    "log_format": ("HEADROOM_LOG_FORMAT", _make_choice_parser(LOG_FORMATS)),
    "access_log": ("HEADROOM_ACCESS_LOG", _parse_flag),
    "pool_size": ("HEADROOM_POOL_SIZE", _parse_count),
    "max_connections": ("HEADROOM_MAX_CONNECTIONS", _parse_count),
    "header_timeout_s": ("HEADROOM_HEADER_TIMEOUT_S", _parse_seconds),
    "body_timeout_s": ("HEADROOM_BODY_TIMEOUT_S", _parse_seconds),
    "lease_s": ("HEADROOM_LEASE_S", _parse_seconds),
    "heartbeat_s": ("HEADROOM_HEARTBEAT_S", _parse_seconds),
    "reconcile_interval_s": ("HEADROOM_RECONCILE_INTERVAL_S", _parse_seconds),
    "rering_after_s": ("HEADROOM_RERING_AFTER_S", _parse_seconds),
    "poll_interval_s": ("HEADROOM_POLL_INTERVAL_S", _parse_seconds),
    "job_deadline_s": ("HEADROOM_JOB_DEADLINE_S", _parse_seconds),
    "probe_deadline_s": ("HEADROOM_PROBE_DEADLINE_S", _parse_seconds),
    "finish_retry_s": ("HEADROOM_FINISH_RETRY_S", _parse_seconds),
    "max_attempts": ("HEADROOM_MAX_ATTEMPTS", _parse_count),
    "oidc_issuer": ("HEADROOM_OIDC_ISSUER", _parse_issuer),
    "oidc_audience": ("HEADROOM_OIDC_AUDIENCE", _parse_text),
    "oidc_scopes_claim": ("HEADROOM_OIDC_SCOPES_CLAIM", _parse_text),
    "oidc_scopes": ("HEADROOM_OIDC_SCOPES", _parse_scopes),
    "oidc_rate": ("HEADROOM_OIDC_RATE", _parse_limit),
    "oidc_quota": ("HEADROOM_OIDC_QUOTA", _parse_limit),
    "hub": ("HEADROOM_HUB", _parse_flag),
    "hub_endpoint": ("HF_ENDPOINT", _make_address_parser("https://huggingface.co")),
    "hub_hosts": ("HEADROOM_HUB_HOSTS", _parse_hosts),
    "hub_private": ("HEADROOM_HUB_PRIVATE", _parse_flag),
    "public_url": ("HEADROOM_PUBLIC_URL", _make_address_parser("https://headroom.example")),
    "allowed_hosts": ("HEADROOM_ALLOWED_HOSTS", _parse_hosts),
    "hook_deadline_s": ("HEADROOM_HOOK_DEADLINE_S", _parse_seconds),
    "hook_search_s": ("HEADROOM_HOOK_SEARCH_S", _parse_seconds),
    "hook_replay": ("HEADROOM_HOOK_REPLAY", _parse_flag),
    "hook_fail": ("HEADROOM_HOOK_FAIL", _make_choice_parser(("open", "closed"))),
    "hook_gpu": ("HEADROOM_HOOK_GPU", _parse_text),
    "hook_cluster": ("HEADROOM_HOOK_CLUSTER", _parse_text),
    "only_hooks": ("HEADROOM_ONLY_HOOKS", _parse_flag),
    "metrics_dir": ("PROMETHEUS_MULTIPROC_DIR", _parse_path),
}
"""Field → environment variable and its parser; a test holds it against the fields of Settings."""
