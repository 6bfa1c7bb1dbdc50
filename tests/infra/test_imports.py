"""What a function needs is read from its source."""

from pathlib import Path

import pytest

from infra.imports import imports_in, needs_of, services_in


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small ``functions`` package."""
    files = {
        "functions/__init__.py": "",
        "functions/one/__init__.py": "",
        "functions/one/main.py": "import orjson\nfrom functions.core import errors\n",
        "functions/core/__init__.py": "",
        "functions/core/errors.py": "import json\n\ndef late():\n    import boto3\n"
        '    return boto3.client("sqs", config=None)\n',
        "functions/core/never.py": "import pydantic\n",
    }
    for name, source in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return tmp_path


def test_modules_packages_and_services_are_found_wherever_they_are_used(root: Path) -> None:
    needs = needs_of("functions.one.main", root=root)
    assert [str(file) for file in needs.files] == [
        "functions/__init__.py",
        "functions/core/__init__.py",
        "functions/core/errors.py",
        "functions/one/__init__.py",
        "functions/one/main.py",
    ]
    assert needs.packages == {"orjson", "boto3"}
    assert needs.services == {"sqs"}


def test_an_import_for_the_type_checker_alone_does_not_count() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import mypy_boto3_sqs\nelse:\n    import orjson\n"
    )
    assert set(imports_in(source)) == {"typing", "typing.TYPE_CHECKING", "orjson"}


def test_a_service_named_by_a_variable_is_not_guessed() -> None:
    assert list(services_in("boto3.client(name)\nother('x')\nboto3.client('sns')")) == ["sns"]
