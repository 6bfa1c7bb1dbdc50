"""FAULTS G2 and G3: which values a template may be given, and that none changes more than words."""

import dataclasses
from email.header import Header
from typing import Any

import pytest

from functions.core.content import read_content
from functions.core.errors import Fault
from functions.core.stream import SenderIdentity
from functions.providers.aws import AwsCall, AwsClient
from functions.providers.ses import SesProvider
from functions.providers.transport import Transport
from functions.templates.render import render
from functions.templates.use import check_use
from functions.templates.values import MAX_DATA_BYTES, MAX_DATA_DEPTH
from tests.submissions import submission
from tests.words import document, everywhere, rendered

HI = everywhere("Hi {{ name }}")
EVERY = ("email", "sms", "push")


def faults_of(version: dict[str, Any], data: Any, channels: Any = EVERY) -> list[tuple[str, str]]:
    found = check_use(version, channels=channels, data=data)
    return [(fault.pointer, fault.code) for fault in found]


@pytest.mark.parametrize("data", [{}, {"name": None}, {"Name": "Ada"}, {"name ": "Ada"}])
def test_g2_a_variable_that_is_missing_null_or_spelled_otherwise_is_named(
    data: dict[str, Any],
) -> None:
    assert faults_of(HI, data) == [("/data/name", "missing_variable")]


@pytest.mark.parametrize(
    ("value", "text"),
    [("", ""), (0, "0"), (False, "false"), (True, "true"), (0.0, "0"), (1.50, "1.5"), (-3, "-3")],
)
def test_g2_empty_zero_and_false_are_values(value: Any, text: str) -> None:
    assert faults_of(HI, {"name": value}) == []
    words = rendered(HI, name=value)
    # A subject and a title are trimmed.
    assert {part: words[part].strip() for part in words} == dict.fromkeys(
        words, f"Hi {text}".strip()
    )


@pytest.mark.parametrize("value", [[], ["a"], {}, {"first": "Ada"}, [None], {"a": {"b": [1]}}])
def test_g2_a_list_or_an_object_is_no_text(value: Any) -> None:
    faults = check_use(HI, channels=EVERY, data={"name": value})
    assert {(fault.pointer, fault.code) for fault in faults} == {("/data", "not_allowed")}
    assert "In sms, en: text: A list or an object has no text" in faults[1].detail


def test_g2_lists_and_objects_are_read_element_by_element() -> None:
    source = "{{ user.name.first }}{% for tag in user.tags %} #{{ tag }}{% endfor %}"
    version = everywhere(source)
    given = {"user": {"name": {"first": "Ada"}, "tags": ["x", 0, False, ""]}}
    assert faults_of(version, given) == []
    assert rendered(version, **given)["sms.text"] == "Ada #x #0 #false #"
    missing: list[tuple[dict[str, Any], str]] = [
        ({}, "/data/user/name/first"),
        ({"user": {}}, "/data/user/name/first"),
        ({"user": {"name": "Ada", "tags": []}}, "/data/user/name/first"),
        ({"user": {"name": ["Ada"], "tags": None}}, "/data/user/tags"),
        ({"user": {"name": {"First": "Ada"}, "tags": []}}, "/data/user/name/first"),
    ]
    for data, pointer in missing:
        assert (pointer, "missing_variable") in faults_of(version, data)
    nothing_in_a_list = {"user": {"name": {"first": "Ada"}, "tags": ["x", None]}}
    assert faults_of(version, nothing_in_a_list) == [("/data/user/tags/1", "missing_variable")]


