"""A property of a statement that is worked out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):  # noqa: N801 - as in functools
    """As `functools.cached_property` from Python 3.12 on: without a lock.

    That of 3.11 holds one for all instances of a class while it works a value out: who asks another instance
    waits, whatever its time-out. Here two threads may both work a value out; all get that of the first. What
    is stored keeps functools' own: when an epoch lands, several threads ask for the same at once.

    Args:
        work_out: Gives the value of an instance, which has a `__dict__`.
    """

    def __init__(self, work_out: Callable[[Any], Value]) -> None:
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[Value] | Value:
        if instance is None:
            return self
        # From now on the instance's own attribute is found first.
        return cast("Value", instance.__dict__.setdefault(self._name, self._work_out(instance)))
