"""Settings from the environment.

Read once into one frozen value that is passed on; never a global.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from service.access.keys import Scope
from service.base.startup_errors import InvalidSettingError
from service.runtime.variables import VARIABLES, refuse_setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of every process; times are in seconds.

    Without ``database_url`` only ``headroom up`` can start.
    """

    database_url: str | None = field(default=None, repr=False)
    redis_url: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    access: str | None = None
    """Who is let in: ``local`` (who runs it without a key), ``keys``, ``open`` (everybody); else
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
    question_budget_s: float = 30.0
    """Processor's time that the answer to one question may take."""
    search_processes: int = 2
    """Processes beside each server that compute searches; without any its own threads do."""
    max_connections: int = 1000
    """Connections of clients to one process."""
    header_timeout_s: float = 10.0
    """How long a client may take to send a request's headers."""
    body_timeout_s: float = 20.0
    """How long it may take for a body, and a second more for every 16 KiB that have come."""
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
    """From the start of one probe process to its kill, without what it waits for a processor that
    other programs have.
    """
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
    hub: bool = False
    """Whether questions may name models on a hub, which the server then reads."""
    hub_endpoint: str = "https://huggingface.co"
    hub_hosts: tuple[str, ...] = ("huggingface.co", ".huggingface.co", ".hf.co")
    """Names that the hub may redirect to, beside its own; ``.name`` stands for all below it."""
    hub_private: bool = False
    """Whether a mirror may have an address that is not public, and plain HTTP."""
    public_url: str | None = None
    """Where users see this server's pages; a hook's line ends with a link there."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that an open server is asked by, beside addresses and names that nobody can register;
    ``.name`` stands for all below it.
    """
    hook_deadline_s: float = 2.0
    """How long a scheduler's hook waits for its answer."""
    hook_search_s: float = 0.02
    """How long of that it waits for what would hold a job that does not fit."""
    hook_replay: bool = False
    """Whether a hook replays the allocator for its bytes as well, as a page does; for its verdict
    it does where that could turn it.
    """
    hook_fail: str = "open"
    """What becomes of a job that cannot be answered: it passes (``open``) or not (``closed``)."""
    hook_gpu: str | None = None
    """The GPU of jobs that do not say theirs."""
    hook_cluster: str | None = None
    """The stored cluster whose jobs the hooks are shown; None where nobody named one."""
    only_hooks: bool = False
    """Whether the hooks of schedulers, the probes of health and the metrics are all that is served.
    """
    metrics_dir: Path | None = None
    """Where several processes of one server count together; the name of its variable is the
    library's.
    """

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other.

        Such as values that would make the job protocol lose its lease by itself.
        """
        if self.lease_s < 2 * self.heartbeat_s:
            refuse_setting(
                "HEADROOM_LEASE_S",
                self.lease_s,
                f"at least twice HEADROOM_HEARTBEAT_S, which is {self.heartbeat_s:g}",
            )
        if self.job_deadline_s < self.probe_deadline_s:
            refuse_setting(
                "HEADROOM_JOB_DEADLINE_S",
                self.job_deadline_s,
                f"HEADROOM_PROBE_DEADLINE_S ({self.probe_deadline_s:g}) or more",
            )

        if (self.oidc_issuer is None) != (self.oidc_audience is None):
            missing = (
                "HEADROOM_OIDC_AUDIENCE" if self.oidc_audience is None else "HEADROOM_OIDC_ISSUER"
            )
            refuse_setting(
                missing,
                "",
                "set where tokens of an issuer are let in: the issuer says whose, the audience for "
                "whom",
            )
        for name in ("oidc_scopes_claim", "oidc_scopes", "oidc_rate", "oidc_quota"):
            if getattr(self, name) is not None and self.oidc_issuer is None:
                refuse_setting(
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

    @property
    def num_searches(self) -> int:
        """Searches at once.

        Of two, one that takes its whole budget holds no short one up.
        """
        return self.search_processes or 2

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
