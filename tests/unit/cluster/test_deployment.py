"""The deployment file: what it says, and one clear sentence for every mistake in it."""

from __future__ import annotations

import pytest

from engine.cluster.deployment import Deployment, HostEntry, parse_deployment
from engine.cluster.reports import HostName
from engine.errors import InvalidInput

HEAD = 'version = 1\nchangelog = "file:///changes"\n'
HOST_A = '[[hosts]]\nname = "a"\nuri = "grpc://127.0.0.1:8815"\n'
HOST_B = '[[hosts]]\nname = "b"\nuri = "grpc+tls://b.example:8815"\ndata = "/data/b"\n'


def test_a_deployment() -> None:
    found = parse_deployment(HEAD + "replication = 2\n" + HOST_A + HOST_B)
    a = HostEntry(HostName("a"), "grpc://127.0.0.1:8815")
    b = HostEntry(HostName("b"), "grpc+tls://b.example:8815", "/data/b")
    assert found == Deployment("file:///changes", (a, b), 2)
    assert found.host("b") == b
    assert found.assignment.hosts == ("a", "b")


def test_one_host_has_everything_once() -> None:
    assert parse_deployment(HEAD + HOST_A).replication == 1


def test_a_host_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="no host c; it has a, b"):
        parse_deployment(HEAD + HOST_A + HOST_B).host("c")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = ", "is not TOML"),
        ('changelog = "x"\n' + HOST_A, "lacks its format: add version = 1"),
        (HEAD.replace("1", "2") + HOST_A, "has format 2; this version of livestate reads format 1"),
        (HEAD.replace("1", "true") + HOST_A, "has format True"),
        ("version = 1\n" + HOST_A, "lacks the field changelog"),
        (HEAD, "lacks the field hosts"),
        (HEAD + "hosts = []", "names no host"),
        (HEAD + "hosts = [1]", "Host 1 of the deployment file is no table"),
        (HEAD + 'hosts = "a"', r"hosts = 'a'; it must be a list"),
        ("version = 1\nchangelog = 5\n" + HOST_A, "changelog = 5; it must be a text"),
        ('version = 1\nchangelog = ""\n' + HOST_A, "changelog is empty"),
        (
            HEAD + "replicas = 2\n" + HOST_A,
            "the field replicas, which is not known; known are version, changelog, replication, hosts",
        ),
        (HEAD + "replication = 2\n" + HOST_A, "replication is 2 .* at most the number of hosts, 1"),
        (HEAD + "replication = 0\n" + HOST_A, "replication is 0 .* at least 1"),
        (HEAD + "replication = true\n" + HOST_A, "replication = True; it must be a whole number"),
        (HEAD + HOST_A + HOST_A, "names the host a twice"),
        (
            HEAD + HOST_A + HOST_A.replace('"a"', '"b"'),
            "hosts a and b .* the same uri, grpc://127.0.0.1:8815",
        ),
        (HEAD + '[[hosts]]\nname = "a"', "Host 1 of the deployment file lacks the field uri"),
        (
            HEAD + HOST_A + '[[hosts]]\nuri = "grpc://x:1"',
            "Host 2 of the deployment file lacks the field name",
        ),
        (HEAD + HOST_A.replace('"a"', "5"), "Host 1 .* name = 5; it must be a text"),
        (HEAD + HOST_A.replace('"a"', '""'), "name ''; a name is printable"),
        (HEAD + HOST_A.replace('"a"', '"a/b"'), "name 'a/b'"),
        (
            HEAD + HOST_A.replace("grpc:", "http:"),
            "Host 1 .*, a, has the uri 'http://127.0.0.1:8815'; it must be grpc://",
        ),
        (
            HEAD + HOST_A + "port = 5",
            "Host 1 .* the field port, which is not known; known are name, uri, data",
        ),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        parse_deployment(text)
    assert "\n" not in caught.value.message
