"""What a security file may say, and the files of tokens and users that it names."""

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.access.claims import claim_of
from engine.access.principal import (
    ANYBODY,
    BUILT_IN_ROLES,
    Limit,
    LimitName,
    Permission,
    Principal,
    Proof,
)
from engine.access.scope import Grant
from engine.access.security_file import (
    JwtOptions,
    SecurityOptions,
    StaticToken,
    User,
    parse_security,
    parse_tokens,
    parse_users,
)
from engine.errors import Forbidden, InvalidInput
from flight_server.cli.credentials import add_token

WHOLE = """
version = 1
changelog = "x"

[security]
tokens = "tokens.toml"
users = "users.toml"
session_key = "session.key"
session_seconds = 60
peer_token = "peer.token"

[security.jwt]
issuer = "https://login.example.com/"
audience = "livestate"
keys = "https://login.example.com/keys.json"
algorithms = ["ES256"]

[security.certificates]
authorities = "callers.pem"

[[security.certificates.principals]]
subject = "host-a.example.com"
name = "a"
roles = ["peer"]
claims = { desk = "rates", level = 3, is_lead = true, teams = ["x", "y"] }
"""
DIGEST = "ab" * 32


def test_a_whole_file() -> None:
    options = parse_security(WHOLE)
    assert options is not None
    assert (options.tokens, options.users, options.session_seconds) == ("tokens.toml", "users.toml", 60)
    assert options.jwt == JwtOptions(
        "https://login.example.com/", "livestate", "https://login.example.com/keys.json", ("ES256",)
    )
    assert options.certificates is not None
    (known,) = options.certificates.principals
    assert (known.subject, known.name, set(known.roles)) == ("host-a.example.com", "a", {"peer"})
    assert known.claims == {"desk": "rates", "level": 3, "is_lead": True, "teams": ("x", "y")}


def test_a_file_without_the_tables_says_nothing() -> None:
    assert parse_security('version = 1\nchangelog = "x"') is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[security]\nusers =", "not TOML: look at end of document"),
        ("[security]\nusers = x y", "not TOML: look at line 2, column 9"),
        ("[security]", "names nothing by which callers could prove themselves"),
        ("security = 1", "is no table"),
        ('[security]\ntoken = "x"', "the field token, which is not known"),
        ("[security]\ntokens = 1", "must be a text in quotes"),
        ('[security]\ntokens = "x"\nsession_seconds = 0', "session_seconds below 1"),
        ('[security]\ntokens = "x"\nsession_seconds = true', "a whole number"),
        ('[security]\ntokens = "x"\npeer_key = "y"', "both peer_certificate and peer_key"),
        ("[security.jwt]", "lacks the field issuer"),
        (
            '[security.jwt]\nissuer="i"\naudience="a"\nkeys="k"\nalgorithms=["none"]',
            "'none'; known are RS256",
        ),
        ('[security.jwt]\nissuer="i"\naudience="a"\nkeys="k"\nalgorithms=[]', "at least one"),
        (
            '[security.jwt]\nissuer="i"\naudience="a"\nkeys="k"\nalgorithms=["RS256", "HS256"]',
            "passed off as the secret",
        ),
        ('[security.jwt]\nissuer="i"\naudience="a"\nkeys="http://k"', "use https://"),
        (
            '[security.jwt]\nissuer="i"\naudience="a"\nkeys="https://k"\nalgorithms=["HS256"]',
            "a secret from a file",
        ),
        ('[security.jwt]\nissuer="i"\naudience="a"\nkeys="k"\nalgorithms=[1]', "an array of texts"),
        ('[security.jwt]\nissuer="i"\naudience="a"\nkeys="k"\nleeway_seconds=-1', "leeway_seconds below 0"),
        (
            '[security.jwt]\nissuer="i"\naudience="a"\nkeys="k"\nleeway_seconds=100000000000000',
            "leeway_seconds above 86400",
        ),
        ('[security.certificates]\nauthorities="a"', "lacks the field principals"),
        (
            '[security.certificates]\nauthorities="a"\nprincipals=[{subject="s", name="n", roles=["king"]}]',
            "the role 'king'; there are reader, writer, operator, peer",
        ),
        (
            (
                '[security.certificates]\nauthorities="a"\nprincipals=[{subject="s", name="n", roles=[]}, '
                '{subject="s", name="m", roles=[]}]'
            ),
            "stands there twice: s",
        ),
    ],
)
def test_what_cannot_be_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words.replace("[", r"\[")):
        parse_security(text)


