"""Stores that change all the time and whose sums never do: what any query at one epoch must see, and no other
can.

Accounts of a bank, the negative of each in a second store with other partitions, and a third with the same
ones. Every epoch moves money between accounts, closes one, and opens another. Works over any way to append
and to ask: hosts in this process, or real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.changelog import Changelog, open_appender
from engine.model.schema import Epoch, GroupName, StoreDefinition, define_store
from tests.support.seeds import seeded_random

GROUP = GroupName("bank")
ACCOUNTS_OPEN = 400
MOVES = 20
REMOVED = "removed"
_SCHEMA = pa.schema(
    [("account", pa.int64()), ("branch", pa.string()), ("balance", pa.int64()), ("version", pa.int64())]
)


def _define(name: str, partitions: int) -> StoreDefinition:
    return define_store(name, _SCHEMA, ["account"], partitions=partitions, group=GROUP)


ACCOUNTS, MIRROR, NEGATIVES = _define("accounts", 12), _define("mirror", 12), _define("negatives", 7)
STORES = (ACCOUNTS, MIRROR, NEGATIVES)

Ask = Callable[[str], pa.Table]
"""Answers a query."""


@dataclass(frozen=True)
class Invariant:
    """A query with the same answer at every epoch.

    Attributes:
        sql: The query.
        answer: Its rows.
    """

    sql: str
    answer: tuple[tuple[object, ...], ...]


INVARIANTS = (
    Invariant("SELECT sum(balance) FROM accounts", ((0,),)),
    Invariant(
        "SELECT sum(balance), count(*), count(DISTINCT account) FROM accounts",
        ((0, ACCOUNTS_OPEN, ACCOUNTS_OPEN),),
    ),
    Invariant("SELECT count(*) FROM negatives", ((ACCOUNTS_OPEN,),)),
    Invariant("SELECT sum(s) FROM (SELECT branch, sum(balance) AS s FROM accounts GROUP BY branch)", ((0,),)),
    Invariant(
        "SELECT sum(a.balance + n.balance), count(*) FROM accounts a JOIN negatives n USING (account)",
        ((0, ACCOUNTS_OPEN),),
    ),
    Invariant(
        "SELECT sum(a.balance - m.balance), count(*) FROM accounts a JOIN mirror m USING (account)",
        ((0, ACCOUNTS_OPEN),),
    ),
    Invariant(
        (
            "SELECT a.account FROM accounts a JOIN negatives n USING (account) WHERE a.balance <> "
            "-n.balance OR a.version <> n.version"
        ),
        (),
    ),
    Invariant(
        (
            "SELECT a.account FROM accounts a JOIN mirror m USING (account) WHERE a.balance <> m.balance OR "
            "a.version <> m.version"
        ),
        (),
    ),
    Invariant(
        (
            "SELECT a.account FROM accounts a FULL JOIN negatives n USING (account) WHERE a.account IS "
            "NULL OR n.account IS NULL"
        ),
        (),
    ),
    Invariant(
        (
            "SELECT account FROM accounts a WHERE NOT EXISTS (SELECT 1 FROM negatives n WHERE n.account = "
            "a.account AND n.version = a.version)"
        ),
        (),
    ),
    Invariant(
        "SELECT (SELECT sum(balance) FROM accounts) + (SELECT sum(balance) FROM negatives) AS x", ((0,),)
    ),
    Invariant(
        "SELECT sum(balance) FROM (SELECT balance FROM accounts UNION ALL SELECT balance FROM negatives)",
        ((0,),),
    ),
    Invariant("SELECT account, balance FROM accounts EXCEPT SELECT account, balance FROM mirror", ()),
    Invariant(
        "SELECT (SELECT max(version) FROM accounts) = (SELECT max(version) FROM negatives) AS same",
        ((True,),),
    ),
    Invariant(
        (
            "WITH b AS (SELECT branch, sum(balance) AS s FROM accounts GROUP BY 1) SELECT sum(x.s), count(*) "
            "FROM b x JOIN b y USING (branch)"
        ),
        ((0, 5),),
    ),
    Invariant("SELECT DISTINCT sum(balance) OVER () AS s FROM accounts", ((0,),)),
)


class Bank:
    """Writes the epochs.

    Args:
        changelog: Where they go.
        seed: What happens.
    """

    def __init__(self, changelog: Changelog, seed: int = 0) -> None:
        self._appender = open_appender(changelog, STORES)
        self._random = seeded_random(seed)
        self._balances = dict.fromkeys(range(ACCOUNTS_OPEN), 0)
        self._next_account = ACCOUNTS_OPEN
        self.version = 0
        self._write(self._balances, ())

    @property
    def epoch(self) -> Epoch:
        """The newest epoch."""
        return self._appender.epoch

    def step(self) -> Epoch:
        """Commit another epoch: money moves, one account closes, another opens."""
        touched: set[int] = set()
        for _ in range(MOVES):
            giver, taker = self._random.sample(sorted(self._balances), 2)
            amount = self._random.randrange(1, 1000)
            self._balances[giver] -= amount
            self._balances[taker] += amount
            touched |= {giver, taker}
        closed = self._random.choice(sorted(self._balances))
        self._balances[self._next_account] = self._balances.pop(closed)
        touched.add(self._next_account)
        self._next_account += 1
        self._write({account: self._balances[account] for account in touched - {closed}}, (closed,))
        return self.epoch

    def _write(self, balances: dict[int, int], closed: Sequence[int]) -> None:
        self.version += 1
        self._appender.append(
            {
                ACCOUNTS.name: self._rows(balances, closed, 1),
                MIRROR.name: self._rows(balances, closed, 1),
                NEGATIVES.name: self._rows(balances, closed, -1),
            },
            tombstone_column=REMOVED,
        )

    def _rows(self, balances: dict[int, int], closed: Sequence[int], sign: int) -> pa.Table:
        accounts = [*balances, *closed]
        return pa.table(
            {
                "account": pa.array(accounts, pa.int64()),
                "branch": [f"branch {account % 5}" for account in accounts],
                "balance": pa.array(
                    [*(sign * balance for balance in balances.values()), *(0 for _ in closed)], pa.int64()
                ),
                "version": pa.array([self.version] * len(accounts), pa.int64()),
                REMOVED: [False] * len(balances) + [True] * len(closed),
            }
        )


def check(invariant: Invariant, ask: Ask) -> None:
    """Ask a query, and hold its answer against what it must be.

    Raises:
        AssertionError: It is something else: the answer is not of one epoch, or not whole.
    """
    found = [tuple(row.values()) for row in ask(invariant.sql).to_pylist()]
    if found != list(invariant.answer):
        raise AssertionError(f"{invariant.sql} is {found[:5]} instead of {invariant.answer}")
