"""What is known of a principal beside its name."""

Claim = str | int | float | bool | tuple[str, ...]
"""The value of a claim."""


def claim_of(value: object) -> Claim | None:
    """A value of TOML or JSON as a claim; None for what can be none."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return tuple(value)
    return None
