"""The same statement, asked again, and explained."""

from __future__ import annotations

from dataclasses import replace

from tests.oracle.metamorphic.relation import Agreement, Pair, Relation, Subject


def _same_statement(subject: Subject) -> Pair:
    return Pair(replace(subject.query, source=None), agreement=Agreement.ORDERED)


def _explain(subject: Subject) -> Pair:
    query = replace(subject.query, sql=f"EXPLAIN {subject.query.sql}", source=None)
    return Pair(query, agreement=Agreement.ANSWERED)


ASKED_AGAIN = Relation("asked again", _same_statement)
EXPLAINED = Relation("explained", _explain)
