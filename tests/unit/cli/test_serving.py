"""What `livestate serve` makes of its options, and several processes under one parent."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table, open_appender
from engine.cluster.deployment import Deployment, HostEntry, parse_deployment
from engine.cluster.reports import HostName
from engine.errors import InvalidInput, LivestateError, Unavailable
from engine.model.schema import define_store
from flight_server.cli.store_tables import number_ranges
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from flight_server.host.launcher import Launcher, host_command
from flight_server.host.ports import free_ports
from flight_server.host.process import SERVES
from flight_server.host.serving import ServeArguments, deployment_text, host_options, local_deployment
from flight_server.host.stop_signals import is_stop
from tests.support.decoys import decoy_modules
from tests.support.following import define
from tests.support.process_family import ENDS, family, runs
from tests.support.waiting import wait_until, wait_until_served
from tests.unit.cli.conftest import livestate
from tests.unit.cli.test_prompt import ENDLESS

DEPLOYMENT = """
version = 1
changelog = "/var/changelog"
replication = 2
[[hosts]]
name = "a"
uri = "grpc://127.0.0.1:7001"
data = "/var/a"
[[hosts]]
name = "b"
uri = "grpc://localhost:7002"
[[hosts]]
name = "c"
uri = "grpc+tls://127.0.0.1:7003"
data = "/var/c"
"""


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    file = tmp_path / "livestate.toml"
    file.write_text(DEPLOYMENT)
    return file


def test_a_host_of_a_deployment_takes_what_the_file_says(deployment: Path) -> None:
    options = host_options(ServeArguments(deployment=deployment, host="a"))
    assert (options.changelog, options.data, options.address, options.port) == (
        "/var/changelog",
        Path("/var/a"),
        "127.0.0.1",
        7001,
    )
    assert (options.name, options.deployment) == ("a", parse_deployment(DEPLOYMENT))


def test_the_command_line_wins_over_the_file(deployment: Path) -> None:
    options = host_options(
        ServeArguments(
            deployment=deployment, host="a", data=Path("d"), address="10.0.0.1", port=1, memory=5, threads=3
        )
    )
    assert (options.data, options.address, options.port) == (Path("d"), "10.0.0.1", 1)
    assert (options.queries.memory_limit_bytes, options.queries.threads) == (5, 3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "--changelog and its --data"),
        ({"changelog": "x"}, "--changelog and its --data"),
        ({"changelog": "x", "data": Path("y"), "host": "0.0.0.0"}, "--address"),
        ({"changelog": "x", "data": Path("y"), "replication": 2}, "leave --replication out"),
        ({"deployment": True, "host": "a", "replication": 2}, "leave --replication out"),
        ({"changelog": "x", "data": Path("y"), "audit_digests": True}, "no audit log without --audit-log"),
        ({"deployment": True}, "--host"),
        ({"deployment": True, "host": "z"}, "no host z"),
        ({"deployment": True, "host": "a", "changelog": "x"}, "leave --changelog out"),
        ({"deployment": True, "host": "b"}, "data directory for host b"),
        ({"deployment": True, "host": "c"}, "grpc\\+tls"),
        ({"deployment": True, "host": "a", "tls_certificate": Path("x"), "tls_key": Path("x")}, "grpc\\+tls"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    deployment: Path, given: dict[str, Any], words: str
) -> None:
    if "deployment" in given:
        given = {**given, "deployment": deployment}
    with pytest.raises(InvalidInput, match=words):
        host_options(ServeArguments(**given))


def test_what_others_dial_can_be_dialled(tmp_path: Path) -> None:
    file = tmp_path / "livestate.toml"
    hosts = (
        HostEntry(HostName("a"), "grpc://0.0.0.0:7001", "/a"),
        HostEntry(HostName("b"), "grpc://b:7002", "/b"),
    )
    file.write_text(deployment_text(Deployment("c", hosts)))
    with pytest.raises(
        InvalidInput, match=r"uri of host a .* nobody can dial 0\.0\.0\.0: .* --address 0\.0\.0\.0"
    ):
        host_options(ServeArguments(deployment=file, host="b"))
    # Without others nobody dials it.
    file.write_text(deployment_text(Deployment("c", hosts[:1])))
    assert host_options(ServeArguments(deployment=file, host="a")).address == "0.0.0.0"
    for given in (ServeArguments(deployment=file, host="a"), ServeArguments(changelog="c", data=tmp_path)):
        with pytest.raises(InvalidInput, match="leave --advertise out"):
            host_options(replace(given, advertise="a"))


def test_probes_are_answered_where_one_says(tmp_path: Path) -> None:
    given = ServeArguments(changelog="c", data=tmp_path)
    assert host_options(given).http is None
    assert host_options(replace(given, http_address="[::1]:0")).http == ("::1", 0)
    for text in ("", "9464", ":9464", "host", "host:99999", "http://host:1", "host:1/x", "a@host:1"):
        with pytest.raises(InvalidInput, match="--http-address"):
            host_options(replace(given, http_address=text))


def test_a_file_that_cannot_be_read_is_told_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"version = 1 # \xe9")
    for file, words in ((tmp_path / "none", "cannot be read"), (tmp_path / "latin", "UTF-8")):
        with pytest.raises(InvalidInput, match=words) as caught:
            host_options(ServeArguments(deployment=file, host="a"))
        assert str(tmp_path) not in caught.value.message


def test_processes_are_a_deployment_of_their_own(tmp_path: Path) -> None:
    made = local_deployment(
        ServeArguments(changelog="c", data=tmp_path, processes=3, port=7100, replication=2)
    )
    assert [entry.uri for entry in made.hosts] == [
        "grpc://127.0.0.1:7100",
        "grpc://127.0.0.1:7101",
        "grpc://127.0.0.1:7102",
    ]
    assert [entry.data for entry in made.hosts] == [str(tmp_path / f"host-{number}") for number in (1, 2, 3)]
    assert parse_deployment(deployment_text(made)) == made
    everywhere = local_deployment(
        ServeArguments(changelog="c", data=tmp_path, processes=1, address="::", port=5)
    )
    assert everywhere.hosts[0].uri == "grpc://127.0.0.1:5"
    reached = local_deployment(
        ServeArguments(
            changelog="c",
            data=tmp_path,
            processes=2,
            address="0.0.0.0",
            advertise="db1.example",
            port=5,
            tls_certificate=tmp_path,
        )
    )
    assert [entry.uri for entry in reached.hosts] == [f"grpc+tls://db1.example:{port}" for port in (5, 6)]
    mapped = ServeArguments(changelog="c", data=tmp_path, processes=2, advertise="[fe::1]:700", port=5)
    assert [entry.uri for entry in local_deployment(mapped).hosts] == [
        "grpc://[fe::1]:700",
        "grpc://[fe::1]:701",
    ]
    two = {"processes": 2, "changelog": "c", "data": tmp_path}
    for given, words in (
        ({**two, "address": "0.0.0.0"}, "--advertise"),
        ({**two, "address": "::"}, "--advertise"),
        ({**two, "advertise": "0.0.0.0:8815"}, "--advertise"),
        ({**two, "advertise": "grpc://x:1"}, "--advertise is"),
        ({**two, "advertise": "x:0"}, "from 1 to 65535"),
        ({**two, "http_address": "127.0.0.1"}, "must have a port"),
        ({"processes": 2}, "--changelog"),
        ({"processes": 2, "changelog": "c", "data": tmp_path, "host": "a"}, "leave"),
        ({"processes": 2, "changelog": "c", "data": tmp_path, "replication": 3}, "--replication"),
    ):
        with pytest.raises(InvalidInput, match=words):
            local_deployment(ServeArguments(**given))


def test_a_deployment_with_odd_names_survives_as_text() -> None:
    odd = Deployment(
        'c"\\\n\x7fé🎵',
        (HostEntry(HostName('a "b" \\é🎵'), "grpc://x:1", "/d\t"), HostEntry(HostName("b"), "grpc://x:2")),
        2,
    )
    assert parse_deployment(deployment_text(odd)) == odd


def test_processes_whose_options_contradict_each_other_are_refused_before_they_start() -> None:
    given = ServeArguments(changelog="c", data=Path("d"), processes=2)
    with pytest.raises(InvalidInput, match="no audit log without --audit-log"):
        local_deployment(replace(given, audit_digests=True))
    with pytest.raises(InvalidInput, match="not 2 ports from 65535 on: give a --port of 65534 or less"):
        local_deployment(replace(given, port=65_535))
    assert local_deployment(replace(given, port=65_534)).hosts[1].uri.endswith(":65535")


def test_a_process_is_told_what_its_parent_was_told(tmp_path: Path) -> None:
    given = ServeArguments(
        changelog="c",
        data=tmp_path,
        processes=2,
        memory=5,
        token="secret",
        open_to_all=True,
        address="0.0.0.0",
        advertise="db1.example",
        grace=7.0,
        http_address="127.0.0.1:9464",
    )
    command = host_command(tmp_path / "f.toml", local_deployment(given).hosts[1], given)
    text = " ".join(command)
    assert "--host 2" in text
    assert "--memory 5" in text
    assert "--address 0.0.0.0" in text
    assert "--grace 7" in text
    assert "--http-address 127.0.0.1:9465" in text
    assert "--open-to-all" in text
    assert "secret" not in text


def test_ports_in_a_row() -> None:
    first = free_ports("127.0.0.1", 0, 3)
    assert list(first) == [first[0], first[0] + 1, first[0] + 2]
    assert free_ports("127.0.0.1", 65535, 2)[0] < 65535, "there is no port behind the last one"


def test_numbers_are_shown_as_ranges() -> None:
    assert number_ranges([]) == "none"
    assert number_ranges([0, 1, 2, 4, 7, 8]) == "0-2, 4, 7-8"


ROWS = pa.table({"song_id": pa.array(range(1000), pa.int64()), "plays": pa.array([1] * 1000, pa.int64())})


@contextmanager
def processes(directory: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The parent of some hosts, or a single host, and their addresses, once all of them serve.

    It runs where files have the names of modules. As the installed script does, it does not look there
    itself.
    """
    place = ["--changelog", str(directory / "changelog"), "--data", str(directory / "data"), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "flight_server.cli.main", "serve", *place, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=decoy_modules(directory / "decoys"),
        start_new_session=True,
    ) as parent:
        try:
            yield parent, re.findall(r"grpc://[\d.:]+", heard(parent, "livestate serves"))
        finally:
            parent.kill()


