"""What it costs to know who calls, and to leave out what is hidden from them.

    python -m benchmarks security

A store of 10 M rows, served by an open host, and by one that speaks TLS, wants a JSON Web Token, and hides
rows by a condition on a column that is not the key (all rows meet it, so that both have the same to do). The
two are asked in turns by one client: rows by their keys, and a GROUP BY over all rows, whose answer is not
kept. And how long it takes to read a security file with 1,000 roles and 10,000 users.

Checked: rows and sums against a recomputation.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jwt
import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from pyarrow import flight

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, cpu_seconds, wait_until
from benchmarks.setting import Setting
from benchmarks.timing import median_wall, milliseconds, time_in_turns
from benchmarks.workload import BY_GENRE, KEYS, STORE, Expected, check, check_by_genre, fill_store
from engine.changelog import Changelog
from engine.errors import LivestateError
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.identity.credentials import new_session_key, read_credentials

LOOKUPS = 500
REPETITIONS = 15
ROLES, USERS = 1_000, 10_000
_DIGEST = "$argon2id$v=19$m=65536,t=3,p=4$bGl2ZXN0YXRlLW5vYm9keQ$usAosky3S3efjXM1W+F/xDXHtvY6dySTtTF8Qu+YI4g"


def run(setting: Setting) -> Iterator[Figure]:
    """Ratios, and the time to read a file."""
    changelog = str(setting.directory / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    secret = setting.subdirectory("secret")
    guarded = _guarded_options(secret)
    open_host, closed_host = setting.subdirectory("open"), setting.subdirectory("closed")
    options = ["--answers", "0"]
    with (
        HostProcess(open_host, changelog, options) as plain,
        HostProcess(closed_host, changelog, [*options, *guarded]) as known,
    ):
        plain.wait_until_settled()
        connection = ConnectionOptions.read(
            known.uri, token_file=secret / "token", tls_roots=secret / "host.pem"
        )
        with Client(connection) as client:
            wait_until(lambda: _has_all_rows(client, expected), 600.0)
        yield from _compare(plain, known, connection, expected, setting)
    yield _time_to_read(setting)


def _guarded_options(directory: Path) -> list[str]:
    """The options of a host that wants a token and hides rows; the token is in `directory`."""
    request = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-out", str(directory / "host.pem"), "-keyout", str(directory / "host.key")]
    subprocess.run(["openssl", *request.split(), *files], check=True, capture_output=True)
    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(key.public_key()))
    (directory / "keys.json").write_text(json.dumps({"keys": [{**public, "kid": "1"}]}))
    claims = {
        "iss": "i",
        "aud": "a",
        "sub": "ann",
        "exp": time.time() + 36_000,
        "roles": ["part"],
        "most": 50,
    }
    write_secret(directory / "token", jwt.encode(claims, key, "ES256", headers={"kid": "1"}).encode())
    (directory / "security.toml").write_text(
        '[security.jwt]\nissuer = "i"\naudience = "a"\nkeys = "keys.json"\nalgorithms = ["ES256"]\n'
        f'[roles.part]\nstores = ["{STORE}"]\nrows = "genre < claim(\'most\')"\n'
    )
    options = {"security": "security.toml", "tls-certificate": "host.pem", "tls-key": "host.key"}
    return [each for name, file in options.items() for each in (f"--{name}", str(directory / file))]


def _has_all_rows(client: Client, expected: Expected) -> bool:
    try:
        found = client.query(f"SELECT count(*) AS n FROM {STORE}").read_all()["n"].to_pylist()
    except LivestateError:
        return False
    return bool(found == [expected.keys])


def _compare(
    plain: HostProcess,
    known: HostProcess,
    connection: ConnectionOptions,
    expected: Expected,
    setting: Setting,
) -> Iterator[Figure]:
    random = np.random.default_rng(5)
    header = flight.FlightCallOptions(headers=[(b"authorization", connection.authorization)])
    with (
        flight.connect(plain.uri) as one,
        flight.connect(known.uri, tls_root_certs=connection.tls_roots) as other,
    ):
        asked = {"open": (one, None), "known": (other, header)}

        def look_up(name: str) -> None:
            client, options = asked[name]
            for number in random.integers(0, expected.keys, LOOKUPS).tolist():
                row = expected.row(number)
                ticket = flight.Ticket(f"SELECT * FROM {STORE} WHERE song_id = {row[0]}".encode())
                found = client.do_get(ticket, options).read_all()
                check("a row", tuple(found.to_pylist()[0].values()), row)

        def sum_up(name: str) -> None:
            client, options = asked[name]
            check_by_genre(client.do_get(flight.Ticket(BY_GENRE.encode()), options).read_all(), expected)

        for what, action, unit, target in (
            ("lookups by key", look_up, LOOKUPS, 1.25),
            ("a GROUP BY of all rows", sum_up, 1, 1.10),
        ):
            before = {host: cpu_seconds(host.pid) for host in (plain, known)}
            times = time_in_turns(
                {name: partial(action, name) for name in asked},
                REPETITIONS,
            )
            spent = {host: cpu_seconds(host.pid) - seconds for host, seconds in before.items()}
            walls = {name: median_wall(found) / unit for name, found in times.items()}
            yield Figure(
                "security",
                f"{what}, with TLS, a JSON Web Token and hidden rows",
                walls["known"] / walls["open"],
                "times an open host",
                target,
                more_is_better=False,
                note=f"{milliseconds(walls['known']):.3f} and {milliseconds(walls['open']):.3f} ms; "
                f"CPU of the host {spent[known] / spent[plain]:.2f} times",
                scale=setting.scale,
            )


def _time_to_read(setting: Setting) -> Figure:
    directory = setting.subdirectory("many")
    roles = [
        f'[roles.r{number}]\nstores = ["s{number}_*"]\nrows = "desk = claim(\'desk\')"\n'
        for number in range(ROLES)
    ]
    (directory / "security.toml").write_text('[security]\nusers = "users.toml"\n' + "".join(roles))
    users = [
        f'[[users]]\nname = "u{number}"\npassword = "{_DIGEST}"\nroles = ["r{number % ROLES}"]\n'
        for number in range(USERS)
    ]
    write_secret(directory / "users.toml", ("version = 1\n" + "".join(users)).encode())
    begun = time.perf_counter()
    credentials = read_credentials(directory / "security.toml", new_session_key())
    seconds = time.perf_counter() - begun
    check("users", (len(credentials.users), len(credentials.options.roles)), (USERS, ROLES))
    return Figure(
        "security",
        f"reading {ROLES:,} roles and {USERS:,} users",
        seconds,
        "s",
        1.0,
        more_is_better=False,
        scale=setting.scale,
    )
