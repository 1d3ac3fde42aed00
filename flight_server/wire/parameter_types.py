"""The types of parameters as drivers are told them: such that what a driver writes for a type is what the
type says.

Drivers that bring Arrow data of their own, as ADBC does, send it as it is. JDBC's driver makes Arrow values
of what its user gives, in the types that it is told, and does so wrongly for some: it writes the milliseconds
of a `java.sql.Timestamp` into timestamps of any unit (https://github.com/apache/arrow-java/issues/838),
counted in the time zone of its machine.
"""

from __future__ import annotations

import pyarrow as pa


def announced_schema(parameters: pa.Schema) -> pa.Schema:
    """What drivers are told of a statement's parameters.

    TIMESTAMP is announced with milliseconds, which JDBC then writes. TIMESTAMP WITH TIME ZONE is announced as
    a text: the driver refuses `setTimestamp`, whose moment it would shift by the zone of its machine, and
    takes `setString` with an offset.

    Args:
        parameters: As `engine.plan.arguments.parameter_schema` gives them.

    Returns:
        The same names. A value of an announced type is welcome wherever it was announced.
    """
    return pa.schema([pa.field(field.name, _announced_type(field.type)) for field in parameters])


def _announced_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_list(arrow_type):
        return pa.list_(pa.field("item", _announced_type(arrow_type.value_type)))
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("ms") if arrow_type.tz is None else pa.string()
    return arrow_type
