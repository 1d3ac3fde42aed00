"""Root URIs and options, and a changelog that travels to another process."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.changelog import Changelog, open_appender, partition_rows
from engine.changelog.layout import path_segment
from engine.errors import InvalidInput, NotFound, Unavailable
from engine.replica.data_directory import claim
from tests.unit.changelog.conftest import PLAYS, read, rows


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("", {}, "must be a path or start with one of file://, s3://"),
        ("ftp://host/path", {}, "must be a path or start with one of file://, s3://"),
        ("file://host/path", {}, "absolute path"),
        ("file:relative", {}, "absolute path"),
        ("file:///a#b", {}, "%3F for \\? and %23 for #, unlike 'file:///a#b'"),
        ("s3://bucket/log#2", {}, "%3F for \\? and %23 for #"),
        ("gs://bucket/log?", {}, "%3F for \\? and %23 for #"),
        ("/var/lib", {"region": "x"}, "takes no options, and region was given"),
        ("memory://", {"region": "x"}, "takes no options"),
        ("s3://", {}, "check the bucket's name"),
        ("s3://bucket", {"regoin": "x"}, "does not know one of the options regoin"),
        ("s3://bucket", {"timeout": "soon"}, "check the bucket's name, the credentials and the options"),
        ("az://container", {}, "az:// needs account_name"),
    ],
)
def test_what_is_no_changelog(uri: str, options: Mapping[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Changelog.open(uri, options)


@pytest.mark.parametrize("uri", ["{}/a\0b", "file://{}/a%00b"])
def test_no_path_has_a_nul(tmp_path: Path, uri: str) -> None:
    with pytest.raises(InvalidInput, match="leave out the NUL"):
        Changelog.open(uri.format(tmp_path))


def test_a_name_that_is_too_long_is_said_when_it_is_used(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / ("x" * 5000)))
    with pytest.raises(Unavailable, match=r"cannot be read \(File name too long\)"):
        open_appender(changelog, [PLAYS])


@pytest.mark.parametrize("uri", ["{}", "{}/below", "file://{}"])
def test_a_file_is_no_changelog(tmp_path: Path, uri: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n")
    with pytest.raises(InvalidInput, match=r"must lead to a directory, and '.*' leads to a file"):
        Changelog.open(uri.format(file))


def test_a_data_directory_becomes_no_changelog(tmp_path: Path) -> None:
    """The host would not start again in it."""
    claim(tmp_path / "data", "c0ffee")
    changelog = Changelog.open(str(tmp_path / "data"))
    for write in (lambda: open_appender(changelog, [PLAYS]), lambda: changelog.create_store(PLAYS)):
        with pytest.raises(InvalidInput, match="is the data directory of a host: give the changelog a"):
            write()
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["livestate.json"]


def test_the_remote_stores_open_without_a_request() -> None:
    assert Changelog.open("gs://bucket/prefix").uri == "gs://bucket/prefix"
    assert (
        Changelog.open("az://container/prefix", {"account_name": "a", "account_key": "YQ=="}).uri
        == "az://container/prefix"
    )
    assert "secret" not in repr(
        Changelog.open(
            "s3://bucket/prefix",
            {"aws_allow_http": "true", "access_key_id": "a", "secret_access_key": "secret"},
        )
    )


def test_a_file_uri_and_its_path_are_one(tmp_path: Path) -> None:
    root = tmp_path / "with space"
    open_appender(Changelog.open(root.as_uri()), [PLAYS]).append({"plays": rows(1)})
    assert read(Changelog.open(str(root)), 2) == [(1, "t", 1)]


def test_a_store_that_nobody_serves() -> None:
    options = {
        "endpoint": "http://127.0.0.1:9",
        "allow_http": "true",
        "access_key_id": "a",
        "secret_access_key": "b",
        "timeout": "100ms",
    }
    with pytest.raises(Unavailable, match="cannot be reached") as raised:
        Changelog.open("s3://bucket/x", options).definitions()
    assert "127.0.0.1" not in raised.value.message


def test_a_bucket_that_does_not_exist(s3_options: Mapping[str, str]) -> None:
    changelog = Changelog.open("s3://nowhere/x", s3_options)
    with pytest.raises(NotFound, match="bucket of the changelog does not exist"):
        changelog.create_store(PLAYS)


def test_a_changelog_can_be_sent_to_a_task(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path))
    changelog.create_store(PLAYS)
    writer = changelog.writer(PLAYS.group, "driver")
    sent = pickle.loads(pickle.dumps(changelog))
    file = sent.stage(PLAYS.group, writer.next_epoch, {PLAYS.name: partition_rows(PLAYS, rows(1))}, task="0")
    writer.commit([pickle.loads(pickle.dumps(file))])
    assert read(changelog, 2) == [(1, "t", 1)]
    with pytest.raises(InvalidInput, match="lives in one process"):
        pickle.dumps(Changelog.open("memory://"))


def test_names_as_path_segments() -> None:
    assert [path_segment(name) for name in ("plays", "a/b", ".a", "a.b", "a b%", "é~")] == [
        "plays",
        "a%2Fb",
        "%2Ea",
        "a.b",
        "a%20b%25",
        "%C3%A9%7E",
    ]
    long = [path_segment(name) for name in ("x" * 200, "x" * 199 + "y", "é" * 100)]
    assert len(set(long)) == 3
    assert all(len(segment) <= 180 and segment.isascii() for segment in long)
