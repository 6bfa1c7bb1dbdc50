"""A token names its subject, proves itself, and is good in exactly one spelling."""

import base64
import hashlib
import hmac
import re
import string
from html.parser import HTMLParser
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.states import CATEGORY, Channel
from functions.core.unsubscribe import (
    MAX_TOKEN_CHARACTERS,
    Subject,
    link_of,
    read_token,
    token_of,
    unsubscribe_key,
)
from functions.ingest import unsubscribe_page as page
from functions.ingest.cursor import cursor_key
from tests.api import HASH_KEY, recorded
from tests.fakes import FIRST_ORGANIZATION, hash_of

KEY = unsubscribe_key(HASH_KEY)
ALPHABET = string.ascii_letters + string.digits + "-_"
LONG_CATEGORY = "a" * 64

subjects = st.builds(
    Subject,
    organization_id=st.uuids(),
    channel=st.sampled_from([str(channel) for channel in Channel]),
    recipient_hash=st.binary(min_size=32, max_size=32),
    category=st.from_regex(CATEGORY, fullmatch=True),
)


def token_about(subject: Subject, key: bytes = KEY) -> str:
    return token_of(
        key,
        organization_id=subject.organization_id,
        channel=subject.channel,
        recipient_hash=subject.recipient_hash,
        category=subject.category,
    )


NEWS = Subject(
    organization_id=FIRST_ORGANIZATION,
    channel="email",
    recipient_hash=hash_of("ada@example.com"),
    category="news",
)


@given(subjects)
def test_a_token_says_what_it_was_made_of(subject: Subject) -> None:
    token = token_about(subject)
    assert read_token(KEY, token) == subject
    assert token_about(subject) == token
    assert len(token) <= MAX_TOKEN_CHARACTERS
    assert re.fullmatch(r"[A-Za-z0-9_-]+", token)


@given(subjects, st.data())
def test_f7_a_token_with_another_character_anywhere_is_none(
    subject: Subject, data: st.DataObject
) -> None:
    token = token_about(subject)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from(ALPHABET).filter(lambda one: one != token[place]))
    assert read_token(KEY, token[:place] + other + token[place + 1 :]) is None


def test_f7_every_changed_byte_and_every_cut_makes_it_no_token() -> None:
    token = token_about(NEWS)
    whole = base64.urlsafe_b64decode(token + "==")
    for place in range(len(whole)):
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        assert read_token(KEY, base64.urlsafe_b64encode(changed).rstrip(b"=").decode()) is None
    for length in range(len(token)):
        assert read_token(KEY, token[:length]) is None


@given(st.text(max_size=200) | st.text(ALPHABET, max_size=200))
def test_what_is_no_token_is_none_and_raises_nothing(text: str) -> None:
    assert read_token(KEY, text) is None


def test_one_token_has_one_spelling() -> None:
    token = token_of(
        KEY,
        organization_id=UUID(int=(1 << 128) - 1),  # so that both alphabets of base64 differ in it
        channel="email",
        recipient_hash=b"\xfb\xff" * 16,
        category="news",
    )
    assert "_" in token
    others = [token + "=", token + "==", f" {token}", f"{token}\n", token.swapcase()]
    others += [token.replace("_", "/").replace("-", "+"), f"{token}A", token[:10] + "." + token]
    for other in others:
        assert read_token(KEY, other) is None, other


def test_a_token_is_good_under_its_own_key_alone() -> None:
    token = token_about(NEWS)
    keys = (HASH_KEY, unsubscribe_key(b"another secret"), cursor_key(HASH_KEY), b"")
    for key in keys:
        assert read_token(key, token) is None
        assert token_about(NEWS, key) != token


def test_an_authentic_token_of_another_version_or_shape_is_none() -> None:
    whole = base64.urlsafe_b64decode(token_about(NEWS) + "==")[:-16]
    assert read_token(KEY, signed(whole)) == NEWS
    for content in (b"\2" + whole[1:], whole[:1] + b"\x09" + whole[2:], whole[:50], b"\1", b""):
        assert read_token(KEY, signed(content)) is None


