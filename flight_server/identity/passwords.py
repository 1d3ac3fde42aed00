"""Passwords and their digests, by argon2id (RFC 9106)."""

from __future__ import annotations

import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from engine.errors import LimitExceeded

LONGEST_PASSWORD = 1024
"""Characters."""
MOST_AT_ONCE = 2
"""How many passwords are verified at the same time: each takes 64 MiB and some 50 ms of a core."""
LONGEST_WAIT_SECONDS = 5.0

_HASHER = PasswordHasher()
_TURNS = threading.BoundedSemaphore(MOST_AT_ONCE)
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$bGl2ZXN0YXRlLW5vYm9keQ$usAosky3S3efjXM1W+F/xDXHtvY6dySTtTF8Qu+YI4g"
"""A digest that no password is known to have. A name that there is not takes as long as one that there is."""


def digest_password(password: str) -> str:
    """The digest of a password, with a salt of its own: `$argon2id$v=19$…`.

    Args:
        password: The password.
    """
    return _HASHER.hash(password)


def is_password(digest: str | None, password: str) -> bool:
    """Whether a password has a digest.

    Args:
        digest: As `digest_password` makes it; None for somebody that there is not.
        password: What was presented.

    Returns:
        Whether it does; after the same time for a digest of None.

    Raises:
        LimitExceeded: Too many passwords are verified now.
    """
    if len(password) > LONGEST_PASSWORD:
        return False
    if not _TURNS.acquire(timeout=LONGEST_WAIT_SECONDS):
        raise LimitExceeded("Too many log-ins at once: try again in some seconds.")
    try:
        return _HASHER.verify(_NOBODY if digest is None else digest, password) and digest is not None
    except (VerificationError, InvalidHashError):
        return False
    finally:
        _TURNS.release()
