"""`livestate doctor`: looks at a deployment from here; its hosts look at themselves and at each other."""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from engine.changelog.layout import FORMAT_PATH
from engine.changelog.objects import Objects
from engine.changelog.probe import probe_objects
from engine.errors import Forbidden, InvalidInput, LivestateError, Unauthenticated
from engine.model.durations import MICROSECONDS_PER_SECOND
from flight_server.cli.checkup import (
    Finding,
    HostFacts,
    Level,
    changelog_findings,
    directory_findings,
    host_findings,
    worst_level,
)
from flight_server.cli.render import escape_unprintable
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.machine_facts import directory_facts

CALL_SECONDS = 10.0
"""How long a host may take to look at itself and at the others."""
TLS_PORT = 8815
_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def examine_hosts(connection: ConnectionOptions, deployment: Mapping[str, str]) -> list[Finding]:
    """Look at hosts.

    Args:
        connection: How they are reached; its address is that of one of them.
        deployment: The advertised address of each, by name, where a file says so; else one of them is asked.

    Returns:
        What was found.
    """
    connection = replace(connection, call_seconds=CALL_SECONDS)
    uris = dict(deployment) or _advertised_uris(connection)
    with ThreadPoolExecutor(max(1, len(uris))) as threads:
        facts = threads.map(lambda uri: _host_facts(connection.with_uri(uri)), uris.values())
        return host_findings(dict(zip(uris, facts, strict=True)))


def deployment_uris(file: Path) -> dict[str, str]:
    """The advertised address of each host of a deployment file, by name.

    Args:
        file: It.

    Raises:
        InvalidInput: It cannot be read, or is no deployment.
    """
    from flight_server.host.serving import read_deployment  # noqa: PLC0415  it needs the host's packages

    return {entry.name: entry.uri for entry in read_deployment(file).hosts}


def _advertised_uris(connection: ConnectionOptions) -> dict[str, str]:
    """Where hosts say that they are; what was given where they do not."""
    with Client(connection) as client:
        try:
            rows = client.hosts().to_pylist()
        except LivestateError:
            rows = []
    found = {row["host"]: row["uri"] for row in rows if row["host"] and row["uri"]}
    return found or {connection.uri: connection.uri}


def _host_facts(connection: ConnectionOptions) -> HostFacts:
    tls = _tls_facts(connection)
    if tls.refusal:
        return tls
    with Client(connection) as client:
        try:
            client.health()
        except (Forbidden, Unauthenticated) as error:
            return replace(tls, refusal=error.message)
        except LivestateError as error:
            return replace(tls, problem=error.message)
        try:
            diagnosis = client.diagnose()
        except LivestateError as error:
            return replace(tls, silence=error.message)
        offset = diagnosis.clock / MICROSECONDS_PER_SECOND - time.time()
        return replace(tls, diagnosis=diagnosis, clock_offset=offset)


def _tls_facts(connection: ConnectionOptions) -> HostFacts:
    """How long the certificate of a host is good, or why it is not, and whether the host takes the caller's;
    nothing of a host without.
    """
    facts = HostFacts(connection.uri)
    place = urlsplit(connection.uri)
    if place.scheme != "grpc+tls" or place.hostname is None:
        return facts
    context = ssl.create_default_context()
    if connection.tls_roots:
        context.load_verify_locations(cadata=connection.tls_roots.decode("ascii", "replace"))
    context.set_alpn_protocols(["h2"])
    ends = ""
    try:
        _present_certificate(context, connection)
        with (
            socket.create_connection((place.hostname, place.port or TLS_PORT), CALL_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=place.hostname) as wrapped,
        ):
            ends = str((wrapped.getpeercert() or {}).get("notAfter", ""))
            # A host that does not take the caller's certificate ends the connection; any other speaks first.
            if not wrapped.recv(1):
                facts = replace(facts, refusal=_certificate_refusal(connection))
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message.rstrip(".")
        return replace(facts, tls_problem=f"Its certificate is not good here: {why}.")
    except ssl.SSLEOFError:
        return replace(facts, refusal=_certificate_refusal(connection))
    except ssl.SSLError as error:
        return replace(facts, tls_problem=f"It does not speak TLS as it should: {error.reason}.")
    except ConnectionResetError:
        # Before the handshake this may be anything, which is said elsewhere.
        facts = replace(facts, refusal=_certificate_refusal(connection)) if ends else facts
    except OSError:
        # That it does not answer is said elsewhere.
        pass
    return replace(facts, tls_seconds=ssl.cert_time_to_seconds(ends) - time.time()) if ends else facts


def _present_certificate(context: ssl.SSLContext, connection: ConnectionOptions) -> None:
    """Have a context show the caller's certificate, if there is one: it takes files alone."""
    if not connection.certificate:
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(connection.certificate + b"\n" + connection.key)
        file.flush()
        context.load_cert_chain(file.name)


def _certificate_refusal(connection: ConnectionOptions) -> str:
    """What a host means that ends a connection as soon as it has seen who calls."""
    if connection.certificate:
        return "It ends the connection at the caller's certificate: none of its authorities vouches for it."
    return "It ends the connection as the caller shows no certificate."


def examine_changelog(uri: str, objects: Objects) -> list[Finding]:
    """Try the place of a changelog out.

    Args:
        uri: Where it is.
        objects: The place.
    """
    try:
        found = list(changelog_findings(uri, probe_objects(objects)))
        is_there = objects.exists(FORMAT_PATH)
    except LivestateError as error:
        advice = "See that the place is there, and that whoever calls may write and delete."
        return [Finding(Level.FAIL, "changelog", uri, error.message, advice)]
    if not is_there:
        advice = "The first job or load makes one; if there should be one, check the URI."
        found.append(Finding(Level.WARN, "changelog", uri, "There is no changelog there yet.", advice))
    return found


def examine_directory(directory: Path) -> list[Finding]:
    """Look at a data directory of this machine.

    Args:
        directory: It.
    """
    return list(directory_findings(str(directory), directory_facts(directory)))


def examine_security(file: Path) -> list[Finding]:
    """See whether a host would take a security file and what it names.

    Args:
        file: It.
    """
    from flight_server.identity.authenticator import Authenticator  # noqa: PLC0415  it needs the host's packages

    try:
        Authenticator(file=file)
    except InvalidInput as error:
        return [Finding(Level.FAIL, "security", str(file), error.message, "A host would not start with it.")]
    return [Finding(Level.OK, "security", str(file), "A host would take it, and what it names.")]


def print_findings(findings: Sequence[Finding], output_format: str) -> bool:
    """Print findings.

    Args:
        findings: What was found.
        output_format: `text` or `json`.

    Returns:
        Whether nothing has failed.
    """
    worst = worst_level(findings)
    if output_format == "json":
        said = [{**asdict(each), "level": each.level.value} for each in findings]
        click.echo(json.dumps({"worst": worst.value, "findings": said}, indent=2))
    else:
        for line in _lines(findings):
            click.echo(line)
    return worst is not Level.FAIL


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    checks = max((len(each.check) for each in findings), default=0)
    for each in findings:
        level = click.style(
            f"{each.level.value:<4}", fg=_COLOURS[each.level], bold=each.level is not Level.OK
        )
        said = escape_unprintable(f"{each.where}: {each.message}")
        yield f"{level}  {each.check:<{checks}}  {said}"
        if each.advice:
            yield f"{'':4}  {'':{checks}}  → {each.advice}"
    counts = {level: sum(each.level is level for each in findings) for level in Level}
    yield ", ".join(f"{count} {level.value}" for level, count in counts.items())
