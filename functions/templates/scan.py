"""A first look at a source, in one pass: are its statements closed and its tags known, and what
will it take to read it?

The lexer behind it looks ahead without bounds: of 200 KB of opening braces it makes hours of work.
What passes here it reads in a time that grows with what is counted here.
"""

import re

from functions.templates.errors import Malformed

TAGS = frozenset(
    {
        "#", "assign", "break", "capture", "case", "comment", "continue", "else", "elsif",
        "endcapture", "endcase", "endcomment", "endfor", "endif", "endunless", "for", "if",
        "unless", "when",
    }
)  # fmt: skip
"""Nothing that loads another template, that depends on the time, or that leaves braces behind."""

MAX_STATEMENT_CHARACTERS = 1000

SOURCE_STEPS = 50
"""To read one source, however short."""
STATEMENT_STEPS = 14
"""To read one ``{{ … }}`` or ``{% … %}``, without its words."""
WORD_STEPS = 4
"""Of each word, number, quoted text or sign in one."""
CHARACTERS_PER_READING_STEP = 16

_OPENING = re.compile(r"\{[{%]")
_NAME = re.compile(r"-?\s*(#|\w+)")
_COMMENT = re.compile(r"\{%-?\s*#")
_WORD = re.compile(r"\"[^\"]*\"|'[^']*'|\w+|[^\w\s]")


def scan(source: str) -> int:
    """Return the steps that it takes to read ``source``; raise Malformed when a statement is not
    closed or a tag unknown."""
    position = 0
    steps = SOURCE_STEPS + len(source) // CHARACTERS_PER_READING_STEP
    while opening := _OPENING.search(source, position):
        start = opening.start()
        closing = "}}" if opening[0] == "{{" else "%}"
        end = source.find(closing, start + 2, start + 2 + MAX_STATEMENT_CHARACTERS)
        if end < 0:
            detail = f"{opening[0]} is not closed within {MAX_STATEMENT_CHARACTERS} characters."
            raise Malformed(detail, line=line_at(source, start))
        if closing == "%}":
            _check_tag(source, start, end)
        steps += STATEMENT_STEPS + (end - start) // CHARACTERS_PER_READING_STEP
        if not _COMMENT.match(source, start):
            steps += len(_WORD.findall(source, start + 2, end)) * WORD_STEPS
        position = end + 2
    return steps


def _check_tag(source: str, start: int, end: int) -> None:
    name = _NAME.match(source, start + 2, end)
    if name is None:
        raise Malformed("There is a tag without a name.", line=line_at(source, start))
    if name[1] not in TAGS:
        detail = f"There is no tag {name[1][:32]!r} here."
        raise Malformed(detail, line=line_at(source, start))


def line_at(source: str, index: int) -> int:
    return source.count("\n", 0, max(index, 0)) + 1
