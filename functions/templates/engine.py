"""The library as templates may use it: two environments, and what was compiled kept.

A compiled template depends on its source alone, so that is what it is kept by: versions never
change, and two with equal words share them.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from liquid import BoundTemplate, Environment, Mode, StrictDefaultUndefined
from liquid.ast import Node
from liquid.builtin.content import Literal
from liquid.builtin.illegal import Illegal
from liquid.builtin.tags.assign_tag import AssignTag
from liquid.builtin.tags.capture_tag import CaptureTag
from liquid.builtin.tags.comment_tag import CommentTag
from liquid.builtin.tags.for_tag import BreakTag, ContinueTag
from liquid.builtin.tags.if_tag import IfTag
from liquid.builtin.tags.inline_comment_tag import InlineCommentTag
from liquid.builtin.tags.unless_tag import UnlessTag
from liquid.exceptions import LiquidError, OutputStreamLimitError, UndefinedError
from liquid.output import LimitedStringIO
from liquid.token import Token

from functions.templates.budget import REQUEST_READING_STEPS, Budget
from functions.templates.errors import Malformed, Missing, Overdrawn, TooLong, Unrenderable
from functions.templates.filters import FILTERS
from functions.templates.loops import ChoiceTag, LoopTag
from functions.templates.nodes import Context, WritingTag, set_tolls
from functions.templates.reading import Steps, reads_of
from functions.templates.scan import line_at, scan
from functions.templates.wrapping import MAX_TEXT_CHARACTERS

MAX_OUTPUT_BYTES = 4 * MAX_TEXT_CHARACTERS
MAX_KEPT_STEPS = REQUEST_READING_STEPS
"""Of reading all sources that are kept compiled: as much as one request may ask for, or it would
read them again and again in turns."""


class StrictIfTag(IfTag):
    mode = Mode.STRICT


class StrictUnlessTag(UnlessTag):
    mode = Mode.STRICT


class TemplateEnvironment(Environment):
    """Loads nothing; knows only the tags and filters that are listed here."""

    block_nesting_limit = 20

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        del extra
        for tag in (
            Literal, WritingTag, Illegal, AssignTag, BreakTag, CaptureTag, ChoiceTag, CommentTag,
            ContinueTag, InlineCommentTag, LoopTag, StrictIfTag, StrictUnlessTag,
        ):  # fmt: skip
            self.add_tag(tag)
        self.filters.update(FILTERS)


_HTML, _PLAIN = (
    TemplateEnvironment(undefined=StrictDefaultUndefined, autoescape=is_html)
    for is_html in (True, False)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A template that can be rendered, and the paths that must lead to a value."""

    template: BoundTemplate
    reads: frozenset[Steps]
    steps: int
    """That it took to read it."""
    is_blank: bool
    """Whether it writes nothing but blanks, whatever its values are."""

    def render(self, values: dict[str, Any], *, budget: Budget) -> str:
        """Return what the template gives; raise Unrenderable, within limits whatever it asks."""
        context = Context(self.template, values=values, budget=budget)
        buffer = LimitedStringIO(limit=MAX_OUTPUT_BYTES, newline="")  # as it is written
        node: Node | None = None
        try:
            for node in self.template.nodes:
                node.render(context, buffer)
        except LiquidError as error:
            raise _unrenderable(error) from error
        except Overdrawn:
            raise
        except Unrenderable as error:
            raise type(error)(f"{error.detail}{_place(node and node.token)}") from error
        except Exception as error:
            # Sources and values are other people's, and the library has errors of its own. Its
            # message may quote a value, so only its kind is told.
            raise Unrenderable(f"It cannot be evaluated ({type(error).__name__}).") from error
        return buffer.getvalue()


def _unrenderable(error: LiquidError) -> Unrenderable:
    where = _place(error.token)
    match error:
        case UndefinedError():
            return Missing(f"{error.message}{where}")  # names of the template, and no value
        case OutputStreamLimitError():
            return TooLong(f"It is longer than {MAX_TEXT_CHARACTERS} characters.")
        case _:
            return Unrenderable(f"It cannot be evaluated: {type(error).__name__}{where}")


def _place(token: Token | None) -> str:
    """Return where in the source it is, for the end of a sentence."""
    if token is None or token.start_index < 0:
        return ""
    return f" (line {line_at(token.source, token.start_index)})"


@dataclass(slots=True)
class _Kept:
    """What was compiled, by source and kind; what was not used for the longest goes first."""

    compiled: OrderedDict[tuple[str, bool], Compiled] = field(
        default_factory=OrderedDict[tuple[str, bool], Compiled]
    )
    steps: int = 0

    def keep(self, key: tuple[str, bool], one: Compiled) -> None:
        self.compiled[key] = one
        self.steps += one.steps
        while len(self.compiled) > 1 and self.steps > MAX_KEPT_STEPS:
            _, gone = self.compiled.popitem(last=False)
            self.steps -= gone.steps


_kept = _Kept()


def reading_steps(source: str, *, is_html: bool) -> int:
    """Return the steps that it takes to read ``source``, kept or not; raise Malformed."""
    found = _kept.compiled.get((source, is_html))
    return scan(source) if found is None else found.steps


def compiled(source: str, *, is_html: bool) -> Compiled:
    """Return ``source`` compiled, and keep it for the next time; raise Malformed."""
    key = (source, is_html)
    found = _kept.compiled.get(key)
    if found is None:
        found = _compile(source, _HTML if is_html else _PLAIN)
        _kept.keep(key, found)
    _kept.compiled.move_to_end(key)
    return found


def _compile(source: str, environment: Environment) -> Compiled:
    steps = scan(source)
    try:
        template = environment.from_string(source)
    except LiquidError as error:
        index = 0 if error.token is None else error.token.start_index
        line = line_at(source, len(source) if index < 0 else index)
        raise Malformed(f"{str(error.message)[:200]}.", line=line) from error
    reads = reads_of(template)
    is_blank = all(node.blank for node in template.nodes)
    set_tolls(template.nodes, Context(template, values={}, budget=Budget()))
    return Compiled(template=template, reads=reads, steps=steps, is_blank=is_blank)
