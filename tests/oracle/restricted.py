"""A cluster of stores that hold more than may be seen, asked by somebody for whom the rest does not exist,
and another that holds nothing else. Errors and metadata of the first tell no more than those of the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import asdict
from random import Random
from typing import Any

import pyarrow as pa

from engine.access.scope import Grant, Scope, scope_of
from engine.errors import LivestateError
from engine.model.schema import StoreDefinition, StoreName, define_store
from tests.oracle.datasets import Dataset, Store
from tests.oracle.systems import Answer, System, TelltaleError, system_over
from tests.support.local_cluster import FLOWING, SMALL, host_names, memory_cluster
from tests.support.statement_time import statement_clock

OWNER, NOTE = "zz owner", "zz note"
"""Hidden columns of each store: whose a row is, and a text."""
ME = "me"
_OTHERS = ("you", None, "ME", "")
_OF_THE_MOMENT = frozenset({"seconds", "age_seconds", "stale_seconds"})
"""Metadata that differ each time."""
_A_VALUE = re.compile(
    r"(?<=Could not convert string )'(?!.*note ).*$|(?<= with value )'(?!note ).*'(?= can't be cast )"
    r"|(?<=Overflow in )\w+ of \w+ \(.*?\)",
    re.DOTALL,
)
"""As errors tell it: a text in quotes, and what follows, as of several lines the first alone is told; or
numbers that overflow.
"""


def scope_of_dataset(dataset: Dataset) -> Scope:
    """What exists for whoever asks: all columns but the hidden ones, and rows that are his."""
    grants = [
        Grant((store.definition.name,), tuple(store.definition.schema.names), f"\"{OWNER}\" = claim('name')")
        for store in dataset.stores
    ]
    return scope_of(grants, "oracle", {"name": ME})


def _whole_definition(store: Store) -> StoreDefinition:
    definition = store.definition
    schema = pa.schema([*definition.schema, pa.field(OWNER, pa.string()), pa.field(NOTE, pa.string())])
    return define_store(
        definition.name,
        schema,
        definition.key,
        partition_by=definition.partition_by,
        partitions=definition.partitions,
        group=definition.group,
        behaviour=definition.behaviour,
    )


def _add_hidden_rows(store: Store, definition: StoreDefinition, random: Random) -> pa.Table:
    """The rows, and among them those of others: rows with keys that no visible row has."""
    seen = {tuple(map(repr, key.values())) for key in store.live.select(list(definition.key)).to_pylist()}
    hidden = []
    for place, key in enumerate(store.dead.select(list(definition.key)).to_pylist()):
        values = tuple(map(repr, key.values()))
        if values not in seen:
            seen.add(values)
            hidden.append(place)
    others = store.dead.take(pa.array(hidden, pa.int64()))
    owners = [ME] * store.live.num_rows + [random.choice(_OTHERS) for _ in hidden]
    rows = pa.concat_tables([store.live, others.select(store.live.schema.names)])
    notes = pa.array([f"note {place}" for place in range(rows.num_rows)], pa.string())
    return rows.append_column(OWNER, pa.array(owners, pa.string())).append_column(NOTE, notes)


def _add_owner(table: pa.Table) -> pa.Table:
    """Dead rows, which are nobody's."""
    nobody = pa.nulls(table.num_rows, pa.string())
    return table.append_column(OWNER, nobody).append_column(NOTE, nobody)


