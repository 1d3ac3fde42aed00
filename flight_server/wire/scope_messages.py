"""What exists for somebody, as hosts send it along with a fragment: a JSON object.

{"grants": [{"stores": ["trades"], "columns": ["*"], "rows": "desk = claim('desk')"}],
 "claims": {"desk": "rates"}}
"""

from __future__ import annotations

import json

from engine.access.claims import claim_of
from engine.access.scope import Grant, Scope
from engine.errors import InvalidInput
from flight_server.wire.json_bodies import parse_json

_DAMAGED = (
    "The fragment does not say what exists for whom it is run: run one version of livestate on all hosts."
)
_MOST_BYTES = 1 << 20


def scope_bytes(scope: Scope) -> bytes:
    """The bytes that `parse_scope` reads back.

    Args:
        scope: What exists.
    """
    grants = [
        {"stores": grant.stores, "columns": grant.columns, "rows": grant.rows} for grant in scope.grants
    ]
    return json.dumps({"grants": grants, "claims": dict(scope.claims)}).encode()


def parse_scope(data: bytes) -> Scope:
    """Read what exists for somebody.

    Args:
        data: What `scope_bytes` made.

    Raises:
        InvalidInput: They are no such bytes.
    """
    try:
        document = parse_json(data, _MOST_BYTES)
        grants = tuple(
            Grant(_texts(each["stores"]), _texts(each["columns"]), _text(each["rows"]))
            for each in document["grants"]
        )
        claims = {_text(name): claim_of(value) for name, value in document["claims"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(_DAMAGED) from error
    known = tuple(sorted((name, claim) for name, claim in claims.items() if claim is not None))
    if len(known) < len(claims):
        raise InvalidInput(_DAMAGED)
    return Scope(grants, known)


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError
    return tuple(map(_text, values))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
