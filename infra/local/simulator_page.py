"""What the simulator's page shows: the page itself (simulator.html) and the figures it polls."""

from collections.abc import Reversible
from itertools import islice
from pathlib import Path
from typing import Any, cast

from infra.local.simulator_gateway import Gateway
from infra.local.simulator_ledger import REQUESTS_KEPT, Entry

RECENT = 60
EXCERPT = 140

PAGE = Path(__file__).with_name("simulator.html").read_bytes()
POLICY = (
    b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    b"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""The page runs nothing but itself, whatever a message contains."""


def activity(gateway: Gateway) -> dict[str, Any]:
    """Return counters per channel and behaviour, and the newest requests and effects first."""
    ledger, callbacks = gateway.ledger, gateway.callbacks
    return {
        "counts": [
            {
                "channel": channel,
                "behaviour": kind,
                "requests": requests,
                "effects": ledger.effect_counts[channel, kind],
            }
            for (channel, kind), requests in sorted(ledger.request_counts.items())
        ],
        "callbacks": {"pending": callbacks.pending, **callbacks.counts},
        "faults": gateway.faults.as_json(),
        "kept": REQUESTS_KEPT,
        "requests": _newest(ledger.requests.entries),
        "effects": _newest(ledger.effects.entries),
    }


def _newest(entries: Reversible[Entry]) -> list[dict[str, Any]]:
    return [
        {**entry.summary(), "excerpt": excerpt(entry.content())}
        for entry in islice(reversed(entries), RECENT)
    ]


def excerpt(body: Any) -> str:
    """Return the first words of what the recipient would read."""
    content = body
    if isinstance(body, dict):
        members = cast(dict[str, Any], body)
        content = members.get("content", members.get("data", body))
    if isinstance(content, dict):
        members = cast(dict[str, Any], content)
        parts = [members.get(name) for name in ("subject", "title", "text", "body", "event")]
        content = " · ".join(part for part in parts if isinstance(part, str)) or members
    text = " ".join(str(content).split())
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"