class RestrictedSystem:
    """Asks both clusters in the same way.

    Args:
        restricted: Holds more than whoever asks may see.
        permitted: Holds the rest alone.
    """

    def __init__(self, restricted: System, permitted: System) -> None:
        self._restricted = restricted
        self._permitted = permitted

    def answer(
        self, sql: str, literals: Sequence[str], parameters: pa.RecordBatch | None, seed: int
    ) -> Answer:
        """As `System.answer`; the answer is that of the restricted cluster.

        Raises:
            TelltaleError: Its error, or its metadata, is not what the other cluster says, or that is so of
                the query with something wrong in it.
        """
        with suppress(LivestateError, AssertionError):
            self._answer(wrong_text(sql, Random(f"wrong {seed}")), literals, parameters, seed)
        return self._answer(sql, literals, parameters, seed)

    def _answer(
        self, sql: str, literals: Sequence[str], parameters: pa.RecordBatch | None, seed: int
    ) -> Answer:
        found, error = _ask(lambda: self._restricted.answer(sql, literals, parameters, seed))
        expected, failure = _ask(lambda: self._permitted.answer(sql, literals, parameters, seed))
        if _words(error) != _words(failure):
            raise TelltaleError(f"{_words(error) or 'answered'} in place of {_words(failure) or 'an answer'}")
        if error is not None:
            raise error
        assert found is not None
        assert expected is not None
        said, wanted = _lasting_metadata(found), _lasting_metadata(expected)
        if said != wanted:
            differing = {name: (said[name], wanted[name]) for name in said if said[name] != wanted[name]}
            raise TelltaleError(f"metadata, and what they should be: {differing}")
        return found


def wrong_text(sql: str, random: Random) -> str:
    """A text with something wrong in it: a name that is hidden, or that nothing has, or it is cut off."""
    words = list(re.finditer(r'"[^"]+"|[A-Za-z_]\w*', sql))
    word = random.choice(words)
    begin, end = word.span()
    match random.randrange(5):
        case 0:
            return sql[: random.randrange(begin, len(sql))]
        case 1:
            return f"{sql[:end]}x{sql[end:]}"
        case 2:
            return f"{sql[: end - 2]}{sql[end - 1 :]}"
        case 3:
            return f"SELECT CAST(CAST(COLUMNS(*) AS VARCHAR) AS INTEGER) FROM ({sql})"
        case _:
            return f'{sql[:begin]}"{random.choice((OWNER, NOTE))}"{sql[end:]}'


def _ask(ask: Callable[[], Answer]) -> tuple[Answer | None, LivestateError | None]:
    try:
        return ask(), None
    except LivestateError as error:
        return None, error


def _words(error: LivestateError | None) -> str:
    """Kind and text of an error; empty for none. Of rows that cannot be converted it depends on their order
    which one is told; a note is hidden in any.
    """
    if error is None:
        return ""
    return f"{type(error).__name__}: {_A_VALUE.sub('a value', error.message)}"


def _lasting_metadata(answer: Answer) -> Mapping[str, Any]:
    """Metadata without what differs each time; an answer in parts has none."""
    if answer.metadata is None:
        return {}
    return {name: value for name, value in asdict(answer.metadata).items() if name not in _OF_THE_MOMENT}


@contextmanager
def restricted_system(dataset: Dataset) -> Iterator[System]:
    """Clusters in memory: one that holds a dataset and more, and answers as if it held the dataset alone, and
    one that does hold the dataset alone.
    """
    random = Random(f"hidden {dataset.seed}")
    definitions = {store.definition.name: _whole_definition(store) for store in dataset.stores}
    live: dict[str, pa.Table] = {}
    dead: dict[str, pa.Table] = {}
    for store in dataset.stores:
        name = StoreName(store.definition.name)
        live[name] = _add_hidden_rows(store, definitions[name], random)
        dead[name] = _add_owner(store.dead)
    own = [store.definition for store in dataset.stores]
    with ExitStack() as resources:
        asked = [
            resources.enter_context(_system_for(dataset, stores, rows, buried, scope))
            for stores, rows, buried, scope in (
                (list(definitions.values()), live, dead, scope_of_dataset(dataset)),
                # Without dead rows, of which errors can come: where rows are hidden, they are not read.
                (own, dataset.live, {}, Scope((Grant(("*",)),))),
            )
        ]
        yield RestrictedSystem(*asked)


@contextmanager
def _system_for(
    dataset: Dataset,
    definitions: Sequence[StoreDefinition],
    live: Mapping[str, pa.Table],
    dead: Mapping[str, pa.Table],
    scope: Scope,
) -> Iterator[System]:
    """A cluster in memory as it exists for somebody."""
    options = FLOWING if dataset.seed % 2 else SMALL
    with memory_cluster(
        definitions, live, host_names(dataset.hosts), dead, options, statement_clock
    ) as cluster:
        asked = copy(cluster)
        asked.services = {host: service.restrict(scope) for host, service in cluster.services.items()}
        with system_over(asked) as system:
            yield system
