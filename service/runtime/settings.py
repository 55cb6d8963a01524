"""Settings from the environment.

Read once into one frozen value that is passed on; never a global.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from service.access.keys import Scope
from service.access.limits import parse_limit
from service.base.errors import InvalidSettingError

DRIVER = "postgresql+psycopg"
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("json", "console")
ACCESS_WORDS = ("local", "keys", "open")
MAX_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of every process; times are in seconds.

    Without ``database_url`` only ``headroom up`` can start.
    """

    database_url: str | None = field(default=None, repr=False)
    redis_url: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    access: str | None = None
    """Who is let in: ``local`` (this machine without a key), ``keys``, ``open`` (everybody); else
    what ``host`` asks for.
    """
    port: int = 8000
    data_dir: Path = field(default_factory=lambda: get_default_data_dir({}))
    cache_dir: Path | None = None
    """Where recordings of models are kept between processes; None keeps none."""
    log_level: str = "info"
    log_format: str = "console"
    access_log: bool = False
    """One line per request; off, because logging each costs a third of the requests per second."""
    pool_size: int = 8
    """Connections per process; the knee of requests per second over pool size, as measured."""
    lease_s: float = 30.0
    """How long a claimed job is its worker's without a heartbeat."""
    heartbeat_s: float = 5.0
    reconcile_interval_s: float = 1.0
    rering_after_s: float = 15.0
    """How long a queued job waits for a worker before its notification is repeated."""
    poll_interval_s: float = 5.0
    """How often an idle worker asks Postgres, in case that Redis lost the notification."""
    job_deadline_s: float = 1800.0
    """From the claim of an attempt to its end; an attempt that is lost later than that is not
    repeated.
    """
    probe_deadline_s: float = 600.0
    """From the start of one probe process to its kill."""
    finish_retry_s: float = 60.0
    """How long a result waits for Postgres to come back."""
    max_attempts: int = 3
    oidc_issuer: str | None = None
    """Whose tokens are let in beside keys, by OpenID Connect; then ``oidc_audience`` says for whom
    they must be made out.
    """
    oidc_audience: str | None = None
    oidc_scopes_claim: str | None = None
    """The claim that holds what a token allows; ``a.b`` is the member b of the claim a. Default
    ``scope``.
    """
    oidc_scopes: Mapping[str, Scope] | None = None
    """What each word of that claim allows; default ``headroom:read`` and so on."""
    oidc_rate: str | None = None
    oidc_quota: str | None = None
    metrics_dir: Path | None = None
    """Where several processes of one server count together; the name of its variable is the
    library's.
    """

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other.

        Such as values that would make the job protocol lose its lease by itself.
        """
        if self.lease_s < 2 * self.heartbeat_s:
            _refuse(
                "HEADROOM_LEASE_S",
                self.lease_s,
                f"at least twice HEADROOM_HEARTBEAT_S, which is {self.heartbeat_s:g}",
            )
        if self.job_deadline_s < self.probe_deadline_s:
            _refuse(
                "HEADROOM_JOB_DEADLINE_S",
                self.job_deadline_s,
                f"HEADROOM_PROBE_DEADLINE_S ({self.probe_deadline_s:g}) or more",
            )

        if (self.oidc_issuer is None) != (self.oidc_audience is None):
            missing = (
                "HEADROOM_OIDC_AUDIENCE" if self.oidc_audience is None else "HEADROOM_OIDC_ISSUER"
            )
            _refuse(
                missing,
                "",
                "set where tokens of an issuer are let in: the issuer says whose, the audience for "
                "whom",
            )
        for name in ("oidc_scopes_claim", "oidc_scopes", "oidc_rate", "oidc_quota"):
            if getattr(self, name) is not None and self.oidc_issuer is None:
                _refuse(
                    VARIABLES[name][0],
                    getattr(self, name),
                    "left out where HEADROOM_OIDC_ISSUER is not set",
                )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the variables that are set.

        An empty one counts as not set.
        """
        values: dict[str, object] = {
            name: parse(variable, environ[variable])
            for name, (variable, parse) in VARIABLES.items()
            if environ.get(variable)
        }
        values.setdefault("data_dir", get_default_data_dir(environ))
        return cls(**values)  # type: ignore[arg-type]  # VARIABLES pairs each field with a parser of its type

    def require_database_url(self) -> str:
        """Return the database's URL, or refuse with a hint."""
        if self.database_url is None:
            message = (
                "DATABASE_URL is not set; set it to postgresql://user@host/name, or run `headroom "
                "up`, which brings its own"
            )
            raise InvalidSettingError(message, variable="DATABASE_URL")
        return self.database_url


