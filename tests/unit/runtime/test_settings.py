"""Settings are read from an environment that is given, and bad ones are refused by name."""

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from service.access.keys import Scope
from service.base.startup_errors import InvalidSettingError
from service.runtime.settings import Settings
from service.runtime.variables import VARIABLES


def test_an_empty_environment_is_a_laptop() -> None:
    """Nothing needs to be set to run everything on loopback, and nothing points at a server of
    somebody else's.
    """
    settings = Settings.from_env({"HOME": "/home/ada"})

    assert (settings.host, settings.port, settings.database_url, settings.redis_url) == (
        "127.0.0.1",
        8000,
        None,
        None,
    )
    assert settings.data_dir == Path("/home/ada/.local/share/headroom")


def test_the_job_protocol_has_its_measured_values() -> None:
    """Lease, heartbeat, re-ring and attempts are those that lost no job in the fault tests."""
    settings = Settings()

    assert (
        settings.lease_s,
        settings.heartbeat_s,
        settings.reconcile_interval_s,
        settings.rering_after_s,
    ) == (30, 5, 1, 15)
    assert (
        settings.poll_interval_s,
        settings.finish_retry_s,
        settings.max_attempts,
        settings.pool_size,
    ) == (5, 60, 3, 8)


def test_every_field_has_a_variable() -> None:
    """A setting that no variable reaches could never be set; a variable without a field would be
    ignored.
    """
    assert set(VARIABLES) == {field.name for field in fields(Settings)}