def test_roles_that_read_a_part_and_limits_of_roles() -> None:
    options = parse_security(
        """
        [security]
        tokens = "t"
        [roles.desk]
        stores = ["trades", "p_*"]
        columns = ["id"]
        rows = "desk = claim('desk')"
        max_statements = 2
        [roles.all_desks]
        stores = ["*"]
        max_statements = 5
        [roles.reader]
        max_statements = 9
        """
    )
    assert options is not None
    desk = Grant(("trades", "p_*"), ("id",), "desk = claim('desk')")
    assert options.roles == {"desk": desk, "all_desks": Grant(("*",))}
    assert options.grants(frozenset({"desk", "reader", "king"})) == (desk,)
    limits = {LimitName.STATEMENTS: Limit(5, "all_desks")}
    assert options.limits_of(frozenset({"desk", "all_desks", "king"})) == limits
    assert not options.limits_of(frozenset({"desk", "writer"}))
    assert not options.limits_of(frozenset())
    options.check_roles("It", frozenset({"desk", "peer"}))
    with pytest.raises(
        InvalidInput, match="It has the role 'king'; there are reader, writer, operator, peer, all"
    ):
        options.check_roles("It", frozenset({"desk", "king"}))


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ("roles = 1", "roles that are no tables"),
        ("[roles.x]", "The role x lacks the field stores"),
        ('[roles.x]\nstores = "a"', "an array of texts"),
        ("[roles.x]\nstores = [1]", "an array of texts"),
        ('[roles.x]\nstores = ["a"]\nmax_statements = 0', "max_statements below 1"),
        ('[roles.x]\nstores = ["a"]\nmax_engine_bytes = 16777215', "max_engine_bytes below 16777216"),
        ('[roles.x]\nstores = ["a"]\ngrant = 1', "the field grant, which is not known"),
        ('[roles.reader]\nstores = ["a"]', "which is built in, has the field stores"),
        ('[roles."a\\nb"]\nstores = ["a"]', "cannot be shown"),
    ],
)
def test_roles_that_cannot_be_are_refused(roles: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse_security(f"{roles}\n[security]\ntokens = 't'\n")


def test_tokens() -> None:
    text = f"""
    version = 1
    [[tokens]]
    sha256 = "{DIGEST}"
    name = "grafana"
    roles = ["reader"]
    expires = 2027-01-31T00:00:00Z
    """
    assert parse_tokens(text) == (
        StaticToken(DIGEST, "grafana", frozenset({"reader"}), datetime(2027, 1, 31, tzinfo=UTC)),
    )


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('sha256 = "AB"\nname = "n"\nroles = []', "64 hexadecimal digits"),
        (f'sha256 = "{DIGEST}"\nroles = []', "lacks the field name"),
        (f'sha256 = "{DIGEST}"\nname = "a\\nb"\nroles = []', "name that can be shown"),
        (f'sha256 = "{DIGEST}"\nname = "n"\nroles = []\nexpires = 2027-01-31T00:00:00', "without a zone"),
        (f'sha256 = "{DIGEST}"\nname = "n"\nroles = []\nexpires = 2027-01-31', "a time with its zone"),
        (f'sha256 = "{DIGEST}"\nname = "n"\nroles = []\nclaims = {{a = []}}\nsecret = "x"', "secret, which"),
        (f'sha256 = "{DIGEST}"\nname = "n"\nroles = []\nclaims = {{a = [1]}}', "the claim a"),
    ],
)
def test_tokens_that_cannot_be_are_refused(entry: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse_tokens(f"version = 1\n[[tokens]]\n{entry}\n")


@pytest.mark.parametrize("texts", [["x"] * 30_001, ["x" * 1000] * 600])
def test_claims_that_hosts_cannot_send_to_each_other_are_refused(texts: list[str]) -> None:
    entry = f'sha256 = "{DIGEST}"\nname = "n"\nroles = []\nclaims = {{ desks = {texts[:-1000]} }}'
    assert parse_tokens(f"version = 1\n[[tokens]]\n{entry}\n")
    with pytest.raises(InvalidInput, match="more than 30,000 texts or 524,288 bytes"):
        parse_tokens(f"version = 1\n[[tokens]]\n{entry.replace(str(texts[:-1000]), str(texts))}\n")


@pytest.mark.parametrize("text", ["", "version = 2", "version = true", "tokens = []"])
def test_a_file_of_another_format_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="must say version = 1"):
        parse_tokens(text)


