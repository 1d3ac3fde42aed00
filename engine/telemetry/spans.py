"""Spans of a statement, for OpenTelemetry; nothing where tracing is off, which is the default.

What is traced is said here, and not where it happens: `span` costs the look at one name where tracing is off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from engine.telemetry.statement_ids import statement_id

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

TRACEPARENT = "traceparent"
"""The header of the W3C's Trace Context, https://www.w3.org/TR/trace-context/; `tracestate` goes with it."""
TRACE_HEADERS = (TRACEPARENT, "tracestate")
STATEMENT_ATTRIBUTE = "livestate.statement"
Value = str | int | float | bool
_OFF: AbstractContextManager[None] = nullcontext()


class _Tracing:
    """What makes spans.

    Attributes:
        provider: OpenTelemetry's; None: tracing is off.
    """

    provider: TracerProvider | None = None


def trace_with(provider: TracerProvider | None) -> None:
    """Have spans made from now on, or none.

    Args:
        provider: Makes them; None: nobody does.
    """
    _Tracing.provider = provider


def tracing_provider() -> TracerProvider | None:
    """What makes spans; None: tracing is off."""
    return _Tracing.provider


def is_tracing() -> bool:
    """Whether spans are made."""
    return _Tracing.provider is not None


def span(
    name: str, headers: Mapping[str, str] | None = None, **attributes: Value
) -> AbstractContextManager[Span | None]:
    """A context that is a span: of the one around it, or of the call that has brought headers.

    Args:
        name: What is done.
        headers: The headers of a call by lower-case name, where this is what it asks for.
        attributes: What else is known of it, as `livestate.name`.

    Returns:
        The span; None while tracing is off.
    """
    return _OFF if _Tracing.provider is None else _begin(_Tracing.provider, name, headers, attributes)


@contextmanager
def _begin(
    provider: TracerProvider, name: str, headers: Mapping[str, str] | None, attributes: Mapping[str, Value]
) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415  an extra has it
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415  likewise
        TraceContextTextMapPropagator,
    )

    known = {f"livestate.{key}": value for key, value in attributes.items()}
    if statement_id():
        known[STATEMENT_ATTRIBUTE] = statement_id()
    parent = None if headers is None else TraceContextTextMapPropagator().extract(headers)
    kind = SpanKind.INTERNAL if headers is None else SpanKind.SERVER
    tracer = provider.get_tracer("livestate")
    # What errors say may name values.
    with tracer.start_as_current_span(
        name, parent, kind, known, record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield made
        except BaseException as error:
            made.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            if headers is not None and statement_id():
                # Known only once the call was read.
                made.set_attribute(STATEMENT_ATTRIBUTE, statement_id())


def trace_headers() -> dict[str, str]:
    """The headers by which a call to another host is part of the span around it; none while tracing is
    off.
    """
    if _Tracing.provider is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415  an extra has it
        TraceContextTextMapPropagator,
    )

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
