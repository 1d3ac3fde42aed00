"""JSON Web Tokens (RFC 7519), and the keys that sign them (RFC 7517)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import jwt

from engine.access.claims import Claim, claim_of
from engine.access.principal import Principal, Proof
from engine.access.security_file import SECRET_ALGORITHMS, JwtOptions, is_name
from engine.errors import InvalidInput, Unauthenticated

SHORTEST_SECRET = 32
"""Bytes; RFC 7518 wants as many as the digest has."""
SHORTEST_RSA_KEY = 2048
"""Bits; RFC 7518."""
MOST_KEYS = 100
_REGISTERED = frozenset({"iss", "aud", "exp", "nbf", "iat", "jti"})


@dataclass(frozen=True)
class SigningKeys:
    """Keys by their `kid`; one without has the empty one.

    Attributes:
        keys: The keys.
    """

    keys: Mapping[str, jwt.PyJWK]


def parse_keys(data: bytes, options: JwtOptions) -> SigningKeys:
    """Read what signs JSON Web Tokens.

    Args:
        data: A JSON Web Key Set; the secret itself where the algorithms take one.
        options: Which algorithms may sign.

    Returns:
        The keys that one of the algorithms can use.

    Raises:
        InvalidInput: There is no such key, or the secret is short.
    """
    if options.algorithms[0] in SECRET_ALGORITHMS:
        secret = data.strip()
        if len(secret) < SHORTEST_SECRET:
            raise InvalidInput(
                f"The secret that signs JSON Web Tokens has less than {SHORTEST_SECRET} bytes."
            )
        return SigningKeys({"": _secret_key(secret, options.algorithms[0])})
    try:
        document = json.loads(data)
        entries = document["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput("The keys that sign JSON Web Tokens are no JSON Web Key Set.") from error
    if not isinstance(entries, list) or len(entries) > MOST_KEYS:
        raise InvalidInput(f"The JSON Web Key Set has more than {MOST_KEYS} keys, or no list of them.")
    keys = {str(entry["kid"]): key for entry in entries if (key := _public_key(entry, options)) is not None}
    if not keys:
        raise InvalidInput(
            "The JSON Web Key Set has no key with a kid for any of the algorithms "
            f"{', '.join(options.algorithms)}."
        )
    return SigningKeys(keys)


def _secret_key(secret: bytes, algorithm: str) -> jwt.PyJWK:
    encoded = jwt.utils.base64url_encode(secret).decode()
    return jwt.PyJWK({"kty": "oct", "k": encoded}, algorithm)


def _public_key(entry: object, options: JwtOptions) -> jwt.PyJWK | None:
    # A symmetric key in a set of public ones would let anybody who has read it sign.
    if not isinstance(entry, dict) or "kid" not in entry or entry.get("kty") == "oct" or "d" in entry:
        return None
    if entry.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(entry)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if key.algorithm_name.startswith("RS") and key.key.key_size < SHORTEST_RSA_KEY:
        return None
    return key if key.algorithm_name in options.algorithms else None


def key_id(token: str) -> str:
    """Which key a JSON Web Token says that it is signed with.

    Args:
        token: What was presented; nothing of it is proved yet.

    Returns:
        The `kid`; empty without one.

    Raises:
        Unauthenticated: It is no JSON Web Token.
    """
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise Unauthenticated("The bearer token is neither known nor a JSON Web Token.") from None
    return str(header.get("kid", ""))


def web_principal(token: str, keys: SigningKeys, options: JwtOptions) -> tuple[Principal, float]:
    """Whose a JSON Web Token is.

    Args:
        token: What was presented.
        keys: What may have signed it.
        options: What it must say.

    Returns:
        The principal, and until when it is proved, in seconds since 1970 UTC.

    Raises:
        Unauthenticated: It proves nobody; the message says which check failed, for whoever makes the tokens.
    """
    symmetric = options.algorithms[0] in SECRET_ALGORITHMS
    key = keys.keys.get("" if symmetric else key_id(token))
    if key is None:
        raise Unauthenticated("The JSON Web Token is signed with a key that this host does not know.")
    # A key has one algorithm, whatever the token's header says: no public key is taken for a secret.
    allowed = list(options.algorithms) if symmetric else [key.algorithm_name]
    try:
        said: Mapping[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=allowed,
            audience=options.audience,
            issuer=options.issuer,
            leeway=timedelta(seconds=options.leeway_seconds),
            options={"require": ["exp", "iss", "aud"]},
        )
    except jwt.PyJWTError as error:
        raise Unauthenticated(f"The JSON Web Token is refused: {_reason(error)}.") from None
    name = said.get(options.name_claim)
    if not is_name(name):
        raise Unauthenticated(
            f"The JSON Web Token has no claim {options.name_claim} that could be a principal's name."
        )
    try:
        ends = float(said["exp"]) + options.leeway_seconds
    except OverflowError:
        ends = math.inf
    if not math.isfinite(ends):
        raise Unauthenticated("The JSON Web Token is refused: it never expires.")
    return Principal(str(name), _roles(said.get(options.roles_claim)), Proof.JWT, _claims(said)), ends


_REASONS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not good yet"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "it is of another issuer"),
    (jwt.MissingRequiredClaimError, "it lacks one of exp, iss and aud"),
    (jwt.InvalidAlgorithmError, "its algorithm is not one that this host takes"),
    (jwt.InvalidSignatureError, "its signature is not that of its key"),
)


def _reason(error: jwt.PyJWTError) -> str:
    return next((words for kind, words in _REASONS if isinstance(error, kind)), "it is damaged")


def _roles(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list):
        return frozenset(role for role in value if isinstance(role, str))
    return frozenset()


def _claims(said: Mapping[str, Any]) -> Mapping[str, Claim]:
    claims = ((name, claim_of(value)) for name, value in said.items() if name not in _REGISTERED)
    return {name: claim for name, claim in claims if claim is not None}
