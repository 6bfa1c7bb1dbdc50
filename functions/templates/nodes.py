"""How the library's nodes render here: every step paid for, every value in its one form.

Nothing of the library is replaced from outside: these are subclasses that it is made for, and a
node of ours in front of every block.
"""

from collections.abc import Iterable
from typing import Any, TextIO, cast

from liquid import BoundTemplate, RenderContext
from liquid.ast import BlockNode, Node
from liquid.builtin.content import ContentNode
from liquid.builtin.expressions import FilteredExpression, Path
from liquid.builtin.expressions.primitive import StringLiteral
from liquid.builtin.output import Output, OutputNode
from liquid.expression import Expression
from liquid.stream import TokenStream
from liquid.token import Token
from liquid.undefined import UNDEFINED, StrictDefaultUndefined
from liquid.utils import ReadOnlyChainMap
from markupsafe import escape

from functions.templates.budget import CHARACTERS_PER_STEP, Budget
from functions.templates.loops import Turns
from functions.templates.values import text_of

_FILTER_STEPS = 2
"""To apply a filter, whatever it does."""
_LOOP_STEPS = 5
"""To begin a loop."""


def is_absent(value: object) -> bool:
    """Whether ``value`` stands for a missing one, which raises at every other question."""
    return type(value) is StrictDefaultUndefined


class Context(RenderContext):
    """The values of one rendering, and the budget of it.

    Null counts as missing. There is nothing beside the values that were given: the library would
    add ``now`` and ``today``.
    """

    __slots__ = ("budget",)

    def __init__(self, template: BoundTemplate, *, values: dict[str, Any], budget: Budget) -> None:
        super().__init__(template, globals=values)
        self.scope = ReadOnlyChainMap(self.locals, self.globals)
        self.budget = budget

    def get(
        self, path: list[object], *, token: Token | None, default: object = UNDEFINED
    ) -> object:
        value = super().get(path, token=token, default=default)
        if value is None:
            return self.env.undefined(str(path[0]), token=token)
        if not is_absent(value):
            self.budget.weigh(value)
        return value

    def get_item(self, obj: Any, key: Any) -> Any:
        """Return a member or an element. An object has its own members and no others: the library
        would give the number of them for a missing ``size``, and a pair for a ``first``."""
        if isinstance(obj, dict):
            return cast("dict[Any, Any]", obj)[key]
        return super().get_item(obj, key)

    def assign(self, key: str, val: Any) -> None:
        if not is_absent(val):
            self.budget.weigh(val)
        super().assign(key, val)


class WritingNode(OutputNode):
    """``{{ … }}``: a value as text, escaped in an HTML part."""

    __slots__ = ()

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        text = text_of(self.expression.evaluate(context))
        cast("Context", context).budget.spend(len(text) // CHARACTERS_PER_STEP)
        return buffer.write(escape(text) if context.autoescape else text)


class WritingTag(Output):
    node_class = WritingNode


class Toll(Node):
    """What a block costs each time it is rendered, paid before anything of it is."""

    __slots__ = ("steps",)

    def __init__(self, token: Token, steps: int) -> None:
        super().__init__(token)
        self.steps = steps

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        del buffer
        cast("Context", context).budget.spend(self.steps)
        return 0


def set_tolls(nodes: list[Node], context: RenderContext) -> None:
    """Put a toll in front of these nodes, and of the nodes of every block below them."""
    for node in nodes:
        for block in _blocks(node, context):
            set_tolls(block.nodes, context)
    steps = 1 + sum(_steps(node, context) for node in nodes)
    nodes.insert(0, Toll(TokenStream.eof, steps))


def _blocks(node: Node, context: RenderContext) -> Iterable[BlockNode]:
    for child in node.children(context):
        if isinstance(child, BlockNode):
            yield child
        else:
            yield from _blocks(child, context)


def _steps(node: Node, context: RenderContext) -> int:
    """Return the steps of a node without the blocks below it, which pay for themselves."""
    steps = 1 + sum(_steps_of(expression) for expression in node.expressions())
    if isinstance(node, ContentNode):
        steps += len(node.text) // CHARACTERS_PER_STEP
    return steps + sum(
        _steps(child, context)
        for child in node.children(context)
        if not isinstance(child, BlockNode)
    )


def _steps_of(expression: Expression) -> int:
    steps = 1 + sum(_steps_of(child) for child in expression.children())
    match expression:
        case StringLiteral():
            return steps + len(expression.value) // CHARACTERS_PER_STEP
        case Path():
            return steps + len(expression.path) // 2
        case FilteredExpression():
            return steps + _FILTER_STEPS * len(expression.filters or ())
        case Turns():
            return steps + _LOOP_STEPS + len(expression.name) // 8
        case _:
            return steps