def test_a_mistyped_secret_is_not_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_users('version = 1\n[[users]]\npassword = "$argon2id$secret\n')
    assert "secret" not in str(caught.value)


def test_users() -> None:
    text = """
    version = 1
    users = [{ name = "ann", password = "$argon2id$x", roles = ["reader", "operator"] }]
    """
    assert parse_users(text) == (User("ann", "$argon2id$x", frozenset({"reader", "operator"})),)
    assert "argon2id" not in repr(parse_users(text))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ('[{ name = "ann", password = "geheim", roles = [] }]', "no argon2 digest"),
        ('[{ name = "a:b", password = "$argon2id$x", roles = [] }]', "':' in its name"),
        (
            (
                '[{ name = "a", password = "$argon2id$x", roles = [] }, '
                '{ name = "a", password = "$argon2id$y", roles = [] }]'
            ),
            "twice: a",
        ),
        ("1", r"must have \[\[users\]\] tables"),
        ("[1]", "is no table"),
    ],
)
def test_users_that_cannot_be_are_refused(entries: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse_users(f"version = 1\nusers = {entries}\n")


def test_what_roles_let_a_principal_do() -> None:
    reader = Principal("ann", frozenset({"reader", "a role of tomorrow"}), Proof.TOKEN)
    reader.check(Permission.READ)
    for permission in (Permission.NOTIFY, Permission.OPERATE, Permission.PEER):
        with pytest.raises(Forbidden, match="ann may not"):
            reader.check(permission)
    with pytest.raises(Forbidden, match="that takes the role writer or operator or peer"):
        reader.check(Permission.NOTIFY)
    assert all(ANYBODY.may(permission) for permission in Permission)
    assert set().union(*BUILT_IN_ROLES.values()) == set(Permission)


@pytest.mark.parametrize("value", [None, {}, [1], b"x"])
def test_what_is_no_claim(value: object) -> None:
    assert claim_of(value) is None


def test_nothing_secret_is_in_what_options_print() -> None:
    assert "peer_token" in repr(SecurityOptions(tokens="t"))


def test_an_added_entry_leaves_the_file_what_it_is(tmp_path: Path) -> None:
    """Its group may be the host's, and its name that of a link into a mounted secret."""
    (tmp_path / "mounted").mkdir()
    kept = tmp_path / "mounted" / "tokens.toml"
    link = tmp_path / "tokens.toml"
    link.symlink_to(kept)
    add_token(link, "first", ["reader"], {}, None)
    assert (link.is_symlink(), stat.S_IMODE(kept.stat().st_mode)) == (True, 0o600)
    kept.chmod(0o640)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add_token(link, f"token {n}", ["reader"], {}, None), range(24)))
    assert (link.is_symlink(), stat.S_IMODE(kept.stat().st_mode)) == (True, 0o640)
    names = [token.name for token in parse_tokens(kept.read_text())]
    assert sorted(names) == sorted(["first", *(f"token {n}" for n in range(24))])
    assert sorted(each.name for each in kept.parent.iterdir()) == ["tokens.toml"]