def heard(parent: subprocess.Popen[str], words: str) -> str:
    """The first line that begins with these words."""
    assert parent.stdout is not None
    said = []
    while line := parent.stdout.readline():
        said.append(line)
        if line.startswith(words):
            return line
    raise AssertionError("".join(said))


def test_three_processes_serve_restart_and_stop(tmp_path: Path) -> None:
    append_table(
        Changelog.open(str(tmp_path / "changelog")),
        define_store("songs", ROWS.schema, ["song_id"], partitions=8),
        ROWS,
    )
    with processes(tmp_path, "--processes", "3") as (parent, uris):
        assert len(uris) == 3
        with Client(uris[0]) as client, Client(uris[2]) as other:
            wait_until(lambda: all_alive(client) and held(client) == list(range(8)) == held(other))
        shown = livestate("hosts", "--uri", uris[0])
        assert [line.split()[2:4] for line in shown.stdout.splitlines()[2:]] == [["yes", "songs"]] * 3
        replicas = livestate("stores", "--uri", uris[2])
        # Below the second table may stand what a host still builds.
        kinds, places = (
            [line.split() for line in table.splitlines()] for table in replicas.stdout.split("\n\n", 1)
        )
        defined, _, what = kinds
        heading, _, first, second, third, *_ = places
        assert (defined[:3], heading[:4]) == (
            ["store", "kind", "key"],
            ["store", "group", "host", "partitions"],
        )
        assert what == ["songs", "key-value", "song_id", "song_id", "for", "ever"]
        assert [line[:2] for line in (first, second, third)] == [["songs", "songs"]] * 3
        killed = host_process(parent.pid, "2")
        os.kill(killed, signal.SIGKILL)
        assert "signal SIGKILL" in heard(parent, "Host 2 ended unexpectedly")
        heard(parent, "host 2 | livestate serves")
        with Client(uris[0]) as client:
            wait_until(lambda: all_alive(client) and held(client) == list(range(8)))
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(60) == 0
    for uri in uris:
        with Client(uri) as client, pytest.raises(Unavailable):
            client.health()


