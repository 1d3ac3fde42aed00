"""Where a store is not what a job asks for: whether that matters, and what to say and do about it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.migration import (
    AddColumn,
    Change,
    DropColumn,
    RenameColumn,
    WidenColumn,
    migrate_definition,
)
from engine.model.names import fold
from engine.model.schema import StoreDefinition, define_store
from engine.model.sql_types import quote_identifier, sql_type


def is_as_reordered(there: StoreDefinition, asked: StoreDefinition) -> bool:
    """Whether a store is what is asked for but for the order of its columns, which are found by name."""
    if sorted(there.row_schema.names) != sorted(asked.row_schema.names):
        return False
    return new_store_definition(
        asked, pa.schema([asked.row_schema.field(name) for name in there.row_schema.names])
    ).is_as(there)


def check_names_mean_the_same(shape: StoreDefinition, now: StoreDefinition, asked: StoreDefinition) -> None:
    """Refuse columns that a store had once where a name has become that of another column: whoever writes
    them anew may mean either.

    Args:
        shape: The store as it was.
        now: The store as it is.
        asked: What is asked for.

    Raises:
        InvalidInput: There are such names.
    """
    others = [
        name
        for name in shape.row_schema.names
        if name in now.row_schema.names
        and shape.column(name).number
        not in (now.column(name).number, *(number for number, _ in now.column(name).older))
    ]
    if others:
        raise InvalidInput(
            f"Store {now.name} had these columns once, and {', '.join(others)} is another column now: write "
            f"the columns of today. It is: {now.describe()}. Asked for: {asked.describe()}."
        )


def refusal(there: StoreDefinition, asked: StoreDefinition) -> InvalidInput:
    """The error for a store that is not what is asked for.

    Args:
        there: The store as it is.
        asked: What it is not.

    Returns:
        One that shows both, and how the one can become the other if a migration does it.
    """
    text = (
        f"Store {there.name} exists and differs. It is: {there.describe()}. Asked for: "
        f"{asked.describe()}. Use the definition that is there"
    )
    # A column may have changed its name, or have gone and another one come: that is for the user to say.
    found = dict.fromkeys((tuple(_changes_by_position(there, asked)), tuple(_changes_by_name(there, asked))))
    ways = [
        f"`livestate migrate {shlex.quote(there.name)} {_options(changes)}`"
        for changes in found
        if _leads(there, changes, asked)
    ]
    if not ways:
        return InvalidInput(f"{text}, or another name.")
    return InvalidInput(f"{text}, or another name, or change the store: {', or '.join(ways)}.")


def new_store_definition(definition: StoreDefinition, rows: pa.Schema | None = None) -> StoreDefinition:
    """A definition as that of a new store, whatever migrations it has gone through.

    Args:
        definition: The definition.
        rows: The row schema that the new one is to have; its own by default.
    """
    return define_store(
        definition.name,
        definition.row_schema if rows is None else rows,
        definition.key,
        partition_by=definition.partition_by,
        partitions=definition.partitions,
        group=definition.group,
        behaviour=definition.behaviour,
    )


def _changes_by_name(there: StoreDefinition, asked: StoreDefinition) -> Sequence[Change]:
    """What makes the columns of one definition those of another, if no column has changed its name but in
    small and capital letters, which statements do not tell apart.
    """
    old, new = there.row_schema, asked.row_schema
    by_folded = {fold(name): name for name in new.names}
    spelled = {name: by_folded[fold(name)] for name in old.names if fold(name) in by_folded}
    renamed = [RenameColumn(name, now) for name, now in spelled.items() if name != now]
    widened = [
        WidenColumn(now, new.field(now).type)
        for name, now in spelled.items()
        if old.field(name).type != new.field(now).type
    ]
    dropped = [DropColumn(name) for name in old.names if name not in spelled]
    added = [AddColumn(field.name, field.type) for field in new if field.name not in spelled.values()]
    return (*renamed, *widened, *dropped, *added)


def _changes_by_position(there: StoreDefinition, asked: StoreDefinition) -> Sequence[Change]:
    """What makes the columns of one definition those of another, if columns have changed their names only."""
    if there.row_schema.types != asked.row_schema.types:
        return ()
    pairs = zip(there.row_schema.names, asked.row_schema.names, strict=True)
    return [RenameColumn(old, new) for old, new in pairs if old != new]


def _leads(there: StoreDefinition, changes: Sequence[Change], asked: StoreDefinition) -> bool:
    """Whether changes make a store what is asked for."""
    try:
        return bool(changes) and is_as_reordered(
            migrate_definition(there, changes, there.generation + 1), asked
        )
    except InvalidInput:
        return False


def _options(changes: Sequence[Change]) -> str:
    """Changes as the command line takes them."""
    words = []
    for change in changes:
        match change:
            case AddColumn(name, arrow_type):
                words += ["--add", f"{_shell_quoted_options(name)} {sql_type(arrow_type)}"]
            case WidenColumn(name, arrow_type):
                words += ["--widen", f"{_shell_quoted_options(name)}={sql_type(arrow_type)}"]
            case DropColumn(name):
                words += ["--drop", _shell_quoted_options(name)]
            case RenameColumn(name, to):
                words += ["--rename", f"{_shell_quoted_options(name)}={_shell_quoted_options(to)}"]
    return shlex.join(words)


def _shell_quoted_options(name: str) -> str:
    return name if name.isidentifier() else quote_identifier(name)
