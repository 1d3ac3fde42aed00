"""A statement's trace goes from its client over the host that answers to all hosts that run fragments."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from engine.cluster.reports import HostName
from engine.errors import InvalidInput, NotFound, Unavailable
from engine.telemetry.spans import STATEMENT_ATTRIBUTE, is_tracing, span, trace_with
from flight_server.client.client import Client
from flight_server.host.host import Host
from flight_server.host.tracing import begin_tracing, end_tracing, wants_traces
from tests.support.many_hosts import three_hosts
from tests.support.waiting import wait_until

GROUPED = "SELECT genre, sum(plays) AS n FROM plays GROUP BY genre"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[HostName, Host]]:
    """Hosts a, b and c."""
    with three_hosts(tmp_path_factory.mktemp("traces")) as hosts:
        yield hosts


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """Gets the spans of all hosts, which are in this process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(provider)
    yield exporter
    trace_with(None)
    provider.shutdown()


def _number(found: ReadableSpan | None) -> int:
    assert found is not None and found.context is not None
    return int(found.context.span_id)


def _parent(found: ReadableSpan) -> int | None:
    return None if found.parent is None else int(found.parent.span_id)


def test_a_trace_goes_from_the_client_over_all_hosts(
    hosts: dict[HostName, Host], exporter: InMemorySpanExporter
) -> None:
    with span("a page of mine"), Client(hosts[HostName("a")].uri) as client:
        rows = client.query(GROUPED)
        assert rows.read_all().num_rows == 10
    wait_until(lambda: sum(each.name == "run fragment" for each in exporter.get_finished_spans()) == 2, 30)
    spans = exporter.get_finished_spans()
    (page,) = (each for each in spans if each.name == "a page of mine")
    assert page.context is not None
    of_trace = [each for each in spans if each.context and each.context.trace_id == page.context.trace_id]
    by_name: dict[str, list[ReadableSpan]] = {}
    for each in of_trace:
        by_name.setdefault(each.name, []).append(each)
    (run,) = by_name["run statement"]
    assert (_parent(run), run.kind) == (_number(page), SpanKind.SERVER)
    (gather,) = by_name["gather"]
    for name in ("parse", "route", "plan", "gather"):
        assert {_parent(each) for each in by_name[name]} == {_number(run)}, name
    asked = by_name["ask host"]
    assert {_parent(each) for each in asked} == {_number(gather)}, "though other threads asked"
    assert sorted(str((each.attributes or {})["livestate.host"]) for each in asked) == ["b", "c"]
    fragments = by_name["run fragment"]
    assert sorted(map(_parent, fragments), key=str) == sorted(map(_number, asked), key=str)
    for each in (run, *fragments):
        assert (each.attributes or {})[STATEMENT_ATTRIBUTE] == rows.statement


def test_a_statement_that_fails_says_so(hosts: dict[HostName, Host], exporter: InMemorySpanExporter) -> None:
    with Client(hosts[HostName("a")].uri) as client, pytest.raises(NotFound):
        client.query("SELECT nothing FROM plays")
    (run,) = (each for each in exporter.get_finished_spans() if each.name == "run statement")
    assert not run.status.is_ok
    assert (run.status.description, run.events) == ("NotFound", ()), "and not what the text was"
    assert run.parent is None, "a trace of its own, where the client brings none"


def test_without_tracing_nothing_is_made(hosts: dict[HostName, Host]) -> None:
    assert not is_tracing()
    with span("nothing") as made:
        assert made is None
    with Client(hosts[HostName("a")].uri) as client:
        assert client.query(GROUPED).read_all().num_rows == 10


def test_the_environment_says_whether_there_are_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    assert wants_traces(endpoint)
    assert not wants_traces({})
    assert not wants_traces({**endpoint, "OTEL_SDK_DISABLED": "true"})
    assert not wants_traces({**endpoint, "OTEL_TRACES_EXPORTER": "none"})
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    begin_tracing("a")
    assert not is_tracing()


def test_a_host_that_is_to_trace_and_cannot_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setattr("flight_server.host.tracing._PACKAGES", ("opentelemetry.no_such_package",))
    with pytest.raises(Unavailable, match=r"pip install 'livestate\[tracing\]'"):
        begin_tracing("a")


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc"), ("OTEL_BSP_SCHEDULE_DELAY", "-1")]
)
def test_a_variable_that_cannot_be_read_is_told(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'livestate[tracing]'")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match="OpenTelemetry cannot read its variables: "):
        begin_tracing("a")
    assert not is_tracing()


class _Collector(BaseHTTPRequestHandler):
    """Takes what is sent to it, as a collector does."""

    received: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *unused: object) -> None:
        """Say nothing."""


def test_traces_are_sent_to_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'livestate[tracing]'")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        begin_tracing("a")
        try:
            with span("a page of mine"):
                pass
            end_tracing()
        finally:
            trace_with(None)
            collector.shutdown()
    ((path, body),) = _Collector.received
    assert path == "/v1/traces"
    assert b"a page of mine" in body and b"livestate" in body
