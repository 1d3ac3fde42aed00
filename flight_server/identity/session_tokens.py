"""What a log-in with a password gets for its further calls: a signed token that says who it was.

    ls1.<base64url of a JSON object>.<base64url of its HMAC-SHA256>

The object has the name, when the token ends (seconds since 1970 UTC), and a digest of what the password's
entry in the file of users was: another password ends all tokens of the one before. Hosts keep nothing, and
with the same key any host of a deployment takes what another one gave.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass

PREFIX = "ls1."
KEY_BYTES = 32
_LONGEST = 4096


@dataclass(frozen=True)
class SessionToken:
    """What such a token says.

    Attributes:
        name: Whose it is.
        entry: `entry_digest` of the user's entry at the log-in.
        ends: Until when it is good, seconds since 1970 UTC.
    """

    name: str
    entry: str
    ends: int


def entry_digest(password: str) -> str:
    """What a token remembers of a user's entry.

    Args:
        password: The entry's password digest.
    """
    return hashlib.sha256(password.encode()).hexdigest()[:32]


def sign_session(token: SessionToken, key: bytes) -> str:
    """The text that a client presents.

    Args:
        token: What it says.
        key: The deployment's key, `KEY_BYTES` at least.
    """
    document = json.dumps({"name": token.name, "entry": token.entry, "ends": token.ends})
    body = _encode(document.encode())
    return f"{PREFIX}{body}.{_encode(_mac(body, key))}"


def read_session(text: str, key: bytes) -> SessionToken | None:
    """What a text says that a client presents.

    Args:
        text: Any text.
        key: As that of `sign_session`.

    Returns:
        The token, whether it is still good or not; None for a text that the key did not sign.
    """
    if len(text) > _LONGEST or not text.startswith(PREFIX):
        return None
    body, _, signature = text.removeprefix(PREFIX).partition(".")
    try:
        if not hmac.compare_digest(_decode(signature), _mac(body, key)):
            return None
        document = json.loads(_decode(body))
    except (ValueError, UnicodeError):
        return None
    return SessionToken(document["name"], document["entry"], document["ends"])


def _mac(body: str, key: bytes) -> bytes:
    # The prefix is signed, too: the same key may sign other things.
    return hmac.digest(key, (PREFIX + body).encode(), "sha256")


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
