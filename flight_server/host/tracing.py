"""Traces of this process's statements, where the environment asks for them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from engine.errors import InvalidInput, Unavailable
from engine.telemetry.spans import trace_with, tracing_provider

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_log = logging.getLogger(__name__)


def wants_traces(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenTelemetry's environment variables say where traces go, and do not switch them off."""
    is_off = (
        environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
        or environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    )
    return not is_off and any(environment.get(name) for name in _ENDPOINTS)


def begin_tracing(host: str) -> None:
    """Send traces to where the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like); without it
    nothing is traced.

    Args:
        host: Name of the host; empty where it belongs to no deployment.

    Raises:
        Unavailable: They are wanted, and OpenTelemetry is not installed.
        InvalidInput: A variable of OpenTelemetry has a value that it cannot read.
    """
    if not wants_traces():
        return
    if not all(_is_installed(package) for package in _PACKAGES):
        raise Unavailable(
            "OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, which need OpenTelemetry: pip install "
            "'livestate[tracing]', or take the variable away."
        )
    try:
        provider = _exporting_provider(host)
    except ValueError as error:
        raise InvalidInput(
            f"OpenTelemetry cannot read its variables: {str(error).rstrip('.')}. Set right, or take away, "
            "what begins with OTEL_ in the environment."
        ) from error
    trace_with(provider)
    _log.info("Statements are traced.")


def _exporting_provider(host: str) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  an extra
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  likewise
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  likewise
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  likewise

    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "livestate")}
    resource = Resource.create(named | ({"service.instance.id": host} if host else {}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def end_tracing() -> None:
    """Send what was not sent yet, and trace no more."""
    provider = tracing_provider()
    trace_with(None)
    if provider is not None:
        provider.shutdown()


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
