"""Files that hold what nobody else may read."""

from __future__ import annotations

import os
import ssl
import stat
from contextlib import suppress
from pathlib import Path

from engine.errors import InvalidInput

LARGEST_FILE = 64 * 2**20
"""Bytes of the largest file that is read: of 10,000 users it takes some 3 MiB."""


def read_secret(file: Path, what: str) -> bytes:
    """Read a file that only its owner, and perhaps its group, may read.

    Args:
        file: Where it is.
        what: What it is, for the error: `The file of users`.

    Returns:
        Its bytes.

    Raises:
        InvalidInput: It cannot be read, is too large, or others can read or change it.
    """
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInput(f"{what} is no regular file.")
            if status.st_mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
                raise InvalidInput(
                    f"{what} can be read or changed by others: take that right from them (chmod 600)."
                )
            if status.st_size > LARGEST_FILE:
                raise InvalidInput(f"{what} is larger than {LARGEST_FILE >> 20} MiB.")
            return opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidInput(f"{what} cannot be read: {error.strerror}.") from error


def read_secret_text(file: Path, what: str) -> str:
    """As `read_secret`, as a text in UTF-8."""
    try:
        return read_secret(file, what).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} is not text in UTF-8.") from error


def check_certificate_key(certificate: Path, key: Path) -> None:
    """See that a key is that of a certificate: gRPC's words for one that is not are about something else.

    Args:
        certificate: File of PEM certificates; the first is the one that counts.
        key: File of a PEM key without a password.

    Raises:
        InvalidInput: The key is another one's, or one of the files is not what it should be.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InvalidInput(
                "The key is not that of the certificate: give the two that belong together."
            ) from error
        raise InvalidInput(
            "TLS cannot take the certificate and its key: give them in PEM, the key without a password."
        ) from error
    except OSError as error:
        raise InvalidInput(f"The certificate or its key cannot be read: {error.strerror}.") from error


def write_secret(file: Path, data: bytes) -> None:
    """Write a file that only its owner may read, as a whole or not at all. Who may read one that is replaced
    stays as it was.

    Args:
        file: Where; what is there is replaced, or what a link there names.
        data: Its bytes.

    Raises:
        InvalidInput: It cannot be written.
    """
    file = file.resolve()
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:  # noqa: PTH123 - by descriptor
            if file.exists():
                _keep_rights(opened.fileno(), file.stat())
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InvalidInput(f"The file cannot be written: {error.strerror}.") from error


def _keep_rights(descriptor: int, before: os.stat_result) -> None:
    """Give a file the owner and the rights of another one, as far as this process may."""
    with suppress(PermissionError):
        os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
