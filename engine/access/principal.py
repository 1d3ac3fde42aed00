"""Who calls, and what that lets it do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from engine.access.claims import Claim
from engine.access.scope import Grant, Scope, scope_of
from engine.cached_property import cached_property
from engine.errors import Forbidden


class Proof(Enum):
    """How a principal was proved."""

    NOTHING = "nothing"
    TOKEN = "token"  # noqa: S105 - the name of a kind, not a secret
    PASSWORD = "password"  # noqa: S105 - likewise
    JWT = "JWT"
    CERTIFICATE = "certificate"


class Permission(Enum):
    """What a call needs, in the words of a sentence that refuses it."""

    READ = "read stores"
    NOTIFY = "tell the host of new epochs"
    OPERATE = "operate the host"
    PEER = "act as a host of the deployment"


BUILT_IN_ROLES: Mapping[str, frozenset[Permission]] = {
    "reader": frozenset({Permission.READ}),
    "writer": frozenset({Permission.NOTIFY}),
    "operator": frozenset({Permission.OPERATE, Permission.NOTIFY}),
    # A host sends whole statements to another one, and passes on what it was told of epochs.
    "peer": frozenset({Permission.PEER, Permission.READ, Permission.NOTIFY}),
}
"""The roles that every host knows, and what they let a principal do."""


class LimitName(Enum):
    """What of a host a role may limit for each of its principals, by the name in the security file."""

    STATEMENTS = "max_statements"
    WAITING = "max_waiting"
    CONNECTIONS = "max_connections"
    KEY_STREAMS = "max_key_streams"
    HELD_EPOCHS = "max_held_epochs"
    GATHERED_BYTES = "max_gathered_bytes"
    ENGINE_BYTES = "max_engine_bytes"
    NOTIFICATIONS = "max_notifications_per_second"
    RESULT_BYTES = "max_result_bytes_per_second"


@dataclass(frozen=True)
class Limit:
    """How much a principal may have at once on a host.

    Attributes:
        most: How much.
        role: The role that says so.
    """

    most: int
    role: str


@dataclass(frozen=True)
class EngineLimit:
    """What the engine may take at once for all statements of a principal together.

    Attributes:
        owner: Its name.
        limit: How much, bytes.
    """

    owner: str
    limit: Limit


@dataclass(frozen=True)
class Principal:
    """Somebody who calls.

    Attributes:
        name: Its name.
        roles: Names of its roles; what is no role of the host lets it do nothing.
        proof: How it was proved.
        claims: What its proof says of it beside.
        grants: What its roles let it read, beside those that are built in.
        limits: What it may have at once; what is not there has no limit of its own.
    """

    name: str
    roles: frozenset[str]
    proof: Proof
    claims: Mapping[str, Claim] = field(default_factory=dict, hash=False)
    grants: tuple[Grant, ...] = ()
    limits: Mapping[LimitName, Limit] = field(default_factory=dict, hash=False)

    @cached_property
    def scope(self) -> Scope | None:
        """What of the stores exists for it; None for everything."""
        reads_all = any(Permission.READ in BUILT_IN_ROLES.get(role, ()) for role in self.roles)
        return None if reads_all else scope_of(self.grants, self.name, self.claims)

    @cached_property
    def engine_limit(self) -> EngineLimit | None:
        """What the engine may take for it; None for as much as for anybody."""
        limit = self.limits.get(LimitName.ENGINE_BYTES)
        return None if limit is None else EngineLimit(self.name, limit)

    @cached_property
    def permissions(self) -> frozenset[Permission]:
        """What its roles let it do."""
        found = frozenset().union(*(BUILT_IN_ROLES.get(role, frozenset()) for role in self.roles))
        return found | {Permission.READ} if self.grants else found

    def may(self, permission: Permission) -> bool:
        """Whether one of its roles lets it do something."""
        return permission in self.permissions

    def check(self, permission: Permission) -> None:
        """See that it may do something.

        Raises:
            Forbidden: No role of its lets it.
        """
        if self.may(permission):
            return
        roles = " or ".join(role for role, lets in BUILT_IN_ROLES.items() if permission in lets)
        raise Forbidden(f"{self.name} may not {permission.value}: that takes the role {roles}.")


ANYBODY = Principal("anybody", frozenset(BUILT_IN_ROLES), Proof.NOTHING)
"""Who calls a host that asks nobody for a proof."""
NOBODY = Principal("nobody", frozenset(), Proof.NOTHING)
"""Who has not proved to be anybody."""
