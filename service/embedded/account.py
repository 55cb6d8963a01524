"""Who the servers run as: Postgres refuses root, so root hands them to a user id that nothing else has.

No user is added to the system and no directory is opened to everybody: the id gets the right to pass through, and only
where it lacks it, by an access control list (acl(5)); on a filesystem without them, by the execute bit for others.
"""

import errno
import os
import pwd
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from service.base.errors import EmbeddedServerError
from service.embedded.events import Log

SERVER_USER = 65_530
"""In Debian's reserved range and outside of systemd's dynamic one; below 65,536, which a container always maps."""

_XATTR = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NOBODY_IN_PARTICULAR = 0xFFFF_FFFF
_PASS = 0o1

Entry = tuple[int, int, int]
"""Tag, permissions, id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A directory that was opened, with what it takes to close it again."""

    path: Path
    mode: int
    acl: bytes | None


def server_user() -> int | None:
    """Return the id that servers drop to, or None when this process has nothing to drop."""
    return SERVER_USER if os.geteuid() == 0 else None


def user_with_a_name() -> int:
    """Return an unprivileged id with a passwd entry: initdb looks its own name up and fails without one."""
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        message = "root cannot create the database: initdb needs an unprivileged user with a name, and there is no 'nobody'"
        raise EmbeddedServerError(message) from None


def open_way(target: Path, user: int, log: Log) -> list[Opened]:
    """Let ``user`` pass through every directory down to ``target``; return those that had to change."""
    resolved = target.resolve(strict=True)
    opened = [_open(path) for path in reversed((resolved, *resolved.parents)) if path.is_dir() and not _passes(path, user)]
    for before in opened:
        acl = _grant(before, user)
        log.info(
            "embedded.traversal_granted", directory=str(before.path), user=user, by="acl" if acl else "others' execute bit"
        )
    return opened


def close_way(opened: Iterable[Opened], log: Log) -> None:
    """Put back what ``open_way`` changed."""
    for before in opened:
        if before.acl is not None:
            os.setxattr(before.path, _XATTR, before.acl)
        elif _read_acl(before.path) is not None:
            os.removexattr(before.path, _XATTR)
        before.path.chmod(before.mode)
        log.info("embedded.traversal_revoked", directory=str(before.path))


def _open(path: Path) -> Opened:
    return Opened(path=path, mode=stat.S_IMODE(path.stat().st_mode), acl=_read_acl(path))


def _passes(path: Path, user: int) -> bool:
    status = path.stat()
    if status.st_uid == user:
        return bool(status.st_mode & stat.S_IXUSR)
    acl = _read_acl(path)
    if acl is None:
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == user else stat.S_IXOTH))
    entries = _entries(acl)
    mask = next((permissions for tag, permissions, _ in entries if tag == _MASK), 0o7)
    named = next((permissions for tag, permissions, who in entries if tag == _USER and who == user), None)
    if named is not None:
        return bool(named & mask & _PASS)
    return bool(status.st_mode & stat.S_IXOTH)


def _grant(before: Opened, user: int) -> bool:
    """Grant by a list where the filesystem has lists; say whether it had."""
    try:
        os.setxattr(before.path, _XATTR, _with_passage(before, user))
    except OSError as error:
        if error.errno not in {errno.ENOTSUP, errno.EOPNOTSUPP}:
            raise
        before.path.chmod(before.mode | stat.S_IXOTH)
        return False
    return True


def _with_passage(before: Opened, user: int) -> bytes:
    entries = _entries(before.acl) if before.acl is not None else _from_mode(before.mode)
    kept = [entry for entry in entries if entry[0] != _MASK and (entry[0], entry[2]) != (_USER, user)]
    kept.append((_USER, _PASS, user))
    mask = 0
    for tag, permissions, _ in kept:
        mask |= permissions if tag in {_USER, _GROUP, _NAMED_GROUP} else 0
    kept.append((_MASK, mask, _NOBODY_IN_PARTICULAR))
    return _VERSION + b"".join(_ENTRY.pack(*entry) for entry in sorted(kept, key=lambda entry: (entry[0], entry[2])))


def _from_mode(mode: int) -> list[Entry]:
    shifts = ((_OWNER, 6), (_GROUP, 3), (_OTHER, 0))
    return [(tag, mode >> shift & 0o7, _NOBODY_IN_PARTICULAR) for tag, shift in shifts]


def _entries(acl: bytes) -> list[Entry]:
    return [tuple(entry) for entry in _ENTRY.iter_unpack(acl[len(_VERSION) :])]


def _read_acl(path: Path) -> bytes | None:
    try:
        return os.getxattr(path, _XATTR)
    except OSError as error:
        if error.errno in {errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP}:
            return None
        raise