def get_default_data_dir(environ: Mapping[str, str]) -> Path:
    """Return the data directory of the user.

    See the XDG Base Directory Specification.
    """
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    base = environ.get("XDG_DATA_HOME", "")
    # The specification says that a relative path is to be ignored.
    return (Path(base) if Path(base).is_absolute() else home / ".local" / "share") / "headroom"


def parse_psycopg_url(variable: str, text: str) -> str:
    """Return a Postgres URL with the driver that this service has."""
    scheme, separator, address = text.partition("://")
    if not separator or scheme not in {"postgres", "postgresql", DRIVER}:
        _refuse(
            variable,
            _redact_password(text),
            "a URL such as postgresql://user:password@host:5432/headroom",
        )
    return f"{DRIVER}://{address}"


def _parse_redis_url(variable: str, text: str) -> str:
    if urlsplit(text).scheme not in {"redis", "rediss", "unix"}:
        _refuse(
            variable,
            _redact_password(text),
            "a URL such as redis://host:6379/0, rediss://… or unix:///path/to.sock",
        )
    return text


def _parse_port(variable: str, text: str) -> int:
    if "://" in text:
        # Kubernetes sets HEADROOM_PORT=tcp://… in every pod beside a Service that is named
        # headroom.
        _refuse(
            variable,
            text,
            "a port number; in Kubernetes set enableServiceLinks: false on the pod, or "
            "HEADROOM_PORT",
        )
    port = _parse_count(variable, text)
    if port > MAX_PORT:
        _refuse(variable, text, f"a port number, at most {MAX_PORT}")
    return port


def _parse_count(variable: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        _refuse(variable, text, "a whole number, 1 or more")
    return int(text)


def _parse_seconds(variable: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        _refuse(variable, text, "a number of seconds above 0")
    return seconds


def _make_choice_parser(choices: tuple[str, ...]) -> Callable[[str, str], str]:
    def parse(variable: str, text: str) -> str:
        if text.lower() not in choices:
            _refuse(variable, text, f"one of {', '.join(choices)}")
        return text.lower()

    return parse


def _parse_flag(variable: str, text: str) -> bool:
    values = {"1": True, "true": True, "0": False, "false": False}
    if text.lower() not in values:
        _refuse(variable, text, "true or false")
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
        _refuse(
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
            _refuse(
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
        _refuse(variable, text, "a limit such as 600/minute or 100/day")
    return text


def _parse_text(_variable: str, text: str) -> str:
    return text


def _parse_path(_variable: str, text: str) -> Path:
    return Path(text).expanduser().absolute()


def _redact_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://…{at}{tail}" if at else url


def _refuse(variable: str, value: object, expected: str) -> NoReturn:
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
    "log_level": ("HEADROOM_LOG_LEVEL", _make_choice_parser(LOG_LEVELS)),
    "log_format": ("HEADROOM_LOG_FORMAT", _make_choice_parser(LOG_FORMATS)),
    "access_log": ("HEADROOM_ACCESS_LOG", _parse_flag),
    "pool_size": ("HEADROOM_POOL_SIZE", _parse_count),
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
    "metrics_dir": ("PROMETHEUS_MULTIPROC_DIR", _parse_path),
}
"""Field → environment variable and its parser; a test holds it against the fields of Settings."""
