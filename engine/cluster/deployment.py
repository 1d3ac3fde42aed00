"""The deployment file: which hosts there are, and which changelog they serve.

version = 1
changelog = "s3://bucket/prefix"
replication = 2

[[hosts]]
name = "a"
uri = "grpc://10.0.0.1:8815"
data = "/var/lib/livestate"

It may have a table [security], too, which `engine.access.security_file` reads.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.cluster.assignment import Assignment
from engine.cluster.reports import HostName
from engine.errors import InvalidInput

DEPLOYMENT_VERSION = 1
_FIELDS = {
    "version": int,
    "changelog": str,
    "replication": int,
    "hosts": list,
    "security": dict,
    "roles": dict,
}
_HOST_FIELDS = {"name": str, "uri": str, "data": str}
_WORDS: Mapping[type, str] = {
    int: "a whole number",
    str: "a text in quotes",
    list: "a list of [[hosts]] tables",
    dict: "a table",
}
_SCHEMES = ("grpc://", "grpc+tls://")


@dataclass(frozen=True)
class HostEntry:
    """One host of a deployment.

    Attributes:
        name: Its name, by which partitions are assigned; as long as it keeps the name it keeps its
            partitions, wherever it runs.
        uri: Where other hosts and clients reach it: `grpc://address:port` or `grpc+tls://address:port`.
        data: Its data directory; None where the command line says.
    """

    name: HostName
    uri: str
    data: str | None = None


@dataclass(frozen=True)
class Deployment:
    """The hosts that serve a changelog together.

    Attributes:
        changelog: URI of the changelog.
        hosts: The hosts, in the file's order; names and URIs differ.
        replication: How many hosts hold a partition, 1 to the number of hosts.
        has_security: Whether the file says how callers prove who they are.
    """

    changelog: str
    hosts: tuple[HostEntry, ...]
    replication: int = 1
    has_security: bool = False

    @property
    def assignment(self) -> Assignment:
        """Which host holds what."""
        return Assignment(tuple(entry.name for entry in self.hosts), self.replication)

    def host(self, name: str) -> HostEntry:
        """The host of a name.

        Raises:
            InvalidInput: There is none.
        """
        for entry in self.hosts:
            if entry.name == name:
                return entry
        raise InvalidInput(
            f"The deployment has no host {name}; it has {', '.join(entry.name for entry in self.hosts)}."
        )


def parse_deployment(text: str) -> Deployment:
    """Read a deployment file.

    Args:
        text: TOML as in this module's description.

    Returns:
        The deployment.

    Raises:
        InvalidInput: The text is no deployment; the message says what to change.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"The deployment file is not TOML: {error}.") from error
    _check_version(document)
    _check_fields("The deployment file", document, _FIELDS, required=("changelog", "hosts"))
    hosts = tuple(_host(place, entry) for place, entry in enumerate(document["hosts"], 1))
    if not hosts:
        raise InvalidInput("The deployment file names no host: add a [[hosts]] table with name and uri.")
    _check_unlike(hosts)
    replication = document.get("replication", 1)
    if not 1 <= replication <= len(hosts):
        raise InvalidInput(
            f"replication is {replication} in the deployment file; it must be at least 1 and at most the "
            f"number of hosts, {len(hosts)}."
        )
    if not document["changelog"]:
        raise InvalidInput(
            "changelog is empty in the deployment file: give the URI or directory of the changelog."
        )
    return Deployment(document["changelog"], hosts, replication, "security" in document)


def _check_version(document: Mapping[str, Any]) -> None:
    if "version" not in document:
        raise InvalidInput(f"The deployment file lacks its format: add version = {DEPLOYMENT_VERSION}.")
    if document["version"] != DEPLOYMENT_VERSION or isinstance(document["version"], bool):
        raise InvalidInput(
            f"The deployment file has format {document['version']!r}; this version of livestate reads format "
            f"{DEPLOYMENT_VERSION}."
        )


def _check_fields(
    where: str, table: Mapping[str, Any], fields: Mapping[str, type], required: tuple[str, ...]
) -> None:
    for name, value in table.items():
        if name not in fields:
            raise InvalidInput(
                f"{where} has the field {name}, which is not known; known are {', '.join(fields)}."
            )
        if not isinstance(value, fields[name]) or isinstance(value, bool):
            raise InvalidInput(f"{where} has {name} = {value!r}; it must be {_WORDS[fields[name]]}.")
    for name in required:
        if name not in table:
            raise InvalidInput(f"{where} lacks the field {name}.")


def _host(place: int, table: object) -> HostEntry:
    where = f"Host {place} of the deployment file"
    if not isinstance(table, dict):
        raise InvalidInput(f"{where} is no table: write [[hosts]], and name and uri below it.")
    _check_fields(where, table, _HOST_FIELDS, required=("name", "uri"))
    name, uri = table["name"], table["uri"]
    if not name or not name.isprintable() or name != name.strip() or "/" in name:
        raise InvalidInput(
            f"{where} has the name {name!r}; a name is printable, and without '/' and blanks around it."
        )
    scheme = next((known for known in _SCHEMES if uri.startswith(known)), None)
    if scheme is None or not uri.removeprefix(scheme):
        raise InvalidInput(
            f"{where}, {name}, has the uri {uri!r}; it must be grpc://address:port or grpc+tls://address:port."
        )
    return HostEntry(HostName(name), uri, table.get("data"))


def _check_unlike(hosts: tuple[HostEntry, ...]) -> None:
    names: set[str] = set()
    uris: dict[str, HostName] = {}
    for entry in hosts:
        if entry.name in names:
            raise InvalidInput(
                f"The deployment file names the host {entry.name} twice: give every host a name of its own."
            )
        if entry.uri in uris:
            raise InvalidInput(
                f"The hosts {uris[entry.uri]} and {entry.name} of the deployment file have the same uri, "
                f"{entry.uri}."
            )
        names.add(entry.name)
        uris[entry.uri] = entry.name
