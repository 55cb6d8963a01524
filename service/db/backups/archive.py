"""Backup file: a ZIP of one member a table, and a manifest.

A member holds the rows as COPY writes them as text, which every version of Postgres reads; a file
that is cut is no ZIP, and a changed member has another checksum.
"""

import zipfile
from pathlib import Path

import msgspec

from service.base.command_errors import CommandError
from service.base.typed import get_decoder

FORMAT = 1
MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 2**20


class BackupError(CommandError):
    """A backup cannot be made or restored."""

    type = "backup"
    title = "The backup cannot be made or restored"


class BackedUpTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table of a backup; no member where it has no row."""

    name: str
    columns: list[str]
    num_rows: int

    @property
    def member(self) -> str:
        """Name of its rows in the archive."""
        return f"tables/{self.name}.copy"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Versions and tables of a backup, in the order of filling."""

    format: int
    headroom: str
    schema: str
    created_at: str
    tables: list[BackedUpTable]


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a backup; raises BackupError for another file, or half of one."""
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise BackupError(message) from error
    except zipfile.BadZipFile as error:
        message = f"{path} is no backup of Headroom, or only its beginning: {error}"
        raise BackupError(message) from error


def read_manifest(archive: zipfile.ZipFile) -> Manifest:
    """Return the manifest of a backup."""
    try:
        with archive.open(MANIFEST) as member:
            manifest: Manifest = get_decoder(Manifest).decode(member.read(_MAX_MANIFEST_BYTES))
    except (KeyError, msgspec.DecodeError, zipfile.BadZipFile) as error:
        message = f"{archive.filename} is no backup of Headroom: its {MANIFEST} cannot be read"
        raise BackupError(message) from error
    if manifest.format != FORMAT:
        message = (
            f"{archive.filename} has format {manifest.format}, by Headroom {manifest.headroom}; "
            f"this version reads format {FORMAT}"
        )
        raise BackupError(message)
    return manifest
