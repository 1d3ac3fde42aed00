"""Columns that the two sides of a join share by USING or NATURAL."""

from __future__ import annotations

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.scopes import Scope, Uncertain, resolved_column
from engine.plan.logical.trees import conjunction


def write_out_using(join: exp.Join, scope: Scope, method: str) -> None:
    """USING and NATURAL as conditions, and what their columns mean from here on."""
    right = scope.sources[-1]
    names = [fold(name.name) for name in join.args.get("using") or ()]
    if method == "NATURAL":
        left = scope.sources[0]
        if left.columns is None or right.columns is None:
            raise Uncertain(method)
        names = [fold(name) for name in left.columns if right.column(fold(name))]
        join.set("method", None)
        if not names:
            raise Uncertain(method)
    if not names:
        return
    if method == "ASOF" or join.args.get("on") is not None:
        raise Uncertain("USING")
    side = str(join.args.get("side") or "").upper()
    before = Scope(None, scope.sources[:-1], scope.merged)
    conditions: list[exp.Expr] = []
    for name in names:
        mine, theirs = before.meaning_of_bare_name(name), right.column(name)
        if not isinstance(mine, exp.Column) or theirs is None:
            raise Uncertain(name)
        conditions.append(exp.EQ(this=mine, expression=resolved_column(right.alias, theirs)))
        scope.sharing.setdefault(name, {mine.table}).add(right.alias)
        both = exp.Coalesce(this=mine.copy(), expressions=[resolved_column(right.alias, theirs)])
        scope.merged[name] = {"RIGHT": resolved_column(right.alias, theirs), "FULL": both}.get(
            side, mine.copy()
        )
    join.set("using", None)
    join.set("on", conjunction(conditions))
