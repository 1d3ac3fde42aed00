"""Which texts, quoted names and comments a dialect has; all of it is taken from sqlglot's tokenizer of the
dialect, so that what is looked for in a text before it is parsed is where the parser sees it.

DuckDB's dialect has patterns of its own, where they are used: it is read most often, and by DuckDB, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from engine.sql.lexer import DOLLAR_MARK, NO_WIDTH, dollar_end

_RAW = frozenset({TokenType.RAW_STRING, TokenType.NATIONAL_RAW_STRING})
_ANY_DOLLAR_MARK = r"\$[^$\\]*+(?:\\.[^$\\]*+)*+(?:\$|\\?\Z)"
"""How a text between dollars begins where anything may be between the first two."""
_MOST_PLAIN = 256
"""Words and signs that are matched at once."""


@dataclass(frozen=True, eq=False)
class DialectLexer:
    """What a text of a dialect has that is read as a whole before it is parsed.

    Patterns are to be compiled with `re.DOTALL`, and to be searched for on from the end of what was found
    before: where a word begins tells whether `e'` in it begins a text.

    Attributes:
        special: Matches what only looks like a comment or a text (`sign`), comments to the end of their
            line (`line_comment`), texts (`string`), quoted names (`quoted`), and how other texts and comments
            begin (`opening`), of which `end` tells the end. What is not closed reaches to the text's end.
        word: Matches a word that nothing special begins with.
        plain: Matches words, blanks and signs that are none of these, some hundred at once: `plain`.
        signs: The characters that are tokens by themselves and begin nothing special.
        has_dollar_marks: Whether texts stand between dollars with a name in them, and parameters begin with
            one.
    """

    special: str
    word: str
    plain: str
    signs: frozenset[str]
    has_dollar_marks: bool
    _comments: Mapping[str, tuple[str, bool]]
    _ends: Mapping[str, re.Pattern[str]]
    _blanks: re.Pattern[str]

    def end(self, text: str, found: re.Match[str]) -> int:
        """Where ends what an `opening` begins.

        Args:
            text: The text.
            found: The opening.
        """
        opening = found[0]
        if opening in self._comments:
            return _comment_end(text, found.end(), opening, *self._comments[opening])
        if opening not in self._ends:
            return dollar_end(text, found.start(), opening)
        for mark in self._ends[opening].finditer(text, found.end()):
            if not mark[0].startswith("\\"):
                return mark.end()
        return len(text)

    def is_comment(self, found: re.Match[str]) -> bool:
        """Whether an `opening` is that of a comment."""
        return found[0] in self._comments

    def blanks_end(self, text: str, start: int) -> int:
        """Where white space and comments end.

        Args:
            text: A text.
            start: Where to begin.

        Returns:
            The first place from there on that is neither.
        """
        while found := self._blanks.match(text, start):
            is_opening = found.lastgroup == "opening"
            start = self.end(text, found) if is_opening else found.end()
        return start


def _comment_end(text: str, place: int, opening: str, closing: str, nests: bool) -> int:
    """Where a comment ends. sqlglot sees no comment in it right behind its own opening.

    Args:
        text: The text.
        place: Where the opening ends.
        opening: How such comments begin.
        closing: How they end.
        nests: Whether they may have others in them.
    """
    if not nests:
        end = text.find(closing, place)
        return len(text) if end < 0 else end + len(closing)
    marks = re.compile(f"{re.escape(opening)}|{re.escape(closing)}")
    depth, first_opening = 1, place + 1
    while found := marks.search(text, place):
        if found[0] == closing:
            depth -= 1
            if not depth:
                return found.end()
            place = first_opening = found.start() + 1
        elif found.start() < first_opening:
            place += 1
        else:
            depth += 1
            place, first_opening = found.end(), found.end() + 1
    return len(text)


@cache
def dialect_lexer(tokenizer: type[Tokenizer]) -> DialectLexer:
    """What a dialect has.

    Args:
        tokenizer: sqlglot's tokenizer of the dialect.
    """
    made = _Patterns(tokenizer)
    # sqlglot looks for a nested opening in as many characters as the end has.
    comments = {
        mark: (end, tokenizer.NESTED_COMMENTS and len(mark) == len(end))
        for mark, end in made.comments.items()
        if end is not None
    }
    groups = {
        "quoted": made.names(),
        "sign": made.lookalikes(),
        "line_comment": made.line_comments(),
        "opening": [*made.dollar_marks, made.begin([*comments, *made.ends])],
        "string": made.texts(),
    }
    signs = frozenset(tokenizer.SINGLE_TOKENS)
    inner = signs - frozenset(tokenizer.VAR_SINGLE_TOKENS)
    word = f"[^\\s{_class_members(signs)}][^\\s{_class_members(inner)}]*+"
    signs -= {mark[0] for mark in made.marks} | {"?"}
    begun = rf"(?:(?!{made.begin_of_words()}){word}|\s++|[{_class_members(signs)}])"
    return DialectLexer(
        "|".join(f"(?P<{name}>{'|'.join(found)})" for name, found in groups.items() if found),
        word,
        rf"(?P<plain>(?>{begun}{{1,{_MOST_PLAIN}}})|{word}|\S)",
        signs,
        DOLLAR_MARK in made.dollar_marks,
        comments,
        made.ends,
        re.compile(rf"[\s{NO_WIDTH}]++|{'|'.join(made.line_comments())}|(?P<opening>{made.begin(comments)})"),
    )


class _Patterns:
    """What is special in a dialect, as patterns.

    Attributes:
        comments: How comments begin, and what they end with; None for the end of a line.
        marks: How everything special begins.
        dollar_marks: Patterns of how texts between dollars begin.
        ends: How texts begin whose end takes more than a pattern, and what is looked for then.
    """

    def __init__(self, tokenizer: type[Tokenizer]) -> None:
        self._tokenizer = tokenizer
        # No public names have what a tokenizer adds to its own: N'…', and comments that are for templates.
        self.comments: Mapping[str, str | None] = tokenizer._COMMENTS  # noqa: SLF001 - as above
        formats = tokenizer._FORMAT_STRINGS  # noqa: SLF001 - likewise
        self._quotes: Mapping[str, str] = tokenizer._QUOTES  # noqa: SLF001 - likewise
        self._names: Mapping[str, str] = tokenizer._IDENTIFIERS  # noqa: SLF001 - likewise
        texts = {mark: (end, TokenType.STRING) for mark, end in self._quotes.items()} | formats
        # What begins with a digit is a number; quoted names come before texts.
        texts = {
            mark: text for mark, text in texts.items() if not mark[0].isdigit() and mark[0] not in self._names
        }
        self._own_marks = frozenset({*self.comments, *texts, *self._names})
        self._lookalikes = sorted(filter(self._is_lookalike, tokenizer.KEYWORDS))
        self.marks = self._own_marks.union(self._lookalikes)
        self.dollar_marks: list[str] = []
        self.ends: dict[str, re.Pattern[str]] = {}
        self._texts: dict[str, str] = {}
        for mark, (end, kind) in texts.items():
            if kind is TokenType.HEREDOC_STRING:
                has_names = tokenizer.HEREDOC_TAG_IS_IDENTIFIER
                self.dollar_marks.append(DOLLAR_MARK if has_names else _ANY_DOLLAR_MARK)
            elif len(end) == 1:
                self._texts[mark] = _rest_of_text(end, self._escapes(kind))
            else:
                has_backslash = "\\" in self._escapes(kind) and end[0] in self._quotes
                pairs = r"\\.|" if has_backslash else ""
                self.ends[mark] = re.compile(pairs + re.escape(end), re.DOTALL)

    def _escapes(self, kind: TokenType) -> Sequence[str]:
        """What may stand before the end of a text and does not end it."""
        if kind in _RAW and not self._tokenizer.STRING_ESCAPES_ALLOWED_IN_RAW_STRINGS:
            return ()
        is_of_bytes = kind is TokenType.BYTE_STRING
        return self._tokenizer.BYTE_STRING_ESCAPES if is_of_bytes else self._tokenizer.STRING_ESCAPES

    def _is_lookalike(self, keyword: str) -> bool:
        """Whether a keyword, mostly an operator, has in it what comments and the like begin with."""
        if keyword in self._own_marks or {" ", "?"} & {*keyword}:
            return False
        rests = [keyword[place:] for place in range(1, len(keyword)) if not keyword[place].isalnum()]
        return any(
            keyword.startswith(mark) or any(rest.startswith(mark) or mark.startswith(rest) for rest in rests)
            for mark in self._own_marks
        )

    def _unless_longer(self, mark: str) -> str:
        """Matches behind a mark where it is not the beginning of a longer one."""
        rests = sorted(each[len(mark) :] for each in self.marks if each.startswith(mark) and each != mark)
        return f"(?!(?i:{'|'.join(map(re.escape, rests))}))" if rests else ""

    def begin(self, marks: Iterable[str]) -> str:
        """Matches some marks."""
        by_head = defaultdict[tuple[str, str], list[str]](list)
        for mark in marks:
            by_head[mark[:-1], self._unless_longer(mark)].append(mark[-1])
        found = [
            f"{re.escape(head)}[{_class_members(lasts)}]{unless}" for (head, unless), lasts in by_head.items()
        ]
        return f"(?:{'|'.join(found)})"

    def begin_of_words(self) -> str:
        """Matches what is special and begins like a word."""
        signs = self._tokenizer.SINGLE_TOKENS
        worded = [mark for mark in sorted(self._own_marks) if mark[0] not in signs]
        keywords = [f"(?i:{re.escape(each)})" for each in self._lookalikes if each[0] not in signs]
        return "|".join([*keywords, self.begin(worded)])

    def lookalikes(self) -> Sequence[str]:
        """Match keywords with what comments and the like begin with in them."""
        return [f"(?i:{re.escape(each)}){self._unless_longer(each)}" for each in self._lookalikes]

    def line_comments(self) -> Sequence[str]:
        """Match comments to the end of their line."""
        line = r"[^\n]*+" if self._tokenizer.COMMENTS_TERMINATE_AT_NEWLINE_ONLY else r"[^\n\r]*+"
        dash = r"(?=[\s\x00-\x1f\x7f]|\Z)" if self._tokenizer.DASH_COMMENT_REQUIRES_BOUNDARY else ""
        return [
            f"{self.begin([mark])}{dash if mark == '--' else ''}{line}"
            for mark, end in self.comments.items()
            if end is None
        ]

    def names(self) -> Sequence[str]:
        """Match quoted names."""
        escapes = self._tokenizer.IDENTIFIER_ESCAPES
        return [re.escape(mark) + _rest_of_name(end, escapes) for mark, end in self._names.items()]

    def texts(self) -> Sequence[str]:
        """Match texts, but for those of `ends` and `dollar_marks`."""
        by_rest = defaultdict[str, list[str]](list)
        for mark, rest in self._texts.items():
            by_rest[rest].append(mark)
        return [f"{self.begin(marks)}{rest}" for rest, marks in by_rest.items()]


def _rest_of_text(end: str, escapes: Sequence[str]) -> str:
    """Matches a text behind its opening.

    Args:
        end: The character that it ends with.
        escapes: What may stand before that, and does not end it.
    """
    return _rest(end, [r"\\."] * ("\\" in escapes) + [end * 2] * (end in escapes))


def _rest_of_name(end: str, escapes: Sequence[str]) -> str:
    """Likewise, a quoted name."""
    doubled = re.escape(end * 2)
    if "\\" not in escapes:
        return _rest(end, [doubled])
    # sqlglot looks for a backslash in the name first, and with one it reads what stands behind it in another
    # way: a backslash there belongs to the name.
    one = re.escape(end)
    with_backslash = _rest(end, [r"\\.", doubled, rf"{one}\\"])
    return rf"(?:[^{one}\\]*+{one}(?!{one})|{with_backslash})"


def _rest(end: str, pairs: Sequence[str]) -> str:
    one = re.escape(end)
    if not pairs:
        return rf"[^{one}]*+(?:{one}|\Z)"
    others, last = (rf"[^{one}\\]*+", r"\\?") if r"\\." in pairs else (f"[^{one}]*+", "")
    rounds = "|".join(f"{pair}{others}" for pair in pairs)
    return rf"{others}(?:{rounds})*+(?:{one}|{last}\Z)"


def _class_members(characters: Iterable[str]) -> str:
    """Characters as a class of a pattern has them."""
    return "".join(re.escape(each) for each in sorted(characters))