def test_g2_a_member_missing_in_an_element_of_a_list_is_named() -> None:
    source = (
        "{% for i in items %}{{ i.name }}{% for t in i.tags %}{{ t.k }}{% endfor %}{% endfor %}"
    )
    version = document(sms={"en": {"text": "Hi"}}, push={"en": {"body": source}})
    full = {"name": "x", "tags": [{"k": 1}]}
    cases: list[tuple[Any, list[str]]] = [
        ([], []),
        ([full], []),
        ([full, {"name": "x", "tags": []}], []),
        ([full, {}], ["1/name", "1/tags"]),
        ([{"name": None, "tags": [{"k": 1}, {"k": None}]}], ["0/name", "0/tags/1/k"]),
        ([full, 7], ["1/name", "1/tags"]),
    ]
    for items, places in cases:  # though only the other channel uses them
        assert faults_of(version, {"items": items}, ["sms"]) == [
            (f"/data/items/{place}", "missing_variable") for place in places
        ]


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("{% assign u = user %}{{ u.name }}{% assign v = u.more %}{{ v.x }}", "more more/x name"),
        ("{% assign u = user %}{% assign u = 'x' %}{{ u.name }}", ""),
        ("{% assign u = user | default: 'x' %}{{ u.name }}", ""),
        ("{% for u in user.list %}{% assign w = u %}{{ w.name }}{% endfor %}", ""),
        ("{% for u in user.list limit: 1 %}{{ u.name }}{% endfor %}", ""),
        ("{% for u in user.list %}{{ u.name }}{% break %}{% endfor %}", ""),
        ("{% for u in user.list %}{{ u.name | default: '' }}{% endfor %}", ""),
        ("{% for u in user.map %}{{ u.name }}{% endfor %}", ""),
        ("{{ user.list[1].x }}{{ user.list.last.y }}{{ user.list.size }}", "list/1/x list/last/y"),
        ("{{ user[key].name }}", ""),
        ("{{ user.list.name }}{{ user.text.size }}", "list/name"),
    ],
)
def test_g2_what_a_local_name_stands_for_is_asked_of_the_client(source: str, missing: str) -> None:
    version = document(sms={"en": {"text": "Hi"}}, push={"en": {"body": f"{source}x"}})
    user = {"list": [{"a": 1}], "map": {"a": 1}, "text": "x"}
    assert faults_of(version, {"user": user, "key": "map"}, ["sms"]) == [
        (f"/data/user/{place}", "missing_variable") for place in missing.split()
    ]


def test_g2_more_than_is_asked_for_does_no_harm() -> None:
    assert faults_of(HI, {"name": "Ada", "other": None, "nested": {"a": [1]}}) == []
    assert rendered(HI, name="Ada", other="{{ name }}")["push.body"] == "Hi Ada"


def test_g2_what_has_a_default_need_not_be_given() -> None:
    version = everywhere("Hi {{ user.name | default: fallback }}")
    assert faults_of(version, {"fallback": "you"}) == []
    assert faults_of(version, {"user": {"name": None}, "fallback": "you"}) == []
    assert faults_of(version, {"user": {"name": "Ada"}}) == [("/data/fallback", "missing_variable")]
    assert rendered(version, user={"name": "Ada"}, fallback="you")["sms.text"] == "Hi Ada"
    # Used once without a default, it must be given.
    assert faults_of(everywhere("{{ a | default: 'x' }}{{ a }}"), {}) == [
        ("/data/a", "missing_variable")
    ]
    assert faults_of(everywhere("{{ a | upcase | default: 'x' }}"), {}) == [
        ("/data/a", "missing_variable")
    ]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("{% if a %}{{ b }}{% elsif c == d %}{% else %}{{ e.f }}{% endif %}", "a b c d e/f"),
        ("{% for x in a %}{{ x }}{{ forloop.index }}{{ b }}{% endfor %}{{ x }}", "a b x"),
        ("{% assign a = b %}{{ a }}{% capture c %}{{ d }}{% endcapture %}{{ c }}", "b d"),
        ("{{ a }}{% assign a = 'x' %}{{ a }}", "a"),
        ("{{ 'x' | append: a | replace: b, c.d }}", "a b c/d"),
        ("{% case a %}{% when b, c %}x{% endcase %}{% unless d %}{% endunless %}", "a b c d"),
        ("{% for x in (a..b) limit: c offset: d %}{% endfor %}x", "a b c d"),
        ("{{ a[b].c }}{{ d['e f'] }}{{ g.size }}", "a b d/e f g/size"),
        ("{% comment %}{{ a }}{% endcomment %}{% # a %}x", ""),
    ],
)
def test_g2_every_variable_of_every_branch_is_asked_for(source: str, names: str) -> None:
    expected = [
        (f"/data/{name}", "missing_variable") for name in names.replace("e f", "e_f").split()
    ]
    found = [
        (pointer.replace("e f", "e_f"), code) for pointer, code in faults_of(everywhere(source), {})
    ]
    if names:
        assert found == expected
    else:
        assert found == []


