"""Unprivileged user of the embedded servers.

Postgres refuses root, so root hands the servers to a user id that nothing else has. No user is
added to the system and no directory is opened to everybody: the id gets the right to pass through,
and only where it lacks it, by an access control list (acl(5)); on a filesystem without them, by the
execute bit for others.
"""

import errno
import os
import pwd
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from service.base.startup_errors import EmbeddedServerError
from service.embedded.events import Log

SERVER_USER = 65_530
"""In Debian's reserved range and outside of systemd's dynamic one; below 65,536, which a container
always maps.
"""

_XATTR = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_UNDEFINED_ID = 0xFFFF_FFFF
_EXECUTE = 0o1

Entry = tuple[int, int, int]
"""Tag, permissions, id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAccess:
    """Mode and ACL of a directory before a change."""

    path: Path
    mode: int
    acl: bytes | None


def get_server_user() -> int | None:
    """Return the user id that servers drop to.

    ``None`` when this process has nothing to drop.
    """
    return SERVER_USER if os.geteuid() == 0 else None


def find_named_user() -> int:
    """Return an unprivileged user id with a passwd entry.

    initdb looks its own name up and fails without one.
    """
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        message = (
            "root cannot create the database: initdb needs an unprivileged user with a name, and "
            "there is no 'nobody'"
        )
        raise EmbeddedServerError(message) from None


def grant_traversal(target: Path, user: int, log: Log) -> list[DirectoryAccess]:
    """Let ``user`` traverse every directory down to ``target``.

    Returns the directories that had to change.
    """
    resolved = target.resolve(strict=True)
    opened = [
        _read_access(path)
        for path in reversed((resolved, *resolved.parents))
        if path.is_dir() and not _can_traverse(path, user)
    ]
    for before in opened:
        acl = _grant(before, user)
        log.info(
            "embedded.traversal_granted",
            directory=str(before.path),
            user=user,
            by="acl" if acl else "others' execute bit",
        )
    return opened


def revoke_traversal(opened: Iterable[DirectoryAccess], log: Log) -> None:
    """Restore the directories that ``grant_traversal`` changed."""
    for before in opened:
        if before.acl is not None:
            os.setxattr(before.path, _XATTR, before.acl)
        elif _read_acl(before.path) is not None:
            os.removexattr(before.path, _XATTR)
        before.path.chmod(before.mode)
        log.info("embedded.traversal_revoked", directory=str(before.path))


def _read_access(path: Path) -> DirectoryAccess:
    return DirectoryAccess(path=path, mode=stat.S_IMODE(path.stat().st_mode), acl=_read_acl(path))


def _can_traverse(path: Path, user: int) -> bool:
    status = path.stat()
    if status.st_uid == user:
        return bool(status.st_mode & stat.S_IXUSR)
    acl = _read_acl(path)
    if acl is None:
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == user else stat.S_IXOTH))
    entries = _parse_entries(acl)
    mask = next((permissions for tag, permissions, _ in entries if tag == _MASK), 0o7)
    named = next(
        (permissions for tag, permissions, uid in entries if tag == _USER and uid == user), None
    )
    if named is not None:
        return bool(named & mask & _EXECUTE)
    return bool(status.st_mode & stat.S_IXOTH)


def _grant(before: DirectoryAccess, user: int) -> bool:
    """Grant traversal by ACL, else by the execute bit.

    Returns whether the filesystem has access control lists.
    """
    try:
        os.setxattr(before.path, _XATTR, _add_traversal(before, user))
    except OSError as error:
        if error.errno not in {errno.ENOTSUP, errno.EOPNOTSUPP}:
            raise
        before.path.chmod(before.mode | stat.S_IXOTH)
        return False
    return True


def _add_traversal(before: DirectoryAccess, user: int) -> bytes:
    entries = _parse_entries(before.acl) if before.acl is not None else _from_mode(before.mode)
    new_entries = [
        entry for entry in entries if entry[0] != _MASK and (entry[0], entry[2]) != (_USER, user)
    ]
    new_entries.append((_USER, _EXECUTE, user))
    mask = 0
    for tag, permissions, _ in new_entries:
        mask |= permissions if tag in {_USER, _GROUP, _NAMED_GROUP} else 0
    new_entries.append((_MASK, mask, _UNDEFINED_ID))
    return _VERSION + b"".join(
        _ENTRY.pack(*entry) for entry in sorted(new_entries, key=lambda entry: (entry[0], entry[2]))
    )


def _from_mode(mode: int) -> list[Entry]:
    shifts = ((_OWNER, 6), (_GROUP, 3), (_OTHER, 0))
    return [(tag, mode >> shift & 0o7, _UNDEFINED_ID) for tag, shift in shifts]


def _parse_entries(acl: bytes) -> list[Entry]:
    return [tuple(entry) for entry in _ENTRY.iter_unpack(acl[len(_VERSION) :])]


def _read_acl(path: Path) -> bytes | None:
    try:
        return os.getxattr(path, _XATTR)
    except OSError as error:
        if error.errno in {errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP}:
            return None
        raise
