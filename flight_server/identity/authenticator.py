"""What a call presents, made a principal, or refused. The one place where that is done."""

from __future__ import annotations

import base64
import hashlib
import logging
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.access.principal import Principal, Proof
from engine.access.security_file import User
from engine.errors import LimitExceeded, Unauthenticated
from flight_server.identity.credentials import (
    Credentials,
    file_stamp,
    new_session_key,
    one_token,
    read_credentials,
)
from flight_server.identity.failed_logins import FailedLogins
from flight_server.identity.passwords import LONGEST_PASSWORD, is_password
from flight_server.identity.session_tokens import (
    PREFIX,
    SessionToken,
    entry_digest,
    read_session,
    sign_session,
)
from flight_server.identity.web_tokens import SigningKeys, key_id, web_principal
from flight_server.wire.boundary import PROOF_WANTED

LONGEST_HEADER = 16_384
"""Characters of an authorization header: JSON Web Tokens with many claims have some 4,000."""
MOST_KEPT = 10_000
"""Proofs that are kept, so that each call of a client costs one look and not a signature."""
MOST_OF_ONE = 1000
"""Of these, those of one principal: a token comes with any user name, and somebody who thinks up thousands is
not to have the passwords of others verified each time.
"""
KEPT_SECONDS = 300.0
"""For how long a password that was right is not verified again."""
STRANGERS = 4096
"""How many counts of failures the names that nobody has share."""
_WANTED = f"{PROOF_WANTED}: send a bearer token, or Basic authentication"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _KeptProof:
    """A proof that was found good.

    Attributes:
        principal: Whose.
        ends: Until when, in seconds since 1970 UTC.
        keys: Those of which one signed it, which must still be good; None: it is no JSON Web Token.
    """

    principal: Principal
    ends: float
    keys: SigningKeys | None = None

    def is_good(self, credentials: Credentials, now: float) -> bool:
        """Whether it still proves the principal.

        Args:
            credentials: By which it was found good.
            now: Seconds since 1970 UTC.
        """
        source = credentials.web_keys
        return now < self.ends and (self.keys is None or source is None or source.are_current(self.keys))


@dataclass(frozen=True)
class _Known:
    """What one reading of the files says, and what it proved: replaced together, or a proof that is gone from
    the files would be kept with what came after them.

    Attributes:
        credentials: What the files say.
        kept: Proofs that were found good by them, by the digest of their header; those of longest ago first.
        awaited: Proofs that are looked at now, likewise.
        owned: Digests of what is kept, by the principal's name, in the same order.
    """

    credentials: Credentials
    kept: OrderedDict[bytes, _KeptProof] = field(default_factory=OrderedDict)
    awaited: dict[bytes, Future[_KeptProof]] = field(default_factory=dict)
    owned: dict[str, deque[bytes]] = field(default_factory=dict)

    def keep(self, digest: bytes, proof: _KeptProof) -> None:
        """Keep a proof, in place of the oldest of the principal, or of all, if there are too many. One thread
        at a time.

        Args:
            digest: Of its header.
            proof: What it proves.
        """
        before = self.kept.get(digest)
        if before is not None:
            self._forget(digest, before)
        name = proof.principal.name
        own = self.owned.setdefault(name, deque())
        if len(own) >= MOST_OF_ONE:
            self._forget(own[0], proof)
        elif len(self.kept) >= MOST_KEPT:
            self._forget(*next(iter(self.kept.items())))
        self.kept[digest] = proof
        self.owned.setdefault(name, deque()).append(digest)

    def _forget(self, digest: bytes, proof: _KeptProof) -> None:
        del self.kept[digest]
        own = self.owned[proof.principal.name]
        own.remove(digest)
        if not own:
            del self.owned[proof.principal.name]


