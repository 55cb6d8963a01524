"""The embedded Redis: private, and what it said it stored is stored."""

from contextlib import closing
from pathlib import Path

import psutil
import pytest
from redis import Redis

from service.embedded.binaries import find_redis
from service.embedded.identity import read_record
from service.embedded.redis import run_redis
from tests.integration.embedded.conftest import Owner


def _server(root: Path) -> psutil.Process:
    record = read_record(root / "records" / "redis.json")
    assert record is not None
    return psutil.Process(record.pid)


def test_refuses_writes_rather_than_evict(short_dir: Path) -> None:
    """It listens on its socket only, keeps an append-only log and evicts nothing."""
    with run_redis(short_dir) as url, closing(Redis.from_url(url)) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert _server(short_dir).net_connections(kind="inet") == []


def test_what_was_written_survives_a_killed_server(short_dir: Path) -> None:
    """After kill -9 the next start reads the log again."""
    with run_redis(short_dir) as url:
        with closing(Redis.from_url(url)) as client:
            client.set("key", "value")
        _server(short_dir).kill()

    with run_redis(short_dir) as url, closing(Redis.from_url(url, decode_responses=True)) as client:
        assert client.get("key") == "value"


def _read_log(root: Path) -> Path:
    """Return the append-only log, one file up to Redis 6 and one of a folder from 7 on."""
    [file] = [*root.rglob("appendonly.aof"), *root.rglob("*.incr.aof")]
    return file


@pytest.mark.parametrize("damage", [b"\x00" * 4096, b"*3\r\n$3\r\nSET\r\n$1", b"garbage\r\n"])
def test_a_damaged_log_is_cut_where_the_damage_begins(short_dir: Path, damage: bytes) -> None:
    """A disk that was full or failed stops no start: what stood before is kept, and a copy of
    all.
    """
    with run_redis(short_dir) as url, closing(Redis.from_url(url)) as client:
        client.set("key", "value")
    log = _read_log(short_dir)
    good = log.read_bytes()
    log.write_bytes(good + damage + good)

    with run_redis(short_dir) as url, closing(Redis.from_url(url, decode_responses=True)) as client:
        assert client.get("key") == "value"
        client.set("key", "later")

    assert log.with_name(f"{log.name}.damaged").read_bytes() == good + damage + good
    with run_redis(short_dir) as url, closing(Redis.from_url(url, decode_responses=True)) as client:
        assert client.get("key") == "later"


def test_a_log_of_nothing_but_damage_is_begun_anew(short_dir: Path) -> None:
    """It holds notifications and limits of keys: neither is worth a service that does not start."""
    with run_redis(short_dir) as url, closing(Redis.from_url(url)) as client:
        client.set("key", "value")
    log = _read_log(short_dir)
    log.write_bytes(b"\xff" * 200)

    with run_redis(short_dir) as url, closing(Redis.from_url(url)) as client:
        assert client.get("key") is None

    assert log.with_name(f"{log.name}.damaged").read_bytes() == b"\xff" * 200


def test_a_whole_log_is_left_alone(short_dir: Path) -> None:
    """No copy is made of it, and none of one that is empty."""
    for _ in range(2):
        with run_redis(short_dir) as url, closing(Redis.from_url(url)) as client:
            client.set("key", "value")

    assert list(short_dir.rglob("*.damaged")) == []


def test_dies_with_its_owner(short_dir: Path, owner: Owner) -> None:
    """After kill -9 of the owner the server ends by itself."""
    program, _ = owner("redis", short_dir)
    server = _server(short_dir)
    program.kill()

    server.wait(timeout=20)


@pytest.mark.parametrize("name", ["d" * 120, "a b %20 ü?"])
def test_any_directory_will_do(short_dir: Path, name: str) -> None:
    """Paths that no socket or no URL can take as they are work all the same."""
    with run_redis(short_dir / name) as url, closing(Redis.from_url(url)) as client:
        assert client.ping()


def test_a_server_on_the_path_comes_first(tmp_path: Path) -> None:
    """An installed redis-server is preferred to valkey-server, and both to the bundled one."""
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).touch(mode=0o755)

    assert find_redis(str(tmp_path)) == tmp_path / "redis-server"
    (tmp_path / "redis-server").unlink()
    assert find_redis(str(tmp_path)) == tmp_path / "valkey-server"
    (tmp_path / "valkey-server").unlink()
    bundled = find_redis(str(tmp_path))
    assert bundled is None or bundled.parent != tmp_path
