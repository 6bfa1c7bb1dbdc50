"""Loops and choices as they run here: nothing is made or compared that is not paid for."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from liquid.ast import Node
from liquid.builtin.expressions import LoopExpression
from liquid.builtin.expressions.logical import EqExpression
from liquid.builtin.expressions.primitive import StringLiteral
from liquid.builtin.tags.case_tag import CaseNode, CaseTag, MultiExpressionBlockNode
from liquid.builtin.tags.for_tag import ForNode, ForTag
from liquid.exceptions import LiquidTypeError
from liquid.expression import Expression
from liquid.limits import to_int
from liquid.stream import TokenStream
from liquid.token import Token
from liquid.undefined import is_undefined

from functions.templates.budget import PART_STEPS
from functions.templates.errors import Exhausted

if TYPE_CHECKING:
    from liquid import RenderContext

MAX_TURNS = PART_STEPS
"""Of one loop over a range: each is a step."""


class Turns(LoopExpression):
    """What a loop goes through. The library makes a list of a whole range to go through it
    backwards, and steps over what is left out; here neither is done."""

    __slots__ = ("name",)

    def __init__(self, of: LoopExpression) -> None:
        super().__init__(
            of.token,
            of.identifier,
            of.iterable,
            limit=of.limit,
            offset=of.offset,
            reversed_=of.reversed,
            cols=of.cols,
        )
        self.name = f"{of.identifier}-{of.iterable}"

    def evaluate(self, context: "RenderContext") -> tuple[Iterator[object], int]:
        values = _in_turn(self.iterable.evaluate(context))
        start = min(max(self._offset(context), 0), len(values))
        stop = len(values)
        if self.limit is not None:
            stop = min(start + max(self._whole(self.limit, context), 0), stop)
        context.stopindex(self.name, index=stop)
        chosen = values[start:stop]
        return iter(reversed(chosen) if self.reversed else chosen), len(chosen)

    def _offset(self, context: "RenderContext") -> int:
        if self.offset is None:
            return 0
        if isinstance(self.offset, StringLiteral) and self.offset.value == "continue":
            return context.stopindex(self.name)
        return self._whole(self.offset, context)

    def _whole(self, expression: Expression, context: "RenderContext") -> int:
        try:
            return to_int(expression.evaluate(context))
        except (ValueError, TypeError) as error:
            raise LiquidTypeError("expected an integer", token=expression.token) from error


def _in_turn(values: object) -> Sequence[Any]:
    """Return what there is to go through, without a copy of a list or a range."""
    match values:
        case range():
            if values.stop - values.start > MAX_TURNS:
                raise Exhausted(f"A range in a loop has at most {MAX_TURNS} numbers.")
            return values
        case list() | tuple():
            return cast("Sequence[Any]", values)
        case dict():
            return tuple(cast("dict[str, Any]", values).items())
        case str():
            return (values,) if values else ()
        case _:
            if is_undefined(values):
                str(values)  # it says so itself, by its name
            return ()


class LoopTag(ForTag):
    """``{% for %}``."""

    def parse(self, stream: TokenStream) -> Node:
        node = super().parse(stream)
        if isinstance(node, ForNode):
            node.expression = Turns(node.expression)
        return node


class AnyOf(Expression):
    """The values of a ``when``, each compared with that of the ``case``."""

    __slots__ = ("comparisons",)

    def __init__(self, token: Token, left: Expression, expressions: list[Expression]) -> None:
        super().__init__(token)
        self.comparisons = [EqExpression(token, left, right) for right in expressions]

    def evaluate(self, context: "RenderContext") -> list[bool]:
        return [bool(one.evaluate(context)) for one in self.comparisons]

    def children(self) -> list[Expression]:
        return [*self.comparisons]


class ChoiceTag(CaseTag):
    """``{% case %}``: the library looks its value up once for all that it compares it with, and
    would have it paid for once."""

    def parse(self, stream: TokenStream) -> Node:
        node = super().parse(stream)
        if isinstance(node, CaseNode):
            for block in node.blocks:
                if isinstance(block, MultiExpressionBlockNode):
                    block.expression = AnyOf(  # pyright: ignore[reportAttributeAccessIssue]
                        block.expression.token,
                        block.expression.left,
                        block.expression.expressions,
                    )
        return node