def test_g2_every_channel_and_locale_of_the_version_is_asked_for() -> None:
    version = document(
        email={
            "en": {"subject": "{{ a }}", "text": "x"},
            "de": {"subject": "x", "text": "x", "html": "{{ b }}"},
        },
        sms={"en": {"text": "{{ c }}"}},
    )
    missing = [(f"/data/{name}", "missing_variable") for name in "abc"]
    assert faults_of(version, {}, ["sms"]) == missing
    assert faults_of(version, {"a": "", "b": "", "c": "c"}, ["sms"]) == []
    assert faults_of(version, {"a": "", "b": "", "c": ""}, ["sms"]) == [("/data", "required")]
    assert faults_of(version, {}, ["push"]) == [("/name", "not_allowed")]


def test_g2_what_would_not_be_a_content_is_found_in_its_locale() -> None:
    version = document(sms={"en": {"text": "{{ t }}"}, "de": {"text": "Guten Tag. {{ t }}"}})
    assert faults_of(version, {"t": "x" * 1589}, ["sms"]) == []
    assert check_use(version, channels=["sms"], data={"t": "x" * 1590}) == [
        Fault("/data", "too_long", "In sms, de: An SMS has at most 1600 characters.")
    ]


def test_g2_values_as_a_whole_are_an_object_of_bounded_size_and_depth() -> None:
    deep: Any = "x"
    for _ in range(MAX_DATA_DEPTH + 1):
        deep = [deep]
    no_objects: list[Any] = [[], "x", None, 7]
    for data in no_objects:
        assert faults_of(HI, data) == [("/data", "wrong_type")]
    assert faults_of(HI, {"name": "x", "deep": deep}) == [("/data", "not_encodable")]
    assert faults_of(HI, {"name": "x" * MAX_DATA_BYTES}) == [("/data", "too_long")]
    long = everywhere("{{ name | slice: 0 }}")
    assert faults_of(long, {"name": "x" * (MAX_DATA_BYTES - 20)}) == []


