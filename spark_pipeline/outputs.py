"""What a job keeps up to date: its stores, and how each one's rows follow from the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.schema import StoreDefinition, define_store
from spark_pipeline.type_mapping import arrow_schema

_BINARY_COLLATION = "UTF8_BINARY"


class OutputMode(StrEnum):
    """What a batch's rows do to a store, named as Spark's output modes are."""

    APPEND = "append"
    """Rows replace those with the same key; a row with a new key is added."""
    UPDATE = "update"
    """The same as append: the store is keyed."""
    COMPLETE = "complete"
    """The batch's rows are all that the store has from now on."""


@dataclass(frozen=True)
class StoreOutput:
    """One store that a job keeps up to date.

    Attributes:
        store: Name of the store.
        key: Columns that identify a row.
        query: Makes the store's rows of the batch; None for the batch as it is.
        partition_by: Leading part of the key that places a row; the whole key by default.
        partitions: How many partitions the store has.
        mode: What the rows do to the store: "append", "update" or "complete".
        tombstone_column: Boolean column that says which rows remove their key; it is not a column of the store.
    """

    store: str
    key: Sequence[str]
    query: Callable[[DataFrame], DataFrame] | None = None
    partition_by: Sequence[str] | None = None
    partitions: int = 8
    mode: str = OutputMode.UPDATE
    tombstone_column: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in tuple(OutputMode):
            raise InvalidInput(f"Store {self.store}: the mode {self.mode!r} is none of {', '.join(OutputMode)}.")

    def frame(self, batch: DataFrame) -> DataFrame:
        """The store's rows of a batch, a tombstone column among them."""
        return self.query(batch) if self.query is not None else batch

    def definition(self, frame: DataFrame, group: str) -> StoreDefinition:
        """What the store has to be for a frame; nothing is computed.

        Args:
            frame: The store's rows of some batch.
            group: The store group.

        Returns:
            The definition.

        Raises:
            InvalidInput: A name, column, key or type is not acceptable.
        """
        self._check_collations(frame)
        schema = arrow_schema(frame.schema, store=self.store)
        if self.tombstone_column is not None:
            if schema.names.count(self.tombstone_column) != 1:
                columns = ", ".join(schema.names)
                raise InvalidInput(f"Store {self.store}: the tombstone column {self.tombstone_column} is not exactly one of the columns {columns}.")
            schema = schema.remove(schema.get_field_index(self.tombstone_column))
        return define_store(self.store, schema, self.key, partition_by=self.partition_by, partitions=self.partitions, group=group)

    def _check_collations(self, frame: DataFrame) -> None:
        """A store tells keys apart by their bytes, and such a column's values may be equal without being the same bytes."""
        for field in frame.schema.fields:
            kind = field.dataType
            if field.name in self.key and isinstance(kind, StringType) and kind.collation != _BINARY_COLLATION:
                cause = f"the key column {field.name} has the collation {kind.collation}; cast it to STRING COLLATE {_BINARY_COLLATION}"
                raise InvalidInput(f"Store {self.store}: {cause}.")


def create_stores(changelog: Changelog, outputs: Sequence[StoreOutput], batch: DataFrame, group: str) -> dict[str, StoreDefinition]:
    """Create the stores of a job, or find that those there are the same.

    Args:
        changelog: Where they are.
        outputs: The stores, by distinct names.
        batch: Any batch of the job; only its schema matters.
        group: Their group.

    Returns:
        Definition by name of the store.

    Raises:
        InvalidInput: A definition is not acceptable, or a store exists and differs; the message shows both.
    """
    # All are checked before the first is created.
    wanted = [output.definition(output.frame(batch), group) for output in outputs]
    return {definition.name: changelog.create_store(definition) for definition in wanted}
