"""Documents of templates as tests make them, rendered as they are sent."""

from typing import Any

from functions.templates.render import render


def document(default_locale: str = "en", **channels: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return a version with these channels."""
    return {"channels": channels, "default_locale": default_locale}


def everywhere(source: str) -> dict[str, Any]:
    """Return a version that says the same in every part of every channel."""
    return document(
        email={"en": {"subject": source, "text": source, "html": source}},
        sms={"en": {"text": source}},
        push={"en": {"title": source, "body": source}},
    )


def rendered(version: dict[str, Any], **data: Any) -> dict[str, str]:
    """Return every part of every channel in English, by channel and part."""
    words: dict[str, str] = {}
    for channel in version["channels"]:
        content = render(version, channel=channel, locale="en", data=data)
        parts = {"text": content} if isinstance(content, str) else content
        words |= {f"{channel}.{part}": text for part, text in parts.items()}
    return words