class Authenticator:
    """Knows who calls. Usable from several threads.

    Args:
        token: What callers must present, as a bearer token or as the password of any user.
        file: The security file instead.

    Raises:
        InvalidInput: It, or a file that it names, is not what it should be.
    """

    def __init__(self, *, token: str = "", file: Path | None = None) -> None:
        self._file = file
        self._own_session_key = new_session_key()
        self._known = _Known(
            one_token(token) if file is None else read_credentials(file, self._own_session_key)
        )
        self._failed = FailedLogins()
        self._lock = threading.Lock()

    @property
    def credentials(self) -> Credentials:
        """What the files say now."""
        return self._known.credentials

    @property
    def takes_certificates(self) -> bool:
        """Whether callers may prove themselves by a certificate."""
        return bool(self.credentials.authorities)

    def reload(self) -> bool:
        """Read the files again. From then on only what they say is good; of those that cannot be read
        (`Credentials.unread`), what they said before. Calls that run are not ended.

        Returns:
            Whether there is anything to tell: not where some still cannot be read, and nothing has changed.
        """
        if self._file is None:
            return False
        credentials = read_credentials(self._file, self._own_session_key, self.credentials)
        if credentials.unread and credentials == self.credentials:
            # Tried each second: what was proved is not to be proved again as often.
            return False
        self._known = _Known(credentials)
        return True

    def has_changed(self) -> bool:
        """Whether one of the files is another than the one that was read last, or could not be read."""
        credentials = self.credentials
        return bool(credentials.unread) or any(
            file_stamp(file) != stamp for file, stamp in credentials.files.items()
        )

    def principal_of_headers(self, authorization: Sequence[str]) -> Principal | None:
        """Who presents these headers.

        Args:
            authorization: The values of `authorization`; Go's client sends the same one twice.

        Returns:
            The principal; None where there is no such header, which a certificate may make up for.

        Raises:
            Unauthenticated: It proves nobody.
            LimitExceeded: Too many log in at once.
        """
        return self._principal(authorization, self._known)

    def principal_of_certificate(self, subject: str) -> Principal:
        """Who has a certificate.

        Args:
            subject: The first alternative name of the certificate that TLS has verified, or its common name;
                empty without one.

        Raises:
            Unauthenticated: Nobody known.
        """
        credentials = self.credentials
        named = credentials.certificates.get(subject)
        if named is None:
            raise Unauthenticated(
                f"{_WANTED}, or a certificate that the host knows."
                if not subject
                else "The certificate is good, and this host knows nobody of its subject."
            )
        return _add_grants(Principal(named.name, named.roles, Proof.CERTIFICATE, named.claims), credentials)

    def bearer(self, authorization: Sequence[str]) -> str:
        """What a client that has logged in presents from now on.

        Args:
            authorization: The headers of its log-in.

        Returns:
            A bearer token that proves the principal whom the headers prove: the same for who came with one, a
            session token for a user with a password.

        Raises:
            Unauthenticated: They prove nobody.
            LimitExceeded: Too many log in at once.
        """
        # What was proved decides, not the name beside it: a static token may come with the name of any user.
        known = self._known
        principal = self._principal(authorization, known)
        if principal is None:
            raise Unauthenticated(f"{_WANTED}: a log-in takes no certificate.")
        scheme, proof = _parts(authorization[0])
        if scheme == "bearer":
            return proof
        if principal.proof is not Proof.PASSWORD:
            pair = _name_and_password(proof)
            return "" if pair is None else pair[1]
        credentials = known.credentials
        user = credentials.users[principal.name]
        ends = int(time.time()) + credentials.options.session_seconds
        return sign_session(
            SessionToken(user.name, entry_digest(user.password), ends), credentials.session_key
        )

    def _principal(self, authorization: Sequence[str], known: _Known) -> Principal | None:
        values = set(authorization)
        if not values:
            if known.credentials.authorities:
                return None
            raise Unauthenticated(f"{_WANTED}.")
        if len(values) > 1:
            raise Unauthenticated("The call has several different authorization headers: send one.")
        (value,) = values
        if len(value) > LONGEST_HEADER:
            raise Unauthenticated(f"The authorization header is longer than {LONGEST_HEADER} characters.")
        digest = hashlib.sha256(value.encode()).digest()
        proof = known.kept.get(digest)
        if proof is not None and proof.is_good(known.credentials, time.time()):
            return proof.principal
        awaited: Future[_KeptProof] = Future()
        with self._lock:
            newer = known.kept.get(digest)
            if newer is not None and newer is not proof:
                return newer.principal
            # Equal headers at once are one log-in: many calls of a client wait for one digest, not for many.
            first = known.awaited.setdefault(digest, awaited)
        if first is awaited:
            self._look_at(value, digest, known, awaited)
        return first.result().principal

    def _look_at(self, value: str, digest: bytes, known: _Known, awaited: Future[_KeptProof]) -> None:
        try:
            proof = self._proof(value, known.credentials, time.time())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            awaited.set_exception(error)
        else:
            awaited.set_result(proof)
        with self._lock:
            del known.awaited[digest]
            if awaited.exception() is None:
                known.keep(digest, awaited.result())

    def _proof(self, value: str, credentials: Credentials, now: float) -> _KeptProof:
        scheme, proof = _parts(value)
        if scheme == "bearer":
            return _bearer_proof(proof, credentials, now)
        pair = _name_and_password(proof) if scheme == "basic" else None
        if pair is None:
            raise Unauthenticated(f"{_WANTED}.")
        name, password = pair
        # Drivers that know only users send a static token as the password of any.
        token = _token_proof(password, credentials, now)
        return token if token is not None else self._password_proof(name, password, credentials, now)

    def _password_proof(self, name: str, password: str, credentials: Credentials, now: float) -> _KeptProof:
        user = credentials.users.get(name)
        if len(password) > LONGEST_PASSWORD:
            # Nobody has such a password: as a failure it would let anybody slow others down for nothing.
            raise _wrong_password(name, user)
        subject = _slowed_subject(name, user)
        delay = self._failed.begin(subject, time.monotonic())
        if delay > 0:
            raise Unauthenticated(
                f"Too many log-ins of this user have failed: wait {math.ceil(delay)} s and try again."
            )
        try:
            is_right = is_password(None if user is None else user.password, password)
        except LimitExceeded:
            self._failed.take_back(subject)
            raise
        if not is_right or user is None:
            self._failed.fail(subject, time.monotonic())
            raise _wrong_password(name, user)
        self._failed.forget(subject)
        return _KeptProof(_user_principal(user.name, credentials), now + KEPT_SECONDS)


