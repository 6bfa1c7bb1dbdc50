"""What a template refers to, found without rendering it; and what may not stand in one.

Local names (``assign``, ``capture``, the variable of a loop) are not asked of the client, nor is
what is given to the filter ``default`` first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from liquid import BoundTemplate, RenderContext
from liquid.ast import Node
from liquid.builtin.expressions import FilteredExpression, LoopExpression, Path
from liquid.builtin.expressions.arguments import KeywordArgument
from liquid.builtin.expressions.filtered import Filter
from liquid.builtin.expressions.primitive import RangeLiteral
from liquid.builtin.tags.for_tag import BreakNode, ContinueNode, ForNode
from liquid.expression import Expression
from liquid.token import Token

from functions.templates.errors import Malformed
from functions.templates.filters import FILTERS
from functions.templates.scan import line_at

Steps = tuple[str | int, ...]
"""A path to a value: names of members and places in lists."""

MAX_EXPRESSION_DEPTH = 40
"""Far below what Python's stack holds, however deep it is when a template is rendered."""


def reads_of(template: BoundTemplate) -> frozenset[Steps]:
    """Return the paths that must lead to a value; raise Malformed for what may not stand here."""
    reader = _Reader(context=RenderContext(template), local=set(), found=set())
    for node in template.nodes:
        reader.visit(node, frozenset(), in_loop=False)
    return frozenset(reader.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    context: RenderContext
    local: set[str]
    """Names given by ``assign`` and ``capture`` so far: they last to the end of the template."""
    found: set[Steps]

    def visit(self, node: Node, names: frozenset[str], *, in_loop: bool) -> None:
        """Read a node; ``names`` are those of the loops that it stands in."""
        if isinstance(node, BreakNode | ContinueNode) and not in_loop:
            raise _malformed(node.token, "break and continue stand within a loop.")
        for expression in node.expressions():
            _refuse_range(expression)
            self._read(expression, names, depth=0)
        self.local.update(node.template_scope())
        within = names.union(node.block_scope())
        for child in node.children(self.context):
            self.visit(child, within, in_loop=in_loop or isinstance(node, ForNode))

    def _read(self, expression: Expression, names: frozenset[str], *, depth: int) -> None:
        if depth > MAX_EXPRESSION_DEPTH:
            raise _malformed(expression.token, "An expression is nested too deeply.")
        if isinstance(expression, Path):
            path = _fixed(expression)
            if not (path and isinstance(path[0], str)):
                raise _malformed(expression.token, "A variable begins with its name.")
            if path[0] not in self.local and path[0] not in names:
                self.found.add(path)
        for child in _read_by(expression):
            if not isinstance(expression, LoopExpression):
                _refuse_range(child)
            self._read(child, names, depth=depth + 1)


def _fixed(path: Path) -> Steps:
    """Return the steps up to the first that depends on a value."""
    return tuple(
        step
        for step in takewhile(lambda one: not isinstance(one, Path), path.path)
        if not isinstance(step, Path)
    )


def _read_by(expression: Expression) -> Iterator[Expression]:
    """Yield what an expression reads; not the value that a default stands in for."""
    filters: list[Filter] = []
    if isinstance(expression, FilteredExpression):
        filters = expression.filters or []
        for one in filters:
            _check_filter(one)
        if filters and filters[0].name == "default" and isinstance(expression.left, Path):
            yield from expression.left.children()
        else:
            yield expression.left
        for one in filters:
            yield from one.children()
    else:
        yield from expression.children()


def _check_filter(one: Filter) -> None:
    if one.name not in FILTERS:
        raise _malformed(one.token, f"There is no filter {one.name[:32]!r} here.")
    for argument in one.args:
        if isinstance(argument, KeywordArgument) and argument.name != "allow_false":
            raise _malformed(one.token, f"The filter {one.name} has no such argument.")


def _refuse_range(expression: Expression) -> None:
    if isinstance(expression, RangeLiteral):
        raise _malformed(expression.token, "A range stands in a loop only.")


def _malformed(token: Token, detail: str) -> Malformed:
    return Malformed(detail, line=line_at(token.source, token.start_index))