def all_alive(client: Client) -> bool:
    return all(row["alive"] for row in client.hosts().to_pylist())


def held(client: Client) -> list[int]:
    return sorted(number for row in client.replicas().to_pylist() for number in row["partitions"])


def host_process(parent: int, name: str) -> int:
    """The process of a host."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for child in children:
        if f"--host\0{name}\0" in Path(f"/proc/{child}/cmdline").read_text():
            return int(child)
    raise AssertionError(children)


def test_a_second_interrupt_of_several_hosts_waits_for_nothing_that_runs(tmp_path: Path) -> None:
    append_table(
        Changelog.open(str(tmp_path / "changelog")),
        define_store("songs", ROWS.schema, ["song_id"], partitions=2),
        ROWS,
    )
    with (
        ExitStack() as open_here,
        processes(tmp_path, "--processes", "2", "--grace", "100") as (parent, uris),
    ):
        pool = open_here.enter_context(ThreadPoolExecutor(2))
        clients = [open_here.enter_context(Client(uri)) for uri in uris]
        wait_until(lambda: all_alive(clients[0]) and held(clients[0]) == [0, 1])
        asked = [pool.submit(client.query, ENDLESS) for client in clients]
        wait_until(lambda: all(client.health()["running"] == 1 for client in clients))
        parent.send_signal(signal.SIGINT)
        wait_until(lambda: not any(client.health()["ready"] for client in clients))
        assert [client.health()["running"] for client in clients] == [1, 1]
        parent.send_signal(signal.SIGINT)
        said, _ = parent.communicate(timeout=60)
        for each in asked:
            with pytest.raises(LivestateError):
                each.result(60)
    assert parent.returncode == 0
    assert "Traceback" not in said


def test_processes_do_not_outlive_their_parent(tmp_path: Path) -> None:
    append_table(
        Changelog.open(str(tmp_path / "changelog")),
        define_store("songs", ROWS.schema, ["song_id"], partitions=2),
        ROWS,
    )
    with processes(tmp_path, "--processes", "2") as (parent, _):
        children = [host_process(parent.pid, name) for name in ("1", "2")]
        parent.kill()
        parent.wait(60)
        wait_until(lambda: not any(runs(child) for child in children))


@pytest.mark.parametrize(
    ("end", "arguments"),
    [
        # One that is alone is all of its group and all of its family.
        *(pytest.param(end, [], id=f"{end}-alone") for end in ("group SIGTERM", "group SIGINT")),
        *(pytest.param(end, ["--processes", "2"], id=f"{end}-processes") for end in ENDS),
    ],
)
def test_who_ends_all_processes_at_once_hears_nothing(tmp_path: Path, end: str, arguments: list[str]) -> None:
    give, number = ENDS[end]
    with processes(tmp_path, "--log-level", "warning", *arguments) as (parent, _):
        members = family(parent.pid)
        assert len(members) == 1 + len(arguments)
        give(parent.pid, number)
        said, _ = parent.communicate(timeout=60)
        assert (parent.returncode, said) == (0, "")
    assert not any(runs(member) for member in members)


def test_a_host_and_its_workers_do_without_pandas(tmp_path: Path) -> None:
    """Arrow imports it where it is there, with the first value that it converts."""
    append_table(
        Changelog.open(str(tmp_path / "changelog")), define_store("songs", ROWS.schema, ["song_id"]), ROWS
    )
    with processes(tmp_path) as (parent, (uri,)), Client(uri) as client:
        wait_until_served(
            lambda: client.query("SELECT sum(plays) AS n FROM songs").read_all().to_pylist() == [{"n": 1000}]
        )
        repeated = client.query("SELECT repeat('a', song_id % 3) AS r FROM songs WHERE song_id = $1", [5])
        assert repeated.read_all().to_pylist() == [{"r": "aa"}]
        host, worker = family(parent.pid)
        for process in (host, worker):
            mapped = Path(f"/proc/{process}/maps").read_text()
            assert ("pyarrow" in mapped, "pandas" in mapped) == (True, False)


def test_a_host_that_cannot_start_ends_all(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "host-2").write_text("in the way")
    failed = livestate(
        "serve",
        "--changelog",
        tmp_path / "changelog",
        "--data",
        tmp_path / "data",
        "--port",
        "0",
        "--processes",
        "2",
    )
    assert failed.exit_code == 1
    assert "host 2 | Error: The data directory cannot be used" in failed.stdout
    assert "Host 2 could not start" in failed.stderr


def test_kept_answers_take_a_part_of_the_memory_or_none(tmp_path: Path) -> None:
    given = ServeArguments(changelog="file:///c", data=tmp_path, memory=64 << 20)
    assert host_options(given).queries.kept_answer_bytes == 2 << 20
    assert host_options(replace(given, answers=0)).queries.kept_answer_bytes == 0
    deployment = local_deployment(replace(given, processes=2, port=7001))
    command = host_command(tmp_path / "f", deployment.hosts[0], replace(given, processes=2, answers=5))
    assert command[command.index("--answers") + 1] == "5"


def test_spilling_is_limited_or_off(tmp_path: Path) -> None:
    given = ServeArguments(changelog="file:///c", data=tmp_path)
    assert host_options(given).queries.spill_limit_bytes == 8 << 30
    assert host_options(replace(given, spill=0)).queries.spill_limit_bytes == 0
    deployment = local_deployment(replace(given, processes=2, port=7001))
    command = host_command(tmp_path / "f", deployment.hosts[0], replace(given, processes=2, spill=5))
    assert command[command.index("--spill") + 1] == "5"
    refused = livestate("serve", "--spill", "much")
    assert refused.exit_code == 2
    assert "is not a size" in refused.stderr
    assert "is not a size" not in livestate("serve", "--spill", "0").stderr
    assert "is not a size" in livestate("serve", "--memory", "0").stderr


def test_a_host_without_a_parent_to_listen_to_ends() -> None:
    """An input that cannot be read at all is no reason to run for ever."""
    program = (
        "import os, time\nfrom flight_server.host.process import "
        "stop_with_standard_input\nos.close(0)\nstop_with_standard_input()\ntime.sleep(600)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGTERM


def test_what_a_host_says_is_taken_though_nobody_listens() -> None:
    """Its pipe would be full in the end, and it would stand still in the middle of a line."""
    deployment = Deployment("nowhere", (HostEntry(HostName("1"), "grpc://127.0.0.1:1", None),))
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        raise BrokenPipeError

    launcher = Launcher(deployment, lambda entry: [], {}, say)
    (child,) = launcher._children
    launcher._pass_on(child, BytesIO(f"one\n{SERVES} it\nthree\n".encode()))
    assert said == [f"host 1 | {line}" for line in ("one", f"{SERVES} it", "three")]
    assert child.served.is_set()


@pytest.mark.parametrize("arguments", [[], ["--processes", "2"]], ids=["alone", "processes"])
def test_hosts_whose_log_is_on_a_full_disk_serve_and_restart(tmp_path: Path, arguments: list[str]) -> None:
    place = ["--changelog", str(tmp_path / "changelog"), "--data", str(tmp_path / "data")]
    port, _ = free_ports("127.0.0.1", 0, 2)
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "flight_server.cli.main",
                "serve",
                *place,
                "--port",
                str(port),
                *arguments,
            ],
            stdout=full,
            stderr=full,
        ) as parent,
        Client(f"127.0.0.1:{port}") as client,
    ):
        try:
            wait_until_served(lambda: bool(client.health()))
            if arguments:
                wait_until_served(lambda: all_alive(client))
                os.kill(host_process(parent.pid, "2"), signal.SIGKILL)
                wait_until(lambda: not all_alive(client))
                wait_until(lambda: all_alive(client))
            parent.send_signal(signal.SIGTERM)
            assert parent.wait(60) == 0
        finally:
            parent.kill()


def test_a_closed_terminal_ends_a_host_that_nobody_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_stop(signal.SIGTERM, has_files=True)
    assert not is_stop(signal.SIGHUP, has_files=True)
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_DFL)
    assert is_stop(signal.SIGHUP, has_files=False)
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)
    assert not is_stop(signal.SIGHUP, has_files=False)


THREAD_OPTIONS = ("--threads", "--apply-threads", "--compaction-threads")


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        *((option, "1000000", "is not in the range 1<=x<=1024") for option in THREAD_OPTIONS),
        ("--max-statements", "1000000", "is not in the range 1<=x<=4096"),
        ("--memory", "9" * 24, "is more than a machine has"),
        ("--memory", "1", "is too little: give at least 16MiB"),
        ("--memory", "16MB", "is too little: give at least 16MiB"),
        ("--spill", "1025TiB", "is more than a machine has"),
        ("--max-lag", "1e400", "is no number of seconds"),
        ("--data", "", "The name of the directory is empty"),
        ("--address", "127.0.0.1:8816", "has a port: give it as --port 8816"),
        ("--address", "[::1]:8816", "has a port: give it as --port 8816"),
    ],
)
def test_what_no_host_can_be_given_is_refused(option: str, value: str, sentence: str) -> None:
    refused = livestate("serve", "--changelog", "memory://", option, value)
    assert refused.exit_code == 2
    assert sentence in refused.stderr


@pytest.mark.parametrize("place", ["", "groups/data", "new"])
def test_a_data_directory_in_a_changelog_is_refused(place: str, tmp_path: Path) -> None:
    """What hosts have is deleted now and then."""
    open_appender(Changelog.open(str(tmp_path)), [define("accounts")])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput, match="is a changelog, or within one"):
        Host(HostOptions(str(tmp_path), tmp_path / place)).start()
    assert sorted(tmp_path.rglob("*")) == before
