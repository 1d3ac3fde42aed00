"""Spark's types as Arrow types, the way Spark hands rows over."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

from engine.errors import InvalidInput

_SIMPLE: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
}


def arrow_schema(schema: spark.StructType, *, store: str) -> pa.Schema:
    """The Arrow schema of a frame's rows.

    Args:
        schema: The frame's schema.
        store: Store that the rows are for, for messages.

    Returns:
        The same columns in the same order. Windows stay structs of `start` and `end`.

    Raises:
        InvalidInput: A column has a type that stores do not hold: intervals, variants, times of day, void.
    """
    fields = []
    for field in schema.fields:
        try:
            fields.append(pa.field(field.name, _arrow_type(field.dataType)))
        except InvalidInput as error:
            raise InvalidInput(f"Store {store}, column {field.name}: {error.message}") from error
    return pa.schema(fields)


def _arrow_type(kind: spark.DataType) -> pa.DataType:
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        return pa.list_(_arrow_type(kind.elementType))
    if isinstance(kind, spark.MapType):
        return pa.map_(_arrow_type(kind.keyType), _arrow_type(kind.valueType))
    if isinstance(kind, spark.StructType):
        return pa.struct([pa.field(field.name, _arrow_type(field.dataType)) for field in kind.fields])
    found = _SIMPLE.get(type(kind))
    if found is None:
        raise InvalidInput(f"Spark's type {kind.simpleString()} is not a value type of a store; cast it.")
    return found
