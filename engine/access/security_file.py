"""The tables `security` and `roles` of a deployment file, or of a file of their own: how callers prove who
they are, and what they may read.

[security]
tokens = "tokens.toml"
users = "users.toml"
session_key = "session.key"

[security.jwt]
issuer = "https://login.example.com/"
audience = "livestate"
keys = "https://login.example.com/keys.json"

[security.certificates]
authorities = "callers.pem"

[[security.certificates.principals]]
subject = "host-a.example.com"
name = "a"
roles = ["peer"]

[roles.rates]
stores = ["trades", "positions_*"]
columns = ["*"]
rows = "desk = claim('desk')"
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from engine.access.claims import Claim, claim_of
from engine.access.principal import BUILT_IN_ROLES, Limit, LimitName
from engine.access.scope import Grant
from engine.errors import InvalidInput

ASYMMETRIC_ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA")
"""What signs a JWT by a key that hosts cannot sign with themselves (RFC 7518, RFC 8037)."""
SECRET_ALGORITHMS = ("HS256", "HS384", "HS512")
"""What signs it by a secret that hosts share with whoever makes them."""
MOST_CLAIM_BYTES, MOST_CLAIM_TEXTS = 1 << 19, 30_000
"""Of all claims of an entry: hosts send them to each other with each part of a statement."""
LONGEST_NAME = 256
"""Characters in the name of a principal, a role or a claim."""
MOST_LEEWAY_SECONDS = 86_400
"""Tokens are good for that much longer than they say, so more could hardly be meant."""
LEAST_ENGINE_BYTES = 16 << 20
"""With less the engine could hardly answer anything."""
_CREDENTIALS_VERSION = 1
_SHA256_DIGITS = 64


@dataclass(frozen=True)
class JwtOptions:
    """Which JSON Web Tokens (RFC 7519) are taken.

    Attributes:
        issuer: Their `iss`.
        audience: What is, or is among, their `aud`.
        keys: File or https:// address of the keys that sign them, a JSON Web Key Set (RFC 7517); with
            algorithms of `SECRET_ALGORITHMS` the file of the secret.
        algorithms: What may sign them: of one kind, never both.
        name_claim: The claim that is the principal's name.
        roles_claim: The claim that has its roles, as a list or a text with blanks between them.
        leeway_seconds: How far the clocks of issuer and host may be apart.
    """

    issuer: str
    audience: str
    keys: str
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    name_claim: str = "sub"
    roles_claim: str = "roles"
    leeway_seconds: int = 10


@dataclass(frozen=True)
class NamedCertificate:
    """Who calls with a certificate.

    Attributes:
        subject: The first alternative name in the certificate, or its common name if it has none.
        name: The principal's name.
        roles: Its roles.
        claims: Its claims.
    """

    subject: str
    name: str
    roles: frozenset[str]
    claims: Mapping[str, Claim] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class CertificateOptions:
    """Which certificates are taken.

    Attributes:
        authorities: File of the PEM certificates that vouch for those of callers.
        principals: Who has which; others are refused.
    """

    authorities: str
    principals: tuple[NamedCertificate, ...]


@dataclass(frozen=True)
class SecurityOptions:
    """How callers prove who they are. Files are named relative to the file that says so.

    Attributes:
        tokens: File of static tokens; empty: none.
        users: File of users with passwords; empty: none.
        session_key: File of the key that signs what a log-in with a password gets for its further calls;
            hosts of a deployment share it. Empty: a host makes one for itself at its start.
        session_seconds: How long that is good.
        jwt: Which JSON Web Tokens are taken; None: none.
        certificates: Which certificates of callers are taken; None: none are asked for.
        peer_token: File of the token by which this host proves itself to other hosts; empty: none.
        peer_certificate: File of the certificate by which it does; empty: none.
        peer_key: File of its key.
        roles: What roles may read that are not built in.
        limits: What a principal of a role may have at once, by role.
    """

    tokens: str = ""
    users: str = ""
    session_key: str = ""
    session_seconds: int = 43_200
    jwt: JwtOptions | None = None
    certificates: CertificateOptions | None = None
    peer_token: str = ""
    peer_certificate: str = ""
    peer_key: str = ""
    roles: Mapping[str, Grant] = field(default_factory=dict, hash=False)
    limits: Mapping[str, Mapping[LimitName, int]] = field(default_factory=dict, hash=False)

    def limits_of(self, roles: frozenset[str]) -> Mapping[LimitName, Limit]:
        """What a principal may have at once.

        Args:
            roles: Its roles: the most that one of them allows.

        Returns:
            The limits; without those that one of the roles does not have.
        """
        known = [role for role in sorted(roles) if role in self.roles or role in BUILT_IN_ROLES]
        found = {}
        for name in LimitName:
            most = [(limits[name], role) for role in known if name in (limits := self.limits.get(role, {}))]
            if most and len(most) == len(known):
                number, role = max(most, key=lambda each: each[0])
                found[name] = Limit(number, role)
        return found

    def grants(self, roles: frozenset[str]) -> tuple[Grant, ...]:
        """What roles may read.

        Args:
            roles: Names; those that are built in, and those that there are not, add nothing.
        """
        return tuple(self.roles[role] for role in sorted(roles) if role in self.roles)

    def check_roles(self, where: str, roles: frozenset[str]) -> None:
        """See that roles exist.

        Args:
            where: Who has them, for the error.
            roles: Their names.

        Raises:
            InvalidInput: One does not.
        """
        for role in sorted(roles):
            if role not in BUILT_IN_ROLES and role not in self.roles:
                known = ", ".join((*BUILT_IN_ROLES, *sorted(self.roles)))
                raise InvalidInput(f"{where} has the role {role!r}; there are {known[:1000]}.")


@dataclass(frozen=True)
class StaticToken:
    """A token whose digest a file holds.

    Attributes:
        sha256: SHA-256 of the token, 64 hexadecimal digits in lower case.
        name: The principal's name.
        roles: Its roles.
        expires: From when on it is refused; None: never.
        claims: Its claims.
    """

    sha256: str
    name: str
    roles: frozenset[str]
    expires: datetime | None = None
    claims: Mapping[str, Claim] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class User:
    """Somebody with a password.

    Attributes:
        name: The principal's name.
        password: The password's argon2 digest, in the form of the PHC (`$argon2id$v=19$…`).
        roles: Its roles.
        claims: Its claims.
    """

    name: str
    password: str = field(repr=False)
    roles: frozenset[str]
    claims: Mapping[str, Claim] = field(default_factory=dict, hash=False)


_STRINGS = ("an array of texts", list)
_TEXT = ("a text in quotes", str)
_NUMBER = ("a whole number", int)
_TABLE = ("a table", dict)
_TABLES = ("a list of tables", list)
_TIME = ("a time with its zone, such as 2027-01-31T00:00:00Z", datetime)
_Fields = Mapping[str, tuple[str, type]]
_SECURITY: _Fields = {
    "tokens": _TEXT,
    "users": _TEXT,
    "session_key": _TEXT,
    "session_seconds": _NUMBER,
    "jwt": _TABLE,
    "certificates": _TABLE,
    "peer_token": _TEXT,
    "peer_certificate": _TEXT,
    "peer_key": _TEXT,
}
_JWT: _Fields = {
    "issuer": _TEXT,
    "audience": _TEXT,
    "keys": _TEXT,
    "algorithms": _STRINGS,
    "name_claim": _TEXT,
    "roles_claim": _TEXT,
    "leeway_seconds": _NUMBER,
}
_BUILT_IN_ROLE: _Fields = {name.value: _NUMBER for name in LimitName}
_ROLE: _Fields = {"stores": _STRINGS, "columns": _STRINGS, "rows": _TEXT, **_BUILT_IN_ROLE}
_CERTIFICATES: _Fields = {"authorities": _TEXT, "principals": _TABLES}
_NAMED_CERTIFICATE: _Fields = {"subject": _TEXT, "name": _TEXT, "roles": _STRINGS, "claims": _TABLE}
_STATIC_TOKEN: _Fields = {
    "sha256": _TEXT,
    "name": _TEXT,
    "roles": _STRINGS,
    "expires": _TIME,
    "claims": _TABLE,
}
_USER: _Fields = {"name": _TEXT, "password": _TEXT, "roles": _STRINGS, "claims": _TABLE}


def parse_security(text: str) -> SecurityOptions | None:
    """Read the security tables of a file; what else it holds is not looked at.

    Args:
        text: TOML as in this module's description.

    Returns:
        The options; None where there is no table `security`.

    Raises:
        InvalidInput: The tables say what cannot be; the message says what to change.
    """
    document = _parse_toml(text, "The security file")
    if "security" not in document:
        return None
    table = _checked_table("[security]", document["security"], _SECURITY)
    jwt, certificates = table.pop("jwt", None), table.pop("certificates", None)
    options = SecurityOptions(
        **table,
        jwt=None if jwt is None else _jwt_options(jwt),
        certificates=None if certificates is None else _certificate_options(certificates),
        roles=_roles(document.get("roles", {})),
        limits=_limits(document.get("roles", {})),
    )
    if options.certificates is not None:
        for named in options.certificates.principals:
            options.check_roles(f"The certificate {named.subject}", named.roles)
    if not (options.tokens or options.users or options.jwt or options.certificates):
        raise InvalidInput(
            "[security] names nothing by which callers could prove themselves: "
            "add tokens, users, jwt or certificates."
        )
    if options.session_seconds < 1:
        raise InvalidInput("[security] has session_seconds below 1.")
    if bool(options.peer_certificate) != bool(options.peer_key):
        raise InvalidInput("[security] needs both peer_certificate and peer_key, or neither.")
    return options


def parse_tokens(text: str) -> tuple[StaticToken, ...]:
    """Read a file of static tokens.

    Args:
        text: TOML: `version = 1`, and tables `[[tokens]]` with `sha256`, `name`, `roles`, and perhaps
            `expires` and `claims`.

    Returns:
        The tokens, in the file's order.

    Raises:
        InvalidInput: It is no such file, or has a token twice.
    """
    found = []
    for where, table in _entries(text, "tokens"):
        entry = _checked_table(where, table, _STATIC_TOKEN, required=("sha256", "name", "roles"))
        digest = entry["sha256"]
        if len(digest) != _SHA256_DIGITS or not set(digest) <= set("0123456789abcdef"):
            raise InvalidInput(
                f"{where} has a sha256 that is not 64 hexadecimal digits in lower case: "
                "`livestate token` makes entries."
            )
        expires = entry.get("expires")
        if expires is not None and expires.tzinfo is None:
            raise InvalidInput(f"{where} expires at a time without a zone: add Z for UTC.")
        found.append(StaticToken(digest, *_identity(where, entry), expires, _claims(where, entry)))
    _check_unlike("token", [token.sha256 for token in found])
    return tuple(found)


def parse_users(text: str) -> tuple[User, ...]:
    """Read a file of users.

    Args:
        text: TOML: `version = 1`, and tables `[[users]]` with `name`, `password`, `roles`, and perhaps
            `claims`.

    Returns:
        The users, in the file's order.

    Raises:
        InvalidInput: It is no such file, or has a user twice.
    """
    found = []
    for where, table in _entries(text, "users"):
        entry = _checked_table(where, table, _USER, required=("name", "password", "roles"))
        if not entry["password"].startswith("$argon2"):
            raise InvalidInput(
                f"{where} has a password that is no argon2 digest: `livestate user` makes entries."
            )
        name, roles = _identity(where, entry)
        if ":" in name:
            raise InvalidInput(f"{where} has ':' in its name, which Basic authentication cannot send.")
        found.append(User(name, entry["password"], roles, _claims(where, entry)))
    _check_unlike("user", [user.name for user in found])
    return tuple(found)


def _jwt_options(table: object) -> JwtOptions:
    fields = _checked_table("[security.jwt]", table, _JWT, required=("issuer", "audience", "keys"))
    if "algorithms" in fields:
        fields["algorithms"] = _texts("[security.jwt]", "algorithms", fields["algorithms"])
    options = JwtOptions(**fields)
    known = (*ASYMMETRIC_ALGORITHMS, *SECRET_ALGORITHMS)
    for algorithm in options.algorithms:
        if algorithm not in known:
            raise InvalidInput(
                f"[security.jwt] has the algorithm {algorithm!r}; known are {', '.join(known)}."
            )
    if len({algorithm in SECRET_ALGORITHMS for algorithm in options.algorithms}) != 1:
        raise InvalidInput(
            "[security.jwt] must have algorithms either with public keys or with a secret, and at least one: "
            "with both, a public key could be passed off as the secret."
        )
    if options.keys.startswith("http://"):
        raise InvalidInput(
            "[security.jwt] has keys at an http:// address, which others can change: use https://."
        )
    if options.algorithms[0] in SECRET_ALGORITHMS and options.keys.startswith("https://"):
        raise InvalidInput("[security.jwt] takes a secret from a file, not from an address.")
    if options.leeway_seconds < 0:
        raise InvalidInput("[security.jwt] has leeway_seconds below 0.")
    if options.leeway_seconds > MOST_LEEWAY_SECONDS:
        raise InvalidInput(
            f"[security.jwt] has leeway_seconds above {MOST_LEEWAY_SECONDS}, a day: set the clocks instead."
        )
    return options


def _certificate_options(table: object) -> CertificateOptions:
    where = "[security.certificates]"
    fields = _checked_table(where, table, _CERTIFICATES, required=("authorities", "principals"))
    found = []
    for place, entry in enumerate(fields["principals"], 1):
        named = f"Principal {place} of {where}"
        values = _checked_table(named, entry, _NAMED_CERTIFICATE, required=("subject", "name", "roles"))
        found.append(NamedCertificate(values["subject"], *_identity(named, values), _claims(named, values)))
    _check_unlike("certificate's subject", [certificate.subject for certificate in found])
    return CertificateOptions(fields["authorities"], tuple(found))


def _roles(tables: object) -> Mapping[str, Grant]:
    if not isinstance(tables, dict):
        raise InvalidInput("The security file has roles that are no tables: write [roles.NAME].")
    found = {}
    for name, table in tables.items():
        where = f"The role {name[:LONGEST_NAME]}"
        if not is_name(name):
            raise InvalidInput(f"{where} has a name that cannot be shown: choose another.")
        if name in BUILT_IN_ROLES:
            _checked_table(f"{where}, which is built in,", table, _BUILT_IN_ROLE)
            continue
        fields = _checked_table(where, table, _ROLE, required=("stores",))
        stores = _texts(where, "stores", fields["stores"])
        columns = _texts(where, "columns", fields.get("columns", ["*"]))
        found[name] = Grant(stores, columns, fields.get("rows", ""))
    return found


def _limits(tables: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[LimitName, int]]:
    found = {}
    for role, table in tables.items():
        found[role] = {name: table[name.value] for name in LimitName if name.value in table}
        for name, limit in found[role].items():
            least = LEAST_ENGINE_BYTES if name is LimitName.ENGINE_BYTES else 1
            if limit < least:
                raise InvalidInput(f"The role {role} has {name.value} below {least}.")
    return found


def _entries(text: str, name: str) -> Sequence[tuple[str, object]]:
    """The tables of a file of credentials, each with what to call it."""
    document = _parse_toml(text, f"The file of {name}")
    if document.get("version") != _CREDENTIALS_VERSION or isinstance(document["version"], bool):
        raise InvalidInput(
            f"The file of {name} must say version = {_CREDENTIALS_VERSION}, the format that this version of "
            "livestate reads."
        )
    _check_names(f"The file of {name}", document, ("version", name))
    tables = document.get(name, [])
    if not isinstance(tables, list):
        raise InvalidInput(f"The file of {name} must have [[{name}]] tables.")
    return [(f"Entry {place} of the file of {name}", table) for place, table in enumerate(tables, 1)]


def _parse_toml(text: str, what: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # The error's own text may quote a secret of a line that was mistyped.
        raise InvalidInput(f"{what} is not TOML: look at {_place(error)}.") from None


def _place(error: Exception) -> str:
    return str(error).rpartition("(at ")[2].rstrip(")") if "(at " in str(error) else "how deep it nests"


def _checked_table(
    where: str, table: object, fields: _Fields, required: tuple[str, ...] = ()
) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise InvalidInput(f"{where} is no table.")
    _check_names(where, table, tuple(fields))
    for name, value in table.items():
        words, wanted = fields[name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise InvalidInput(f"{where} has {name} of another kind; it must be {words}.")
    for name in required:
        if table.get(name) in (None, ""):
            raise InvalidInput(f"{where} lacks the field {name}.")
    return dict(table)


def _check_names(where: str, table: Mapping[str, object], known: Sequence[str]) -> None:
    for name in table:
        if name not in known:
            raise InvalidInput(
                f"{where} has the field {name[:LONGEST_NAME]}, which is not known; known are "
                f"{', '.join(known)}."
            )


def _identity(where: str, table: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
    """Name and roles of a principal."""
    name = table["name"]
    if not is_name(name):
        raise InvalidInput(
            f"{where} has no name that can be shown: up to {LONGEST_NAME} printable characters."
        )
    return name, frozenset(_texts(where, "roles", table["roles"]))


def is_name(text: object) -> bool:
    """Whether a text can be the name of a principal: something that a log can show on one line."""
    return isinstance(text, str) and 0 < len(text) <= LONGEST_NAME and text.isprintable()


def _claims(where: str, table: Mapping[str, Any]) -> Mapping[str, Claim]:
    found: dict[str, Claim] = {}
    for name, value in table.get("claims", {}).items():
        claim = claim_of(value)
        if claim is None:
            raise InvalidInput(
                f"{where} has the claim {name}, which is neither a text, a number, true, false nor "
                "an array of texts."
            )
        found[name] = claim
    texts = sum(len(claim) for claim in found.values() if isinstance(claim, tuple))
    if texts > MOST_CLAIM_TEXTS or len(json.dumps(found)) > MOST_CLAIM_BYTES:
        raise InvalidInput(
            f"{where} has claims of more than {MOST_CLAIM_TEXTS:,} texts or {MOST_CLAIM_BYTES:,} bytes: give "
            "the stores a column for what these have in common, and claim that."
        )
    return found


def _texts(where: str, name: str, values: Sequence[object]) -> tuple[str, ...]:
    if not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{where} has {name} of another kind; it must be {_STRINGS[0]}.")
    return tuple(str(value) for value in values)


def _check_unlike(what: str, values: Sequence[str]) -> None:
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InvalidInput(f"A {what} stands there twice: {twice[:LONGEST_NAME]}.")
