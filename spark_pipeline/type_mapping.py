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


def _arrow_type(spark_type: spark.DataType) -> pa.DataType:
    if isinstance(spark_type, spark.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, spark.ArrayType):
        return pa.list_(_arrow_type(spark_type.elementType))
    if isinstance(spark_type, spark.MapType):
        return pa.map_(_arrow_type(spark_type.keyType), _arrow_type(spark_type.valueType))
    if isinstance(spark_type, spark.StructType):
        return pa.struct([pa.field(field.name, _arrow_type(field.dataType)) for field in spark_type.fields])
    found = _SIMPLE.get(type(spark_type))
    if found is None:
        raise InvalidInput(
            f"Spark's type {spark_type.simpleString()} is not a value type of a store; cast it."
        )
    return found


def nullable_type(spark_type: spark.DataType) -> spark.DataType:
    """The same type, inside of which everything may be null.

    Args:
        spark_type: Any type.
    """
    if isinstance(spark_type, spark.ArrayType):
        return spark.ArrayType(nullable_type(spark_type.elementType))
    if isinstance(spark_type, spark.MapType):
        return spark.MapType(nullable_type(spark_type.keyType), nullable_type(spark_type.valueType))
    if isinstance(spark_type, spark.StructType):
        return spark.StructType(
            [spark.StructField(field.name, nullable_type(field.dataType)) for field in spark_type.fields]
        )
    return spark_type


def is_required_in_nullable(spark_type: spark.DataType, is_nullable: bool) -> bool:
    """Whether a value has a field that must not be null in a struct that may be.

    Args:
        spark_type: The value's type.
        is_nullable: Whether the value itself may be null.
    """
    if isinstance(spark_type, spark.ArrayType):
        return is_required_in_nullable(spark_type.elementType, spark_type.containsNull)
    if isinstance(spark_type, spark.MapType):
        return is_required_in_nullable(spark_type.keyType, False) or is_required_in_nullable(
            spark_type.valueType, spark_type.valueContainsNull
        )
    if isinstance(spark_type, spark.StructType):
        return any(
            (is_nullable and not field.nullable) or is_required_in_nullable(field.dataType, field.nullable)
            for field in spark_type.fields
        )
    return False


_SPARK_OF = {
    arrow_type: made
    for made, arrow_type in _SIMPLE.items()
    if made not in (spark.CharType, spark.VarcharType)
}
_WIDER: dict[pa.DataType, spark.DataType] = {
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
}
"""Spark has no unsigned integers; these hold all of their values."""


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """The schema of a frame that rows of an Arrow schema fit.

    Args:
        schema: Columns of a store or of a query's result.

    Returns:
        The same columns in the same order, all of which may be null. Unsigned integers become the next wider
        type.

    Raises:
        InvalidInput: A column has a type that Spark does not have, or the name of another one.
    """
    fields: list[spark.StructField] = []
    if len(set(schema.names)) < len(schema.names):
        twice = next(name for place, name in enumerate(schema.names) if name in schema.names[:place])
        raise InvalidInput(
            f"Two columns are called {twice}, and Spark tells columns by their names: rename one with AS."
        )
    for field in schema:
        try:
            fields.append(spark.StructField(field.name, _spark_type(field.type)))
        except InvalidInput as error:
            raise InvalidInput(f"Column {field.name}: {error.message}") from error
    return spark.StructType(fields)


def _spark_type(arrow_type: pa.DataType) -> spark.DataType:
    if (
        pa.types.is_decimal(arrow_type)
        and arrow_type.precision <= 38
        and 0 <= arrow_type.scale <= arrow_type.precision
    ):
        return spark.DecimalType(arrow_type.precision, arrow_type.scale)
    if pa.types.is_list(arrow_type):
        return spark.ArrayType(_spark_type(arrow_type.value_type))
    if pa.types.is_map(arrow_type):
        return spark.MapType(_spark_type(arrow_type.key_type), _spark_type(arrow_type.item_type))
    if pa.types.is_struct(arrow_type):
        return spark.StructType(
            [spark.StructField(field.name, _spark_type(field.type)) for field in arrow_type]
        )
    found = _SPARK_OF.get(arrow_type)
    if found is not None:
        return found()
    if arrow_type in _WIDER:
        return _WIDER[arrow_type]
    raise InvalidInput(f"Spark has no type for {arrow_type}; cast it in the query.")
