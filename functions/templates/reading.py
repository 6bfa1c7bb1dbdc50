"""What a template refers to, found without rendering it; and what may not stand in one.

Local names (``assign``, ``capture``, the variable of a loop) are not asked of the client, nor is
what is given to the filter ``default`` first. What is read of a local name that is another name for
a value of the client's, or for each element of a list, is asked of the client like that value. What
depends on a value — ``prices[currency]`` — is found only by rendering.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from liquid import BoundTemplate, RenderContext
from liquid.ast import Node
from liquid.builtin.expressions import FilteredExpression, LoopExpression, Path
from liquid.builtin.expressions.arguments import KeywordArgument, PositionalArgument
from liquid.builtin.expressions.filtered import Filter
from liquid.builtin.expressions.primitive import IntegerLiteral, RangeLiteral
from liquid.builtin.tags.assign_tag import AssignNode
from liquid.builtin.tags.for_tag import BreakNode, ContinueNode, ForNode
from liquid.expression import Expression
from liquid.token import Token

from functions.templates.errors import Malformed
from functions.templates.filters import ARGUMENTS, FILTERS
from functions.templates.given import EACH, Steps
from functions.templates.loops import MAX_TURNS
from functions.templates.scan import line_at

Names = Mapping[str, Steps | None]
"""What local names stand for: the path to a value of the client's, or something else."""

MAX_EXPRESSION_DEPTH = 40
"""Far below what Python's stack holds, however deep it is when a template is rendered."""


def reads_of(template: BoundTemplate) -> frozenset[Steps]:
    """Return the paths that must lead to a value; raise Malformed for what may not stand here."""
    context = RenderContext(template)
    assigned = Counter(name for node in template.nodes for name in _assigned(node, context))
    reader = _Reader(context=context, assigned=assigned, local={}, found=set())
    for node in template.nodes:
        reader.visit(node, {}, in_loop=False)
    return frozenset(reader.found)


def _assigned(node: Node, context: RenderContext) -> Iterator[str]:
    yield from node.template_scope()
    for child in node.children(context):
        yield from _assigned(child, context)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    context: RenderContext
    assigned: Counter[str]
    """How often each name is given in the whole template."""
    local: dict[str, Steps | None]
    """Names given by ``assign`` and ``capture`` so far: they last to the end of the template."""
    found: set[Steps]

    def visit(self, node: Node, names: Names, *, in_loop: bool) -> None:
        """Read a node; ``names`` are those of the loops that it stands in."""
        if isinstance(node, BreakNode | ContinueNode) and not in_loop:
            raise _malformed(node.token, "break and continue stand within a loop.")
        for expression in node.expressions():
            _refuse_range(expression)
            self._read(expression, names, depth=0)
        for name in node.template_scope():
            self.local[name] = self._assigned_path(node, names)
        within = names
        if isinstance(node, ForNode):
            in_loop = True
            within = {**names, "forloop": None, str(node.expression.identifier): None}
            within[str(node.expression.identifier)] = self._element(node, names)
        for child in node.children(self.context):
            self.visit(child, within, in_loop=in_loop)

    def _assigned_path(self, node: Node, names: Names) -> Steps | None:
        """Return the path that a name given once stands for; None when it is another thing in
        other turns or branches."""
        if not isinstance(node, AssignNode) or self.assigned[node.name] > 1:
            return None
        expression = node.expression
        if not isinstance(expression, FilteredExpression) or expression.filters:
            return None
        path = self._path(expression.left, names)
        return None if path is None or EACH in path else path

    def _element(self, node: ForNode, names: Names) -> Steps | None:
        """Return the path to each element of a loop; None when it does not go through all of a
        value of the client's."""
        expression = node.expression
        if expression.limit is not None or expression.offset is not None:
            return None
        path = self._path(expression.iterable, names)
        if path is None or any(_breaks(child, self.context) for child in node.block.nodes):
            return None
        return (*path, EACH)

    def _path(self, expression: Expression, names: Names) -> Steps | None:
        """Return the whole path of a value of the client's."""
        if not isinstance(expression, Path) or len(_fixed(expression)) < len(expression.path):
            return None
        return self._resolved(_fixed(expression), names)

    def _resolved(self, path: Steps, names: Names) -> Steps | None:
        """Return where a path leads from the client's values; None from anything else."""
        head, *rest = path
        for known in (names, self.local):
            if head in known:
                base = known[str(head)]
                return None if base is None else (*base, *rest)
        return path

    def _read(self, expression: Expression, names: Names, *, depth: int) -> None:
        if depth > MAX_EXPRESSION_DEPTH:
            raise _malformed(expression.token, "An expression is nested too deeply.")
        if isinstance(expression, Path):
            path = _fixed(expression)
            if not (path and isinstance(path[0], str)):
                raise _malformed(expression.token, "A variable begins with its name.")
            read = self._resolved(path, names)
            if read is not None:
                self.found.add(read)
        for child in _read_by(expression):
            if not isinstance(expression, LoopExpression):
                _refuse_range(child)
            self._read(child, names, depth=depth + 1)


def _breaks(node: Node, context: RenderContext) -> bool:
    """Whether a node ends the loop that it stands in."""
    if isinstance(node, BreakNode | ForNode):
        return isinstance(node, BreakNode)
    return any(_breaks(child, context) for child in node.children(context))


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
        if isinstance(expression, RangeLiteral):
            _check_range(expression)
        yield from expression.children()


def _check_filter(one: Filter) -> None:
    if one.name not in FILTERS:
        raise _malformed(one.token, f"There is no filter {one.name[:32]!r} here.")
    given = sum(isinstance(argument, PositionalArgument) for argument in one.args)
    possible = ARGUMENTS[one.name]
    if given not in possible:
        least, most = possible[0], possible[-1]
        number = f"{least}" if least == most else f"{least} to {most}"
        noun = "argument" if most == 1 else "arguments"
        raise _malformed(one.token, f"The filter {one.name} has {number} {noun}, not {given}.")
    for argument in one.args:
        if isinstance(argument, KeywordArgument) and (one.name, argument.name) != (
            "default",
            "allow_false",
        ):
            raise _malformed(one.token, f"The filter {one.name} has no such argument.")


def _check_range(expression: RangeLiteral) -> None:
    """Refuse one that no values make shorter."""
    start, stop = expression.start, expression.stop
    if not (isinstance(start, IntegerLiteral) and isinstance(stop, IntegerLiteral)):
        return
    if stop.value - start.value >= MAX_TURNS:
        detail = f"A range in a loop has at most {MAX_TURNS} numbers."
        raise _malformed(expression.token, detail)


def _refuse_range(expression: Expression) -> None:
    if isinstance(expression, RangeLiteral):
        raise _malformed(expression.token, "A range stands in a loop only.")


def _malformed(token: Token, detail: str) -> Malformed:
    return Malformed(detail, line=line_at(token.source, token.start_index))
