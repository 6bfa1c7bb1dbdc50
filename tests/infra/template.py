"""A synthesized template as the tests read it."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

Resource = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Template:
    """One CloudFormation template; ``text`` is the parsed JSON."""

    text: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Template":
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def copy(self) -> "Template":
        """Return a template that can be changed."""
        return Template(copy.deepcopy(self.text))

    def of_type(self, kind: str) -> dict[str, Resource]:
        """Return the resources of one type by logical id."""
        return {
            name: resource
            for name, resource in self.text["Resources"].items()
            if resource["Type"] == kind
        }

    def properties(self, kind: str, name_property: str) -> dict[str, Resource]:
        """Return the properties of the resources of one type by the name they were given."""
        return {
            resource["Properties"][name_property]: resource["Properties"]
            for resource in self.of_type(kind).values()
        }

    @property
    def functions(self) -> dict[str, Resource]:
        return self.properties("AWS::Lambda::Function", "FunctionName")

    @property
    def queues(self) -> dict[str, Resource]:
        return self.properties("AWS::SQS::Queue", "QueueName")

    @property
    def alarms(self) -> dict[str, Resource]:
        return self.properties("AWS::CloudWatch::Alarm", "AlarmName")

    def named(self, reference: Any, name_property: str) -> str:
        """Return the given name of the resource that ``Ref`` or ``Fn::GetAtt`` points to."""
        target = reference.get("Ref") or reference["Fn::GetAtt"][0]
        return self.text["Resources"][target]["Properties"][name_property]

    def environment(self, function_name: str) -> dict[str, Any]:
        return self.functions[function_name]["Environment"]["Variables"]

    def resolved(self, value: Any) -> str:
        """Return ``value`` as text: a parameter by its default, any other reference as a word."""
        if isinstance(value, str):
            return value
        parameter = self.text.get("Parameters", {}).get(value.get("Ref", ""), {})
        return parameter.get("Default", "resolved-at-deploy")

    def role_of(self, function_name: str) -> Resource:
        logical_id = self.functions[function_name]["Role"]["Fn::GetAtt"][0]
        return self.text["Resources"][logical_id]["Properties"]

    def leaves(self) -> dict[str, Any]:
        """Return every value by ``<type>/<logical id>/<path>``; outside Resources by its path."""
        found: dict[str, Any] = {}
        for section, content in self.text.items():
            if section == "Resources":
                for name, resource in content.items():
                    found.update(_leaves(resource, f"{resource['Type']}/{name}"))
            else:
                found.update(_leaves(content, section))
        return found


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = _children(value)
    if not children:
        yield path, value
    for key, child in children.items():
        yield from _leaves(child, f"{path}/{key}")


def _children(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return {_key(item, index): item for index, item in enumerate(items)}
    return {}


def _key(item: Any, index: int) -> str:
    """Return a policy's name, so that one that is missing does not shift the others."""
    if isinstance(item, dict) and "PolicyName" in item:
        return str(cast("dict[str, Any]", item)["PolicyName"])
    return str(index)