def test_every_variable_is_read() -> None:
    """Each variable reaches its field as a value of the field's type."""
    environ = {
        "DATABASE_URL": "postgresql://ada:secret@db/headroom",
        "REDIS_URL": "rediss://cache:6380/2",
        "HEADROOM_HOST": "0.0.0.0",  # noqa: S104 - only read
        "HEADROOM_ACCESS": "KEYS",
        "HEADROOM_PORT": "8080",
        "HEADROOM_DATA_DIR": "/srv/headroom",
        "HEADROOM_QUESTION_BUDGET_S": "5",
        "HEADROOM_SEARCH_PROCESSES": "0",
        "HEADROOM_CACHE_DIR": "/srv/cache",
        "HEADROOM_LOG_LEVEL": "DEBUG",
        "HEADROOM_LOG_FORMAT": "json",
        "HEADROOM_ACCESS_LOG": "true",
        "HEADROOM_POOL_SIZE": "4",
        "HEADROOM_MAX_CONNECTIONS": "50",
        "HEADROOM_HEADER_TIMEOUT_S": "2",
        "HEADROOM_BODY_TIMEOUT_S": "4",
        "HEADROOM_LEASE_S": "3",
        "HEADROOM_HEARTBEAT_S": "0.5",
        "HEADROOM_RECONCILE_INTERVAL_S": "0.1",
        "HEADROOM_RERING_AFTER_S": "1",
        "HEADROOM_POLL_INTERVAL_S": "0.2",
        "HEADROOM_JOB_DEADLINE_S": "60",
        "HEADROOM_PROBE_DEADLINE_S": "20",
        "HEADROOM_FINISH_RETRY_S": "10",
        "HEADROOM_MAX_ATTEMPTS": "2",
        "HEADROOM_OIDC_ISSUER": "https://login.example/realms/gpu",
        "HEADROOM_OIDC_AUDIENCE": "headroom",
        "HEADROOM_OIDC_SCOPES_CLAIM": "realm_access.roles",
        "HEADROOM_OIDC_SCOPES": "gpu-admins=admin, gpu-users=plan",
        "HEADROOM_OIDC_RATE": "600/minute",
        "HEADROOM_OIDC_QUOTA": "100/day",
        "HEADROOM_HUB": "true",
        "HF_ENDPOINT": "https://hub.example/",
        "HEADROOM_HUB_HOSTS": "cdn.example, .Files.example",
        "HEADROOM_HUB_PRIVATE": "1",
        "HEADROOM_PUBLIC_URL": "https://headroom.example/",
        "HEADROOM_ALLOWED_HOSTS": "gpu.example,.lab.example",
        "HEADROOM_HOOK_DEADLINE_S": "1.5",
        "HEADROOM_HOOK_SEARCH_S": "0.5",
        "HEADROOM_HOOK_REPLAY": "true",
        "HEADROOM_HOOK_FAIL": "closed",
        "HEADROOM_HOOK_GPU": "A100-SXM4-80GB",
        "HEADROOM_HOOK_CLUSTER": "lab",
        "HEADROOM_ONLY_HOOKS": "1",
        "PROMETHEUS_MULTIPROC_DIR": "/var/lib/metrics",
    }

    settings = Settings.from_env(environ)

    assert set(environ) == {variable for variable, _ in VARIABLES.values()}
    assert settings == Settings(
        database_url="postgresql+psycopg://ada:secret@db/headroom",
        redis_url="rediss://cache:6380/2",
        host="0.0.0.0",  # noqa: S104 - only read
        access="keys",
        port=8080,
        data_dir=Path("/srv/headroom"),
        question_budget_s=5.0,
        search_processes=0,
        cache_dir=Path("/srv/cache"),
        log_level="debug",
        log_format="json",
        access_log=True,
        pool_size=4,
        max_connections=50,
        header_timeout_s=2.0,
        body_timeout_s=4.0,
        lease_s=3.0,
        heartbeat_s=0.5,
        reconcile_interval_s=0.1,
        rering_after_s=1.0,
        poll_interval_s=0.2,
        job_deadline_s=60.0,
        probe_deadline_s=20.0,
        finish_retry_s=10.0,
        max_attempts=2,
        oidc_issuer="https://login.example/realms/gpu",
        oidc_audience="headroom",
        oidc_scopes_claim="realm_access.roles",
        oidc_scopes={"gpu-admins": Scope.ADMIN, "gpu-users": Scope.PLAN},
        oidc_rate="600/minute",
        oidc_quota="100/day",
        hub=True,
        hub_endpoint="https://hub.example",
        hub_hosts=("cdn.example", ".files.example"),
        hub_private=True,
        public_url="https://headroom.example",
        allowed_hosts=("gpu.example", ".lab.example"),
        hook_deadline_s=1.5,
        hook_search_s=0.5,
        hook_replay=True,
        hook_fail="closed",
        hook_gpu="A100-SXM4-80GB",
        hook_cluster="lab",
        only_hooks=True,
        metrics_dir=Path("/var/lib/metrics"),
    )


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("DATABASE_URL", "mysql://root@db/x", "postgresql://"),
        ("DATABASE_URL", "localhost:5432", "postgresql://"),
        ("REDIS_URL", "localhost:6379", "redis://"),
        ("HEADROOM_PORT", "eighty", "whole number"),
        ("HEADROOM_PORT", "0", "1 or more"),
        ("HEADROOM_PORT", "70000", "at most 65535"),
        ("HEADROOM_PORT", "²", "whole number"),
        ("HEADROOM_PORT", "tcp://10.0.0.1:8000", "enableServiceLinks"),
        ("HEADROOM_LOG_LEVEL", "loud", "debug, info, warning, error"),
        ("HEADROOM_LOG_FORMAT", "xml", "json, console"),
        ("HEADROOM_LEASE_S", "inf", "above 0"),
        ("HEADROOM_LEASE_S", "nan", "above 0"),
        ("HEADROOM_LEASE_S", "-1", "above 0"),
        ("HEADROOM_LEASE_S", "30s", "above 0"),
        ("HEADROOM_LEASE_S", "9", "at least twice HEADROOM_HEARTBEAT_S, which is 5"),
        ("HEADROOM_JOB_DEADLINE_S", "10", "HEADROOM_PROBE_DEADLINE_S (600)"),
        ("HEADROOM_MAX_ATTEMPTS", "1.5", "whole number"),
        ("HEADROOM_OIDC_ISSUER", "http://login.example", "an https:// URL"),
        ("HEADROOM_OIDC_ISSUER", "login.example", "an https:// URL"),
        ("HEADROOM_OIDC_SCOPES", "gpu-users", "pairs such as"),
        ("HEADROOM_OIDC_SCOPES", "gpu-users=fly", "read, plan, measure, field, admin"),
        ("HEADROOM_OIDC_RATE", "often", "600/minute"),
        ("HEADROOM_HUB", "yes", "true or false"),
        ("HF_ENDPOINT", "huggingface.co", "a URL such as"),
        ("HF_ENDPOINT", "https://me:secret@hub", "without a user"),
        ("HEADROOM_HUB_HOSTS", "*.hf.co", "names of hosts"),
        ("HEADROOM_OIDC_QUOTA", "5/day", "HEADROOM_OIDC_ISSUER is not set"),
    ],
)
def test_a_bad_value_is_refused_by_name(variable: str, text: str, expected: str) -> None:
    """The message says which variable, what it holds and what would be right."""
    with pytest.raises(InvalidSettingError) as refused:
        Settings.from_env({variable: text})

    assert refused.value.detail.startswith(f"{variable} is ")
    assert expected in refused.value.detail
    assert refused.value.extra == {"variable": variable}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("HEADROOM_OIDC_ISSUER", "HEADROOM_OIDC_AUDIENCE"),
        ("HEADROOM_OIDC_AUDIENCE", "HEADROOM_OIDC_ISSUER"),
    ],
)
def test_an_issuer_needs_an_audience(given: str, missing: str) -> None:
    """Half of it would let in tokens that were made out for somebody else, or nobody's."""
    with pytest.raises(InvalidSettingError, match=f"^{missing} is ''; it must be set"):
        Settings.from_env({given: "https://login.example"})


