"""Which actions of Spark's make the rows of a batch: one for all stores whose rows are columns of the batch,
and one for each other store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from spark_pipeline.outputs import StoreOutput


@dataclass(frozen=True)
class RowPlan:
    """What one action of Spark's computes of each batch: the rows of a store, or of several.

    Attributes:
        outputs: The stores.
        columns: Their rows as columns over a batch; of several stores, a struct for each, in their order.
            None of a store whose rows a query or an aggregation of its own makes.
    """

    outputs: tuple[StoreOutput, ...]
    columns: tuple[Column, ...] | None = None

    def frame(self, batch: DataFrame) -> DataFrame:
        """The rows of a batch, yet to be computed."""
        return self.outputs[0].frame(batch) if self.columns is None else batch.select(*self.columns)


def plan_rows(outputs: Sequence[StoreOutput], batch: DataFrame) -> list[RowPlan]:
    """Plan how rows are made of each batch of a job.

    Args:
        outputs: The stores.
        batch: Any batch of the job; only its schema matters.

    Returns:
        Plans; each store is in one of them.

    Raises:
        InvalidInput: As `StoreOutput.columns`.
    """
    plans: list[RowPlan] = []
    together: list[tuple[StoreOutput, list[Column]]] = []
    for output in outputs:
        columns = output.columns(batch)
        if columns is None:
            plans.append(RowPlan((output,)))
        else:
            together.append((output, columns))
    if len(together) == 1:
        [(output, columns)] = together
        plans.append(RowPlan((output,), tuple(columns)))
    elif together:
        structs = tuple(F.struct(*columns).alias(output.store) for output, columns in together)
        plans.append(RowPlan(tuple(output for output, _ in together), structs))
    return plans
