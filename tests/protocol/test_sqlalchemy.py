"""SQLAlchemy over the real ADBC driver: reflection, statements, and the tools that stand on it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa
from adbc_driver_manager.dbapi import Connection
from pyarrow import flight
from sqlalchemy.dialects import postgresql

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from flight_server.cli.credentials import add_token, add_user
from flight_server.client.secret_files import write_secret
from flight_server.host.host import Host, HostOptions
from tests.protocol.conftest import SONGS, TYPED
from tests.support.certificate import Certificate
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

MAY = dt.datetime(2024, 5, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone


@pytest.fixture(scope="module")
def engine(host: Host) -> Iterator[sa.Engine]:
    engine = sa.create_engine(host.uri.replace("grpc://", "livestate://"))
    yield engine
    engine.dispose()


def test_stores_are_reflected_with_keys_and_types(engine: sa.Engine) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["main"]
    assert inspector.get_table_names() == ["Odd 100%_name", "big", "songs", "typed"]
    assert inspector.get_view_names() == []
    assert inspector.has_table("songs")
    assert not inspector.has_table("nothing")
    assert inspector.get_pk_constraint("songs") == {
        "constrained_columns": ["song_id"],
        "name": "songs_song_id_pkey",
    }
    columns = inspector.get_columns("typed", schema="main")
    assert [column["name"] for column in columns] == TYPED.names
    assert [column["nullable"] for column in columns] == [field.nullable for field in TYPED]
    assert not (inspector.get_foreign_keys("songs") or inspector.get_indexes("songs"))
    assert inspector.get_table_comment("songs") == {"text": None}
    for call in (inspector.get_columns, inspector.get_pk_constraint, inspector.get_foreign_keys):
        with pytest.raises(sa.exc.NoSuchTableError):
            call("nothing")
    metadata = sa.MetaData()
    metadata.reflect(engine)
    assert set(metadata.tables) == {"Odd 100%_name", "big", "songs", "typed"}
    typed = metadata.tables["typed"]
    assert {column.name: str(column.type) for column in typed.c} == {
        "id": "BIGINT",
        "tiny": "SMALLINT",
        "unsigned": "NUMERIC(20, 0)",
        "single": "REAL",
        "amount": "DECIMAL(12, 3)",
        "name": "VARCHAR",
        "raw": "BLOB",
        "flag": "BOOLEAN",
        "day": "DATE",
        "moment": "TIMESTAMP",
        "instant": "TIMESTAMP",
        "tags": "ARRAY",
        "counts": "MAP(VARCHAR, BIGINT)",
        "point": 'STRUCT("x" BIGINT, "y" VARCHAR)',
    }
    with engine.connect() as connection:
        row = connection.execute(sa.select(typed).where(typed.c.id == 1)).mappings().one()
    assert row["amount"] == Decimal("12345.678")
    assert row["day"] == dt.date(2024, 5, 17)
    assert row["unsigned"] == 2**63 + 1


def test_the_usual_statements_are_compiled(engine: sa.Engine) -> None:
    songs = sa.Table("songs", sa.MetaData(), autoload_with=engine)
    odd = sa.Table("Odd 100%_name", sa.MetaData(), autoload_with=engine)
    c = songs.c
    typed = sa.Table("typed", sa.MetaData(), autoload_with=engine)
    moment = typed.c.moment
    with engine.connect() as connection:

        def values(statement: Any) -> list[object]:
            return list(connection.execute(statement).scalars())

        assert values(sa.select(c.title).order_by(c.song_id).limit(1).offset(1)) == ["two"]
        assert values(sa.select(c.title).order_by(c.song_id).offset(2)) == ["three"]
        assert values(sa.select(c.title).where(c.song_id.in_([1, 3])).order_by(c.title)) == ["one", "three"]
        assert values(sa.select(c.title).where(c.song_id.in_([]))) == []
        assert values(sa.select(odd.c['va"lue']).where(odd.c["a key"] == "k")) == [1]
        assert values(sa.select(sa.cast(c.plays, sa.String)).where(c.song_id == 1)) == ["10"]
        assert values(sa.select(sa.cast(c.plays, sa.Float) / 3).where(c.song_id == 1)) == [10 / 3]
        assert values(sa.select(c.plays / 4).where(c.song_id == 1)) == [2.5]
        assert values(sa.select(c.plays // 4).where(c.song_id == 1)) == [2]
        assert values(sa.select(c.title + "!").where(c.title.ilike("TW%"))) == ["two!"]
        assert values(sa.select(c.song_id).where(c.title.regexp_match("^t.*e$"))) == [3]
        assert values(sa.select(c.song_id).where(c.title.regexp_match("^T.*E$", flags="i"))) == [3]
        assert values(sa.select(c.song_id).where(c.title.regexp_match("^T.*E$"))) == []
        assert values(sa.select(c.song_id.bitwise_xor(1)).order_by(c.song_id)) == [0, 3, 2]
        assert values(sa.select(typed.c.id).where(typed.c.raw == b"\x00\xff")) == [1]
        assert values(sa.select(sa.literal(b"a"))) == [b"a"]
        assert values(sa.select(c.song_id).where(~c.title.contains("o", autoescape=True))) == [3]
        assert values(sa.select(sa.func.date_trunc("month", moment)).where(typed.c.id == 1)) == [MAY]
        assert values(sa.select(sa.extract("hour", moment)).where(typed.c.id == 1)) == [12]
        assert values(sa.select(sa.case((c.plays > 15, "much"), else_="few")).order_by(c.song_id)) == [
            "few",
            "much",
            "much",
        ]
        ranked = sa.select(c.title, sa.func.row_number().over(order_by=c.plays.desc()).label("place"))
        best = ranked.cte("best")
        assert values(sa.select(best.c.title).where(best.c.place == 1)) == ["three"]
        assert values(sa.select(sa.func.count()).select_from(songs.join(odd, sa.true()))) == [3]
        assert values(sa.select(sa.literal(None).is_distinct_from(c.plays)).limit(1)) == [True]
        assert values(
            sa.union_all(sa.select(c.song_id), sa.select(c.plays)).order_by(sa.text("1")).limit(4)
        ) == [
            1,
            2,
            3,
            10,
        ]
        assert len(connection.execute(sa.text("EXPLAIN SELECT * FROM songs WHERE song_id = 1")).all()) > 1
        now = values(sa.select(sa.func.now()))[0]
        assert isinstance(now, dt.datetime)
        assert now.tzinfo is not None


def test_a_text_takes_a_list_that_may_be_empty(engine: sa.Engine) -> None:
    for column, values, expected in (
        ("song_id", [1, 3], 2),
        ("song_id", [], 0),
        ("title", ["two"], 1),
        ("title", [], 0),
        ("(song_id, title)", [(2, "two")], 1),
    ):
        sql = f"SELECT count(*) FROM songs WHERE {column} IN :values"
        statement = sa.text(sql).bindparams(sa.bindparam("values", values, expanding=True))
        with engine.connect() as connection:
            assert connection.execute(statement).scalar() == expected, (column, values)
            opposite = sa.text(sql.replace(" IN ", " NOT IN ")).bindparams(*statement._bindparams.values())
            assert connection.execute(opposite).scalar() == 3 - expected, (column, values)


def test_whole_numbers_keep_all_digits(engine: sa.Engine) -> None:
    typed = sa.Table("typed", sa.MetaData(), autoload_with=engine)
    large = 2**60 + 1
    with engine.connect() as connection:
        for left, right in ((large, 1), (7, 2), (-7, 2), (7, -2), (-7, -2), (-6, 2), (-(2**63), 3)):
            quotient = sa.literal(left, sa.BigInteger) // sa.literal(right, sa.BigInteger)
            assert connection.scalar(sa.select(quotient)) == left // right
        assert connection.scalar(sa.select(sa.literal(7.5) // 2)) == 3
        unsigned = sa.select(typed.c.id).where(typed.c.unsigned == 2**63 + 1)
        assert connection.scalars(unsigned).all() == [1]
        assert connection.scalars(sa.select(typed.c.id).where(typed.c.id < 2**64)).all() != []


def test_values_are_written_into_a_statement(engine: sa.Engine) -> None:
    """As Superset has them."""
    typed = sa.Table("typed", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:

        def answer(statement: Any) -> list[object]:
            text = str(statement.compile(engine, compile_kwargs={"literal_binds": True}))
            return list(connection.exec_driver_sql(text).scalars())

        row = connection.execute(sa.select(typed).where(typed.c.id == 1)).mappings().one()
        for name in ("unsigned", "single", "amount", "name", "raw", "flag", "day", "moment", "instant"):
            assert answer(sa.select(typed.c.id).where(typed.c[name] == row[name])) == [1], name
        for value in (b"", b"'", b"\\x41", b"\\", "é".encode(), bytes(range(256))):
            assert answer(sa.select(sa.literal(value))) == [value]
        for number in (math.inf, -math.inf, 5e-324, -0.0, Decimal("Infinity")):
            assert answer(sa.select(sa.cast(number, sa.Double))) == [number], number
        assert answer(sa.select(sa.func.isnan(sa.literal(math.nan)))) == [True]
        assert answer(sa.select(sa.literal(10**30 + 1) == Decimal("1E+30"))) == [False]


def test_time_spans_are_added_and_told(engine: sa.Engine) -> None:
    typed = sa.Table("typed", sa.MetaData(), autoload_with=engine)
    moment = typed.c.moment
    spans = (
        dt.timedelta(0),
        dt.timedelta(hours=-1),
        dt.timedelta(days=400, microseconds=1),
        dt.timedelta(days=-3, seconds=5, microseconds=7),
    )
    with engine.connect() as connection:
        (first,) = connection.scalars(sa.select(moment).where(typed.c.id == 1))
        for span in spans:
            (row,) = connection.execute(
                sa.select(moment + span, moment - span, sa.literal(span), moment + span - moment).where(
                    typed.c.id == 1
                )
            )
            assert tuple(row) == (first + span, first - span, span, span)
        past = sa.select(typed.c.id).where(moment < sa.func.localtimestamp() - dt.timedelta(hours=1))
        assert 1 in connection.scalars(past).all()
        assert connection.scalar(sa.select(sa.literal(None, sa.Interval))) is None
        with pytest.raises(ValueError, match="months differ: cast it to VARCHAR"):
            connection.scalar(sa.text("SELECT INTERVAL 1 MONTH AS span").columns(span=sa.Interval))


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")
def test_distinct_of_some_columns(engine: sa.Engine) -> None:
    big = sa.Table("big", sa.MetaData(), autoload_with=engine)
    parity = big.c.id % 2
    with engine.connect() as connection:
        firsts = sa.select(big.c.id).distinct(parity).order_by(parity, big.c.id)
        assert connection.scalars(firsts).all() == [0, 1]
        if hasattr(postgresql, "distinct_on"):
            firsts = sa.select(big.c.id).ext(postgresql.distinct_on(parity)).order_by(parity, big.c.id)
            assert connection.scalars(firsts).all() == [0, 1]
        assert connection.scalars(sa.select(parity).distinct().order_by(parity)).all() == [0, 1]


def test_what_would_write_is_refused(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    songs = sa.Table("songs", metadata, autoload_with=engine)
    with engine.connect() as connection:
        for statement in (
            sa.insert(songs).values(song_id=4),
            sa.update(songs).values(plays=1),
            sa.delete(songs),
            sa.schema.CreateTable(songs),
            sa.schema.DropTable(songs),
        ):
            with pytest.raises(sa.exc.CompileError, match="livestate answers queries alone"):
                connection.execute(statement)
        with pytest.raises(sa.exc.CompileError, match="locks no rows"):
            connection.execute(sa.select(songs).with_for_update())
        with pytest.raises(sa.exc.DatabaseError, match="INSERT is not supported: statements only read"):
            connection.execute(sa.text("INSERT INTO songs VALUES (4, 'four', 4)"))
        with pytest.raises(sa.exc.DatabaseError, match="There is no store nothing"):
            connection.execute(sa.text("SELECT * FROM nothing")).all()
        connection.commit()
        connection.rollback()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("livestate://localhost?tlss=true", "has no option 'tlss'; there are tls, token_file,"),
        ("livestate://localhost?tls=maybe", "is true or false"),
        ("livestate://", "names a host"),
        ("livestate://localhost/other", "There is no database 'other'"),
        ("livestate://localhost?token_file=/nowhere", "token file cannot be read"),
        ("livestate://ann@localhost", "a user, without ':' in its name, and a password"),
    ],
)
def test_a_wrong_url_is_told(url: str, message: str) -> None:
    with pytest.raises(sa.exc.ArgumentError, match=message):
        sa.create_engine(url).connect()


def test_options_of_the_url_reach_the_host(host: Host) -> None:
    place = host.uri.removeprefix("grpc://")
    engine = sa.create_engine(f"livestate://{place}/main?dialect=spark&timeout=50", pool_pre_ping=True)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT `title` FROM `songs` WHERE `song_id` = 2")).all() == [
            ("two",)
        ]
    engine.dispose()


def test_pandas_reads_tables_and_statements(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        table = pd.read_sql_table("songs", connection, index_col="song_id")
        assert table.sort_index()["title"].to_list() == ["one", "two", "three"]
        some = pd.read_sql_table("typed", connection, columns=["id", "amount", "instant"])
        assert sorted(some["id"]) == [1, 2]
        sql = sa.text("SELECT title FROM songs WHERE plays > :least AND title LIKE :pattern ORDER BY 1")
        found = pd.read_sql(sql, connection, params={"least": 10, "pattern": "t%"})
        assert found["title"].to_list() == ["three", "two"]
        pieces = pd.read_sql("SELECT id FROM big ORDER BY id", connection, chunksize=150_000)
        assert [len(piece) for piece in pieces] == [150_000, 50_000]


def test_polars_reads_by_both(engine: sa.Engine, adbc: Connection) -> None:
    sql = "SELECT song_id, title FROM songs ORDER BY song_id"
    for source in (engine.connect(), adbc):
        assert pl.read_database(sql, source).rows() == [(1, "one"), (2, "two"), (3, "three")]
        source.close()


def test_a_host_with_tls_lets_in_who_has_a_token_or_a_password(
    tmp_path: Path, certificate: Certificate
) -> None:
    store = define_store("songs", SONGS.schema, ["song_id"], partitions=1)
    append_table(Changelog.open(str(tmp_path / "changelog")), store, SONGS)
    token = add_token(tmp_path / "tokens.toml", "robot", ["reader"], {}, None)
    write_secret(tmp_path / "token", token.encode())
    add_user(tmp_path / "users.toml", "ann", "a long password", ["reader"], {})
    security = tmp_path / "security.toml"
    security.write_text('[security]\nusers = "users.toml"\ntokens = "tokens.toml"\n')
    options = HostOptions(
        str(tmp_path / "changelog"),
        tmp_path / "data",
        port=0,
        security=security,
        tls_certificate=certificate.chain,
        tls_key=certificate.key,
    )
    with start_host(options) as host:
        place = host.uri.partition("://")[2]
        roots = f"tls_roots={certificate.chain_file}"
        for url, user in (
            (f"livestate://{place}?{roots}&token_file={tmp_path / 'token'}", "robot"),
            (f"livestate://ann:a%20long%20password@{place}?tls=true&{roots}", "ann"),
        ):
            engine = sa.create_engine(url)
            with engine.connect() as connection:
                assert connection.execute(sa.text("SELECT current_user")).scalar() == user
            engine.dispose()
        with pytest.raises(sa.exc.DatabaseError, match="token"):
            sa.create_engine(f"livestate://{place}?{roots}").connect()


def test_a_connection_whose_log_in_has_ended_is_replaced(tmp_path: Path) -> None:
    store = define_store("songs", SONGS.schema, ["song_id"], partitions=1)
    append_table(Changelog.open(str(tmp_path / "changelog")), store, SONGS)
    add_user(tmp_path / "users.toml", "ann", "a long password", ["reader"], {})
    security = tmp_path / "security.toml"
    security.write_text('[security]\nusers = "users.toml"\nsession_seconds = 3\n')
    options = HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0, security=security)

    def user_of(engine: sa.Engine) -> object:
        with engine.connect() as connection:
            return connection.execute(sa.text("SELECT current_user")).scalar()

    with start_host(options) as host:
        url = host.uri.replace("grpc://", "livestate://ann:a%20long%20password@")
        pinged, plain = sa.create_engine(url, pool_pre_ping=True), sa.create_engine(url)
        assert user_of(pinged) == user_of(plain) == "ann"

        with flight.connect(host.uri) as later:
            log_in = later.authenticate_basic_token("ann", "a long password")

            def has_ended() -> bool:
                options = flight.FlightCallOptions(headers=[log_in])
                try:
                    later.do_get(flight.Ticket("SELECT 1"), options).read_all()
                except flight.FlightUnauthenticatedError:
                    return True
                return False

            # The driver fails where a log-in ends between a statement and its end, so none runs meanwhile.
            wait_until(has_ended, pause_seconds=0.1)
        with pytest.raises(sa.exc.DBAPIError, match="The log-in has ended") as caught:
            user_of(plain)
        assert caught.value.connection_invalidated
        assert user_of(plain) == "ann"
        assert user_of(pinged) == "ann"
        for engine in (pinged, plain):
            engine.dispose()