BREAKS = ["\r\n", "\r", "\n", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x00", "\t"]


@pytest.mark.parametrize("line_break", BREAKS)
def test_g3_a_value_brings_no_line_into_a_subject_an_sms_or_a_push(line_break: str) -> None:
    name = f"x{line_break}Bcc: b@example.com"
    assert faults_of(HI, {"name": name}) == []
    words = rendered(HI, name=name)
    flat = "Hi x Bcc: b@example.com"
    for part in ("email.subject", "sms.text", "push.title", "push.body"):
        assert words[part] == flat
        assert len(words[part].splitlines()) == 1
    assert words["email.text"] == words["email.html"] == f"Hi {name}"


def test_g3_only_the_text_of_an_email_has_lines() -> None:
    words = rendered(everywhere("Hi\n  {{ name }}\r\n!\n"), name="a\nb")
    assert words.pop("email.text") == words.pop("email.html") == "Hi\n  a\nb\r\n!\n"
    assert set(words.values()) == {"Hi   a b !"}


@pytest.mark.parametrize(
    "source",
    [
        "{% for p in o %}{{ p[0] }}{% endfor %}",
        "{{ e | escape_once }}", "{{ n | newline_to_br }}", "{{ n | escape | append: n }}",
        "{% capture c %}\n{{ n }}\n{% endcapture %}{{ c }}", "{{ l | join: n }}",
        "{{ '2026-01-01' | date: n }}", "{{ n | split: 'x' | last }}", "{{ m | map: n | first }}",
    ],
)  # fmt: skip
def test_g3_nothing_that_a_template_makes_of_a_value_is_a_line(source: str) -> None:
    bad = "z\r\nInjected: 1\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\x00y"
    entities = "x&#13;&#10;Bcc: y&NewLine;z&#x2028;&#x85;&#12;q"
    words = rendered(
        everywhere(f"a {source} b"), n=bad, o={bad: 1}, l=[bad, bad], m=[{bad: bad}], e=entities
    )
    for part in ("email.subject", "sms.text", "push.title", "push.body"):
        assert len(words[part].splitlines()) == 1
        assert words[part].isprintable()


@pytest.fixture(scope="module")
def provider() -> SesProvider:
    """A provider whose SES is not there: a client takes its time to be made, so one for all."""
    client = AwsClient(
        "sesv2", transport=Transport(), endpoint_url="http://127.0.0.1:9", region="eu-central-1"
    )
    return SesProvider(client=client)


@pytest.mark.parametrize("line_break", BREAKS)
def test_g3_the_request_to_ses_has_one_recipient_and_no_header_of_a_value(
    provider: SesProvider, line_break: str
) -> None:
    content = render(
        HI, channel="email", locale="en", data={"name": f"x{line_break}Bcc: b@example.com"}
    )
    call = provider.prepare(
        dataclasses.replace(
            submission(),
            content=read_content("email", content),
            sender=SenderIdentity(
                identity="no-reply@example.com", settings={"from_name": 'Acme, Inc "Q"'}
            ),
        )
    )
    assert isinstance(call, AwsCall)
    request = call.parameters
    assert request["Destination"] == {"ToAddresses": ["ok@example.com"]}
    simple = request["Content"]["Simple"]
    assert set(simple) == {"Subject", "Body"}
    assert simple["Subject"]["Data"] == "Hi x Bcc: b@example.com"
    # As the header that SES makes of it.
    assert Header(simple["Subject"]["Data"], "utf-8").encode(linesep="").count("\n") == 0
    assert request["FromEmailAddress"] == '"Acme, Inc \\"Q\\"" <no-reply@example.com>'


@pytest.mark.parametrize(
    "value",
    [
        '<a href="https://evil.example">x</a>',
        "[x](https://evil.example)",
        "<script>alert(1)</script>",
        "&lt;b&gt;",
        "'\" onmouseover=x",
    ],
)
def test_g3_a_value_is_no_markup(value: str) -> None:
    sources = (
        "{{ name }}", "{{ name | append: name }}", "{{ name | prepend: '<b>' | append: '</b>' }}",
        "{{ name | replace: '&lt;', '<' | replace: '&gt;', '>' }}", "{{ name | escape }}",
        "{% capture c %}{{ name }}{% endcapture %}{{ c }}{{ c | append: name }}",
        "{% capture c %}{{ name }}{% endcapture %}{{ c | replace: '&lt;', '<' }}",
        "{% capture c %}{{ name }}{% endcapture %}{{ c | split: '&lt;' | join: '<' }}",
        "{% assign a = name | split: ' ' %}{{ a | join: ' ' }}{% for x in a %}{{ x }}{% endfor %}",
        "{{ name | newline_to_br }}", "{{ name | strip_newlines }}", "{{ name | url_encode }}",
        "{{ name | escape_once }}", "{{ nothing | default: name }}", "{{ l | join: '<br>' }}",
        "{{ l | first }}{{ l[0] | upcase }}", "{{ name | truncate: 60 }}{{ name | slice: 0, 99 }}",
    )  # fmt: skip
    for source in sources:
        words = rendered(everywhere(source), name=value, l=[value])
        html = words["email.html"].replace("<b>", "").replace("</b>", "")
        for character in "<>\"'":
            assert character not in html, source
        for part in set(words) - {"email.html"}:
            if source == "{{ name }}":
                assert words[part] == value


def test_g3_an_ampersand_is_escaped_in_html_alone() -> None:
    words = rendered(HI, name="Tom & Jerry")
    html = words.pop("email.html")
    assert html == "Hi Tom &amp; Jerry"
    assert set(words.values()) == {"Hi Tom & Jerry"}
    assert (
        rendered(everywhere("<b>{{ name }}</b> & co"), name="&")["email.html"]
        == "<b>&amp;</b> & co"
    )