def test_an_empty_variable_is_not_set() -> None:
    """Compose files and charts pass empty strings for what nobody filled in."""
    assert Settings.from_env(
        {"HOME": "/h", "HEADROOM_PORT": "", "DATABASE_URL": ""}
    ) == Settings.from_env({"HOME": "/h"})


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_the_driver_is_ours_to_choose(scheme: str) -> None:
    """Platforms hand out URLs without a driver, or with the old scheme."""
    settings = Settings.from_env({"DATABASE_URL": f"{scheme}://db/headroom"})

    assert settings.database_url == "postgresql+psycopg://db/headroom"


def test_another_driver_is_refused() -> None:
    """A URL that names a driver which is not installed would fail later, and in words of
    SQLAlchemy.
    """
    with pytest.raises(InvalidSettingError, match="postgresql://user"):
        Settings.from_env({"DATABASE_URL": "postgresql+asyncpg://db/headroom"})


@pytest.mark.parametrize("variable", ["DATABASE_URL", "REDIS_URL"])
def test_no_password_in_a_refusal(variable: str) -> None:
    """A refusal is printed and logged."""
    with pytest.raises(InvalidSettingError) as refused:
        Settings.from_env({variable: "ftp://ada:secret@host/x"})

    assert "secret" not in refused.value.detail
    assert "@host/x" in refused.value.detail


def test_no_password_in_the_repr() -> None:
    """A settings object ends up in a traceback sooner or later."""
    settings = Settings.from_env(
        {"DATABASE_URL": "postgresql://a:secret@h/d", "REDIS_URL": "redis://:secret@h"}
    )

    assert "secret" not in repr(settings)


def test_a_relative_data_home_is_ignored() -> None:
    """The XDG specification says so; the working directory is no place for a database."""
    assert Settings.from_env({"HOME": "/h", "XDG_DATA_HOME": "data"}).data_dir == Path(
        "/h/.local/share/headroom"
    )
    assert Settings.from_env({"HOME": "/h", "XDG_DATA_HOME": "/data"}).data_dir == Path(
        "/data/headroom"
    )


def test_a_missing_database_is_explained() -> None:
    """Who starts one part alone is told how to get the rest."""
    with pytest.raises(InvalidSettingError, match="headroom up"):
        Settings().require_database_url()


def test_settings_do_not_change() -> None:
    """What was read at the start holds until the end."""
    with pytest.raises(FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]  # that is the test
