"""What pydantic finds, as the contract names it: pointer, code, and words without values."""

from collections.abc import Iterable
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from functions.core.errors import Fault, ValidationFailed
from functions.core.strict_json import token

_CODES: dict[str, tuple[str, str]] = {
    "missing": ("required", "It is required."),
    "extra_forbidden": ("unknown_field", "There is no such field."),
    "string_too_long": ("too_long", "It has at most {max_length} characters."),
    "string_too_short": ("required", "It must not be empty."),
    "string_pattern_mismatch": ("not_allowed", "It does not match {pattern}."),
    "too_long": ("too_many", "There are at most {max_length}."),
    "too_short": ("required", "There is at least {min_length}."),
    "greater_than_equal": ("not_allowed", "It is at least {ge}."),
    "less_than_equal": ("not_allowed", "It is at most {le}."),
    "string_unicode": ("not_encodable", "It is not Unicode text."),
}
_LITERAL = "literal_error"


MAX_MEMBERS = 32
"""Of an object of ours: more are refused before each is judged and named."""


def faults_of(error: ValidationError) -> list[Fault]:
    """Return every fault in ``error``."""
    return [
        _fault(found["loc"], found["type"], found.get("ctx") or {}, found.get("input"))
        for found in error.errors(include_url=False)
    ]


def _fault(
    location: tuple[int | str, ...], kind: str, context: dict[str, Any], value: Any
) -> Fault:
    if location[-1:] == ("[key]",) and location[-2:-1] != ("metadata",):
        location = location[:-1]  # the name of a member is at fault: point at the member
    pointer = "".join(f"/{token(str(part))}" for part in location)
    if kind == _LITERAL and isinstance(value, str):
        return Fault(pointer, "not_allowed", f"It is one of {context['expected']}.")
    code, words = _CODES.get(kind, ("wrong_type", "It is of another type."))
    written = {name: _whole(bound) for name, bound in context.items()}
    return Fault(pointer, code, words.format_map(written))


def _whole(bound: Any) -> Any:
    """Return 60 for 60.0: pydantic makes the bounds of a float floats."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def validate(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Return ``value`` when it has the shape of ``adapter``; raise ValidationFailed otherwise."""
    if isinstance(value, dict) and len(cast("dict[str, Any]", value)) > MAX_MEMBERS:
        raise ValidationFailed([too_many_members(MAX_MEMBERS)])
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise ValidationFailed(faults_of(error)) from None


def too_many_members(most: int, pointer: str = "") -> Fault:
    return Fault(pointer, "too_many", f"It has at most {most} members.")


def below(prefix: str, faults: Iterable[Fault]) -> list[Fault]:
    """Return ``faults`` with their pointers moved below ``prefix``."""
    return [Fault(prefix + fault.pointer, fault.code, fault.detail) for fault in faults]
