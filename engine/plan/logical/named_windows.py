"""Windows that a SELECT gives a name to."""

from __future__ import annotations

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.scopes import Uncertain
from engine.plan.logical.trees import used_arguments


def write_out_windows(node: exp.Select) -> None:
    """Named windows, in place of their names."""
    windows = {fold(window.name): window for window in node.args.get("windows") or ()}
    if not windows:
        return
    node.set("windows", None)
    # Queries in expressions have windows of their own, of which some may have the same names.
    own = node.walk(prune=lambda each: isinstance(each, exp.Query) and each is not node)
    for window in [each for each in own if isinstance(each, exp.Window)]:
        name = window.args.get("alias")
        if name is None:
            continue
        found = windows.get(fold(name.name))
        if (
            found is None
            or used_arguments(window) - {"this", "alias", "over"}
            or used_arguments(found) - {"this", "partition_by", "order", "spec"}
        ):
            raise Uncertain("WINDOW")
        window.set("alias", None)
        window.set("partition_by", [part.copy() for part in found.args.get("partition_by") or ()])
        for part in ("order", "spec"):
            window.set(part, found.args[part].copy() if found.args.get(part) else None)