def signed(content: bytes) -> str:
    code = hmac.digest(KEY, content, hashlib.sha256)[:16]
    return base64.urlsafe_b64encode(content + code).rstrip(b"=").decode()


def test_a_link_in_an_old_message_is_read_for_ever() -> None:
    # Recorded once. When this fails, links in messages that people have kept are broken.
    token = recorded("ingest.unsubscribe_page")["rawPath"].rpartition("/")[2]
    subject = read_token(KEY, token)
    assert subject is not None
    assert (subject.organization_id, subject.channel) == (FIRST_ORGANIZATION, "email")
    assert subject.category == "news"
    assert token_about(subject) == token


@pytest.mark.parametrize(
    ("channel", "recipient_hash", "category"),
    [
        ("fax", bytes(32), "news"),
        ("email", bytes(31), "news"),
        ("email", bytes(32), ""),
        ("email", bytes(32), "n" * 65),
        ("email", bytes(32), "nöws"),
    ],
)
def test_no_token_is_made_of_what_no_notification_has(
    channel: str, recipient_hash: bytes, category: str
) -> None:
    with pytest.raises(ValueError, match=r"."):
        token_of(
            KEY,
            organization_id=FIRST_ORGANIZATION,
            channel=channel,
            recipient_hash=recipient_hash,
            category=category,
        )


def test_a_link_fits_the_header_that_carries_it() -> None:
    token = token_of(
        KEY,
        organization_id=FIRST_ORGANIZATION,
        channel="email",
        recipient_hash=bytes(32),
        category=LONG_CATEGORY,
    )
    link = link_of("https://notify.example.com/", token)
    assert link == link_of("https://notify.example.com", token)
    assert urlsplit(link).path == f"/v1/unsubscribe/{token}"
    assert link_of("https://example.com/api", token).startswith("https://example.com/api/v1/")
    assert len(f"<{link}>") < 995  # of a header's value in SES
    assert link.isascii()
    assert link.isprintable()


class Elements(HTMLParser):
    """Every element with its attributes, and the text inside of each kind."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.text[self._open] = self.text.get(self._open, "") + data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


PAGES = {
    "question": page.question("email", "news"),
    "done": page.done("sms", "news"),
    "needed": page.needed("push", "news"),
    "broken": page.broken(),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_loads_and_runs_nothing(name: str) -> None:
    elements = Elements(PAGES[name])
    assert elements.of("html") == [{"lang": "en"}]
    assert len(elements.of("main")) == len(elements.of("h1")) == 1
    assert elements.text["title"] == elements.text["h1"]
    assert {"name": "robots", "content": "noindex, nofollow"} in elements.of("meta")
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"script", "link", "img", "iframe", "a", "object", "base"}
    assert not any(
        attribute in ("src", "href", "style", "action") or attribute.startswith("on")
        for _, attributes in elements.found
        for attribute in attributes
    )
    policy = page.HEADERS["Content-Security-Policy"]
    style = base64.b64encode(hashlib.sha256(elements.text["style"].encode()).digest()).decode()
    assert f"style-src 'sha256-{style}'" in policy
    assert "default-src 'none'" in policy


def test_only_the_page_that_asks_has_a_form_and_it_is_the_one_click_body() -> None:
    for name, text in PAGES.items():
        elements = Elements(text)
        if name != "question":
            assert elements.of("form") == elements.of("button") == []
            continue
        assert elements.of("form") == [{"method": "post"}]
        assert elements.of("input") == [
            {"type": "hidden", "name": "List-Unsubscribe", "value": "One-Click"}
        ]
        assert elements.of("button") == [{"type": "submit"}]
        assert elements.text["button"] == "Unsubscribe"


def test_a_page_names_the_category_and_the_channel_and_no_mark_up_gets_through() -> None:
    words = {"email": "emails", "sms": "text messages", "push": "push messages"}
    for show in (page.question, page.done, page.needed):
        for channel, word in {**words, "webhook": "webhook messages"}.items():
            assert f"{word} of the kind “news”" in show(channel, "news")
        assert "<script" not in show("email", "<script>")
        assert "{title}" in show("email", "{title}")
