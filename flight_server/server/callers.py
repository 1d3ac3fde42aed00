"""Who calls, and whether that may do what it wants: the first thing that a call is asked."""

from __future__ import annotations

from typing import Any

from engine.access.principal import ANYBODY, Permission, Principal, Proof
from engine.errors import Forbidden
from flight_server.identity.authenticator import Authenticator
from flight_server.server.audit import AuditLog, peer_of
from flight_server.server.connections import Connections
from flight_server.server.thread_limit import ThreadLimit
from flight_server.wire.call_headers import MIDDLEWARE


class Callers:
    """Knows the principal of each call.

    Args:
        authenticator: Knows who presents what; None: nobody is asked.
        threads: Refuses calls while there are too many.
        audit: Gets a line for each who is refused; None: there is none.

    Attributes:
        connections: Where they call from.
    """

    def __init__(
        self, authenticator: Authenticator | None, threads: ThreadLimit, audit: AuditLog | None = None
    ) -> None:
        self._authenticator = authenticator
        self._threads = threads
        self._audit = audit
        self.connections = Connections()

    def principal(self, context: Any) -> Principal:
        """Who calls.

        Args:
            context: The call's `flight.ServerCallContext`.

        Raises:
            Unauthenticated: The caller proved nothing.
            LimitExceeded: It calls by more connections than its roles allow, or there are too many threads.
        """
        self._threads.check()
        principal = self._proved_principal(context)
        self.connections.note_call(principal, peer_of(context))
        return principal

    def _proved_principal(self, context: Any) -> Principal:
        if self._authenticator is None:
            return ANYBODY
        caller = context.get_middleware(MIDDLEWARE)
        if caller is not None and caller.principal is not None:
            principal: Principal = caller.principal
            return principal
        subject = context.peer_identity() if self._authenticator.takes_certificates else b""
        return self._authenticator.principal_of_certificate(subject.decode(errors="replace"))

    def check_again(self, context: Any, before: Principal) -> None:
        """See that whoever opened a stream may go on with it: tokens end, and roles change.

        Args:
            context: As that of `principal`.
            before: Who opened it.

        Raises:
            Unauthenticated: The proof is not good any more.
            Forbidden: Its roles are others by now.
        """
        authenticator = self._authenticator
        if authenticator is None:
            return
        caller = context.get_middleware(MIDDLEWARE)
        if before.proof is Proof.CERTIFICATE or caller is None:
            now = authenticator.principal_of_certificate(context.peer_identity().decode(errors="replace"))
        else:
            now = authenticator.principal_of_headers(caller.headers.get("authorization", ())) or before
        if now is not before and (now.roles, now.scope) != (before.roles, before.scope):
            raise Forbidden("Your roles have changed since the stream was opened: open another one.")

    def check(self, context: Any, permission: Permission, *others: Permission) -> Principal:
        """See that whoever calls may do something.

        Args:
            context: As that of `principal`.
            permission: What the call needs.
            others: What is as good.

        Returns:
            Who calls.

        Raises:
            Unauthenticated: The caller proved nothing.
            Forbidden: It may not.
            LimitExceeded: As `principal`.
        """
        principal = self.principal(context)
        if not principal.may(permission) and not any(map(principal.may, others)):
            self.refuse(context, principal, permission)
        return principal

    def refuse(self, context: Any, principal: Principal, permission: Permission) -> None:
        """Refuse what a principal may not do.

        Raises:
            Forbidden: Always, where it may not.
        """
        if self._audit is not None:
            self._audit.write("refused", principal, peer_of(context), {"wanted": permission.value})
        principal.check(permission)
