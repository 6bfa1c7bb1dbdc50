"""The page behind an unsubscribe link: what will happen, and what has happened.

It loads nothing, runs nothing and tells nobody where it was opened; it names the category and the
channel, never the address. Its form goes to the page's own address, which holds the token.
"""

import base64
import hashlib
from html import escape

from functions.core.states import Channel

_STYLE = """
:root { --ground: #f6f5f1; --card: #fffefb; --line: #dedbd2; --ink: #23282c; --accent: #1f6484; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14181b; --card: #1b2125; --line: #303940; --ink: #e6e8e6; --accent: #7dbbd9; }
}
body { margin: 0; padding: 10vh 1.25rem 2rem; background: var(--ground); color: var(--ink);
  font: 17px/1.5 system-ui, sans-serif; }
main { max-width: 32rem; margin: 0 auto; padding: 1.5rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .6rem; overflow-wrap: anywhere; }
h1 { font-size: 1.35rem; margin: 0 0 .8rem; }
p { margin: 0 0 .8rem; }
button { font: inherit; font-weight: 600; color: var(--card); background: var(--accent); border: 0;
  border-radius: .4rem; padding: .6rem 1.2rem; cursor: pointer; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex, nofollow">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""

# The one-click body of RFC 8058: whoever posts, it is the same request.
_FORM = """<form method="post">
<input type="hidden" name="List-Unsubscribe" value="One-Click">
<button type="submit">Unsubscribe</button>
</form>"""

_MESSAGES = {
    Channel.EMAIL: "emails",
    Channel.SMS: "text messages",
    Channel.PUSH: "push messages",
    Channel.WEBHOOK: "webhook messages",
}

_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
CONTENT_TYPE = "text/html; charset=utf-8"
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    # The address holds the token: it is told to no other site, and to no search engine.
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow",
    "X-Content-Type-Options": "nosniff",
}


def question(channel: str, category: str) -> str:
    """Return the page that asks: nothing has happened yet."""
    return _page(
        "Unsubscribe?",
        f"Press the button to get no more {_kind(channel, category)} from this sender. "
        "Nothing changes about messages of other kinds.",
        more=_FORM,
    )


def done(channel: str, category: str) -> str:
    """Return the page that says that it is done, now or earlier."""
    return _page(
        "You are unsubscribed",
        f"You get no more {_kind(channel, category)} from this sender. One that is on its way "
        "already may still arrive. Nothing has changed about messages of other kinds.",
        "You can close this page.",
    )


def needed(channel: str, category: str) -> str:
    """Return the page about a category that has become one that nobody can stop."""
    return _page(
        "These messages cannot be stopped",
        f"This sender needs its {_kind(channel, category)} for a service that you use, as it does "
        "codes for signing in. They keep coming; nothing was changed.",
    )


def broken() -> str:
    """Return the page about a link that is none of ours."""
    return _page(
        "This link does not work",
        "It may have been cut off on its way to you. Open it from the message once more, and if "
        "you copied it, copy all of it. Nothing was changed.",
    )


def _kind(channel: str, category: str) -> str:
    return f"{_MESSAGES[Channel(channel)]} of the kind “{escape(category)}”"


def _page(title: str, *paragraphs: str, more: str = "") -> str:
    body = "\n".join([*(f"<p>{paragraph}</p>" for paragraph in paragraphs), more]).rstrip()
    return _PAGE.format(title=title, style=_STYLE, body=body)