def _slowed_subject(name: str, user: User | None) -> Hashable:
    """Whose failures slow a log-in down: those of the user. A name that nobody has shares them with some, so
    made-up names fill no memory; with few, or its delay would tell that nobody has the name.
    """
    return hash(name) % STRANGERS if user is None else user.name


def _wrong_password(name: str, user: User | None) -> Unauthenticated:
    """Log a failure, and say it. All names that nobody has are one kind of line."""
    whose = "of nobody" if user is None else repr(user.name)
    _log.warning("a log-in has failed: user %r", name[:100], extra={"repeats": f"log-in {whose}"})
    return Unauthenticated("User and password are wrong, or the token in the password's place is.")


def _bearer_proof(proof: str, credentials: Credentials, now: float) -> _KeptProof:
    token = _token_proof(proof, credentials, now)
    if token is not None:
        return token
    if proof.startswith(PREFIX):
        return _session_proof(proof, credentials, now)
    if credentials.web_keys is None or credentials.options.jwt is None:
        raise Unauthenticated("This host does not know the bearer token.")
    keys = credentials.web_keys.keys(key_id(proof))
    principal, ends = web_principal(proof, keys, credentials.options.jwt)
    return _KeptProof(_add_grants(principal, credentials), ends, keys)


def _token_proof(proof: str, credentials: Credentials, now: float) -> _KeptProof | None:
    # What a digest is found by tells nothing of the token, however long the look takes.
    token = credentials.tokens.get(hashlib.sha256(proof.encode()).hexdigest())
    if token is None:
        return None
    ends = float("inf") if token.expires is None else token.expires.timestamp()
    if now >= ends:
        raise Unauthenticated("The token has expired.")
    principal = Principal(token.name, token.roles, Proof.TOKEN, token.claims)
    return _KeptProof(_add_grants(principal, credentials), ends)


def _session_proof(proof: str, credentials: Credentials, now: float) -> _KeptProof:
    session = read_session(proof, credentials.session_key)
    user = None if session is None else credentials.users.get(session.name)
    if session is None or user is None or session.entry != entry_digest(user.password):
        raise Unauthenticated("The log-in is not good any more: log in again.")
    if now >= session.ends:
        raise Unauthenticated("The log-in has ended: log in again.")
    return _KeptProof(_user_principal(user.name, credentials), session.ends)


def _user_principal(name: str, credentials: Credentials) -> Principal:
    user = credentials.users[name]
    return _add_grants(Principal(user.name, user.roles, Proof.PASSWORD, user.claims), credentials)


def _add_grants(principal: Principal, credentials: Credentials) -> Principal:
    options = credentials.options
    return replace(
        principal,
        grants=options.grants(principal.roles),
        limits=options.limits_of(principal.roles),
    )


def _parts(authorization: str) -> tuple[str, str]:
    scheme, _, proof = authorization.partition(" ")
    return scheme.lower(), proof.strip()


def _name_and_password(proof: str) -> tuple[str, str] | None:
    """What Basic authentication (RFC 7617) says; None for what is none."""
    try:
        # Go's client leaves the padding out.
        text = base64.b64decode(proof + "=" * (-len(proof) % 4)).decode()
    except ValueError:
        return None
    name, colon, password = text.partition(":")
    return (name, password) if colon else None
