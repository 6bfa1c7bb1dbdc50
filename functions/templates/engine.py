"""The library as templates may use it: two environments, and what was compiled kept.

A compiled template depends on its source alone, so that is what it is kept by: versions never
change, and two with equal words share them.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from liquid import BoundTemplate, Environment, Mode, StrictDefaultUndefined
from liquid.ast import Node
from liquid.builtin.content import Literal
from liquid.builtin.illegal import Illegal
from liquid.builtin.tags.assign_tag import AssignTag
from liquid.builtin.tags.capture_tag import CaptureTag
from liquid.builtin.tags.case_tag import CaseTag
from liquid.builtin.tags.comment_tag import CommentTag
from liquid.builtin.tags.for_tag import BreakTag, ContinueTag
from liquid.builtin.tags.if_tag import IfTag
from liquid.builtin.tags.inline_comment_tag import InlineCommentTag
from liquid.builtin.tags.unless_tag import UnlessTag
from liquid.exceptions import LiquidError, OutputStreamLimitError, UndefinedError
from liquid.output import LimitedStringIO
from liquid.token import Token

from functions.templates.budget import Budget
from functions.templates.errors import Malformed, Missing, TooLong, Unrenderable
from functions.templates.filters import FILTERS, MAX_TEXT_CHARACTERS
from functions.templates.nodes import Context, LoopTag, WritingTag, set_tolls
from functions.templates.reading import Steps, reads_of
from functions.templates.scan import line_at, scan

MAX_OUTPUT_BYTES = 4 * MAX_TEXT_CHARACTERS
MAX_KEPT_CHARACTERS = 1_000_000
"""Of all sources that are kept compiled."""


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
            Literal, WritingTag, Illegal, AssignTag, BreakTag, CaptureTag, CaseTag, CommentTag,
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


_kept: OrderedDict[tuple[str, bool], Compiled] = OrderedDict()


def compiled(source: str, *, is_html: bool) -> Compiled:
    """Return ``source`` compiled, and keep it for the next time; raise Malformed."""
    key = (source, is_html)
    found = _kept.get(key)
    if found is None:
        found = _kept[key] = _compile(source, _HTML if is_html else _PLAIN)
        while len(_kept) > 1 and sum(len(kept) for kept, _ in _kept) > MAX_KEPT_CHARACTERS:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return found


def _compile(source: str, environment: Environment) -> Compiled:
    scan(source)
    try:
        template = environment.from_string(source)
    except LiquidError as error:
        index = 0 if error.token is None else error.token.start_index
        line = line_at(source, len(source) if index < 0 else index)
        raise Malformed(f"{str(error.message)[:200]}.", line=line) from error
    reads = reads_of(template)
    set_tolls(template.nodes, Context(template, values={}, budget=Budget()))
    return Compiled(template=template, reads=reads)
