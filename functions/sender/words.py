"""The content of notifications as it is sent: as it was given, or rendered from a template.

A version of a template never changes, and the one that was pinned when a notification was accepted
is rendered at each of its attempts, in the locale that was decided: the same words each time.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.core.content import Content, read_content
from functions.core.errors import Unreadable
from functions.store.connection import Database
from functions.store.delivery import Delivery
from functions.store.template import Key, documents_of

MAX_KEPT_CHARACTERS = 2_000_000
"""Of the versions that an environment remembers; the newest is kept in any case."""

Document = dict[str, Any]


@dataclass(slots=True)
class Documents:
    """Versions of templates, those that were used last: what was read need not be read again."""

    _kept: OrderedDict[Key, tuple[Document, int]] = field(
        default_factory=OrderedDict[Key, tuple[Document, int]]
    )
    """By version, with its size."""

    def of(self, database: Database, deliveries: Iterable[Delivery]) -> dict[Key, Document]:
        """Return the version of each of ``deliveries`` that is by template, where there is one."""
        keys = {key for one in deliveries if (key := key_of(one)) is not None}
        missing = keys - self._kept.keys()
        if missing:
            for key, document in documents_of(database, missing).items():
                self._kept[key] = document, len(json.dumps(document))
        found = {key: self._kept[key][0] for key in keys if key in self._kept}
        for key in found:
            self._kept.move_to_end(key)
        if missing:
            self._forget()
        return found

    def _forget(self) -> None:
        characters = sum(size for _, size in self._kept.values())
        while len(self._kept) > 1 and characters > MAX_KEPT_CHARACTERS:
            _, (_, size) = self._kept.popitem(last=False)
            characters -= size


def key_of(delivery: Delivery) -> Key | None:
    """Return the version that a notification is rendered from, None when it has its own content."""
    if delivery.template_name is None or delivery.template_version is None:
        return None
    return delivery.organization_id, delivery.template_name, delivery.template_version


def content_of(delivery: Delivery, documents: Mapping[Key, Document]) -> Content:
    """Return what is to be said; raise Unreadable, or what reading it raises."""
    given = json.loads(delivery.content)
    key = key_of(delivery)
    if key is not None:
        given = _rendered(delivery, given, document=documents.get(key))
    return read_content(delivery.channel, given)


def _rendered(delivery: Delivery, given: Any, *, document: Document | None) -> Any:
    if document is None:
        raise Unreadable("There is no such version of the template.")
    # The language costs 280 ms to import, which only what is by template has to pay.
    from functions.templates.choice import locale_of
    from functions.templates.render import render

    locale = locale_of(document, delivery.channel, delivery.locale)
    return render(document, channel=delivery.channel, locale=locale, data=given["data"])
