"""Texts that are nearly right: statements with words taken out, written twice, changed, and mixed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from random import Random

from sqlglot.tokens import Tokenizer

from tests.fuzz.grammar import ODDITIES, PARSED, PRODUCTIONS, UNCLOSED

STATEMENTS = (
    "SELECT k, a, b, s FROM t WHERE k = 7",
    "SELECT * FROM t WHERE k IN (1, 2, 3) AND s <> 's1' ORDER BY a DESC LIMIT 5 OFFSET 2",
    "SELECT a, count(*) AS n, sum(b) FROM t WHERE a BETWEEN 3 AND 9 GROUP BY a HAVING count(*) > 1 ORDER BY n",
    "SELECT t.k, u.s FROM t JOIN u ON t.k = u.k WHERE u.a < 10 AND t.b > 0.5",
    "WITH x AS (SELECT a, max(k) AS k FROM t GROUP BY ALL) SELECT x.a, u.s FROM x LEFT JOIN u USING (k)",
    "SELECT DISTINCT ON (a) a, k FROM t AS OF EPOCH 1 WHERE s LIKE 's1%' ORDER BY a, k",
    "SELECT k, row_number() OVER (PARTITION BY a ORDER BY k) AS r FROM u QUALIFY r <= 2",
    "SELECT CASE WHEN a > 5 THEN 'x' ELSE upper(s) END AS c, CAST(b AS DECIMAL(10, 2)) FROM u",
    "SELECT k FROM t WHERE k = ? UNION ALL SELECT k FROM u WHERE a = $1 EXCEPT SELECT 3",
    "SELECT [1, 2][1], {'a': 1}.a, list_transform([1, 2], lambda x: x + 1), s::BLOB FROM u",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y) WHERE x IN (SELECT k FROM u) AND NOT EXISTS (SELECT 1)",
    "SELECT date_trunc('day', now()), INTERVAL 1 DAY + DATE '2020-01-01', extract(year FROM current_date)",
    "EXPLAIN ANALYZE SELECT sum(a) FILTER (WHERE k > 3), mode() WITHIN GROUP (ORDER BY s) FROM t COLLATE NOCASE",
    "PIVOT u ON a USING sum(b) GROUP BY s",
    "SHOW STORES",
    (
        "SELECT t.table_name, current_user FROM information_schema.tables t JOIN information_schema.columns c "
        "USING (table_schema, table_name) WHERE user = 'x' AND c.ordinal_position < 3 GROUP BY ALL"
    ),
    "SELECT k, current_schema(), version() FROM t WHERE s IN (SELECT column_name FROM information_schema.columns)",
    "SHOW TABLES FROM main",
    "SHOW COLUMNS FROM t",
    "USE livestate.main",
    "SET timeout = '5'",
)
_MOST_CHARACTERS = 4000
_WORD = re.compile(r"\s+|\w+|'[^']*'|\"[^\"]*\"|.", re.DOTALL)


@cache
def _words() -> Sequence[str]:
    leaves = (made.pieces[0] for category in "vnt" for made in PARSED[category] if not made.holes)
    signs = re.findall(r"[^\s\w{}]+", str(PRODUCTIONS["e"]))
    return sorted({*leaves, *signs, *Tokenizer.KEYWORDS, *UNCLOSED, *ODDITIES})


def mutated_text(random: Random) -> tuple[str, str]:
    """A text, and how it was made."""
    words = _WORD.findall(random.choice(STATEMENTS))
    changes = random.choice((1, 1, 2, 3, 8, 30))
    for _ in range(changes):
        words = random.choice(_CHANGES)(words, random)
    return "".join(words)[:_MOST_CHARACTERS], f"a statement with {changes} changes"


def _drop_words(words: list[str], random: Random) -> list[str]:
    place = random.randrange(len(words) + 1)
    return words[:place] + words[place + random.choice((1, 1, 2, 5)) :]


def _repeat_words(words: list[str], random: Random) -> list[str]:
    place = random.randrange(len(words) + 1)
    taken = words[place : place + random.choice((1, 2, 4, 9))]
    return words[:place] + taken * random.choice((2, 2, 3, 40)) + words[place:]


def _swap_words(words: list[str], random: Random) -> list[str]:
    if words:
        one, other = random.randrange(len(words)), random.randrange(len(words))
        words[one], words[other] = words[other], words[one]
    return words


def _insert_word(words: list[str], random: Random) -> list[str]:
    place = random.randrange(len(words) + 1)
    return [*words[:place], " ", random.choice(_words()), " ", *words[place:]]


def _replace_word(words: list[str], random: Random) -> list[str]:
    if words:
        words[random.randrange(len(words))] = random.choice(_words())
    return words


def _mix_statements(words: list[str], random: Random) -> list[str]:
    other = _WORD.findall(random.choice(STATEMENTS))
    return words[: random.randrange(len(words) + 1)] + other[random.randrange(len(other)) :]


def _nest_statement(words: list[str], random: Random) -> list[str]:
    """The statement where one of its words was."""
    place = random.randrange(len(words) + 1)
    return [*words[:place], "(", *words, ")", *words[place + 1 :]]


def _damage_character(words: list[str], random: Random) -> list[str]:
    text = "".join(words)
    place = random.randrange(len(text) + 1)
    return _WORD.findall(
        text[:place]
        + chr(random.choice((0, 9, 34, 39, 40, 92, 127, 160, 0x2028, 0x1F3B5)))
        + text[place + 1 :]
    )


_CHANGES = (
    *(_drop_words, _repeat_words, _swap_words, _insert_word, _replace_word),
    *(_mix_statements, _nest_statement, _damage_character),
)
