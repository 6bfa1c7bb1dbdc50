"""What `sendoff explain` shows of a decision, of what it was made of, of candidates and faults."""

from collections.abc import Mapping, Sequence
from typing import Any

from functions.cli.listing import NOTHING, number_of, say, short_time, show_table

_CHOICES = {
    None: "none made of its category on its channel",
    True: "opted in to its category on its channel",
    False: "opted out of its category on its channel",
}


def particulars_of_decision(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is known beyond a literal address and a text, name by name."""
    row, parent = told["notification"], told["parent"]
    particulars: list[tuple[str, str]] = []
    if row["event_id"]:
        particulars.append(("Event", row["event_id"]))
    if row["template"]:
        name, version = row["template"]["name"], row["template"]["version"]
        particulars.append(("Template", f"{name}, version {version}" if version else name))
    if parent:
        particulars.append(("Parent", f"{parent['id']}, {parent['status']}"))
    if row["recipient_id"]:
        particulars += _of_recipient(row["recipient_id"], told["decision"])
    if row["erased_at"]:
        particulars.append(("Erased", f"at {short_time(row['erased_at'])}"))
    return particulars


def _of_recipient(recipient_id: str, decision: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return what was decided of a recipient by reference, and from what."""
    if decision is None or decision["recipient_version"] is None:
        known = "" if decision is None else "; nothing was left of them when it was decided"
        return [("Recipient", f"{recipient_id}{known}")]
    rules = decision["rules_version"]
    particulars = [
        (
            "Recipient",
            f"{recipient_id}, version {decision['recipient_version']} (running number)",
        ),
        (
            "Decided",
            f"{decision['verdict']}, by policy {decision['policy_version']} and "
            + (f"the category's rules {rules}" if rules else "no rules of its category"),
        ),
    ]
    if decision["contact_point"]:
        verified = "verified" if decision["contact_point"]["verified"] else "not verified"
        particulars.append(("Goes to", f"{decision['contact_point']['channel']}, {verified}"))
    particulars += [
        ("Locale", decision["locale"] or NOTHING),
        ("Zone", zone_words(decision)),
        ("Choice", _CHOICES[decision["preference"]]),
    ]
    if decision["quiet_hours"]:
        particulars.append(("Quiet", hours_words(decision["quiet_hours"])))
    if decision["window"]:
        particulars.append(("Window", hours_words(decision["window"])))
    return particulars


def zone_words(decision: Mapping[str, Any]) -> str:
    """Return a zone and what its clock showed when it was decided."""
    zone = decision["time_zone"] or "none, so UTC"
    shown = decision["local_time"]
    return f"{zone}; {shown[:16].replace('T', ' ')} there when it was decided" if shown else zone


def hours_words(window: Mapping[str, str]) -> str:
    return f"{window['start']}–{window['end']}"


def show_candidates(children: Sequence[Mapping[str, Any]]) -> None:
    """Write the candidates of a notification by several channels."""
    if not children:
        return
    say("")
    show_table(
        ("CANDIDATE", "CHANNEL", "ID", "STATUS", "NEXT", "AT"),
        [
            (
                one["place"] + 1,
                one["channel"],
                one["id"],
                f"{one['status']} ({one['reason']})" if one["reason"] else one["status"],
                one["next"]["action"] if one["next"] else NOTHING,
                short_time(one["next"]["at"]) if one["next"] else NOTHING,
            )
            for one in children
        ],
    )


def show_faults(faults: Sequence[Mapping[str, Any]]) -> None:
    """Write what is wrong with what was asked for."""
    if not faults:
        return
    say("")
    say(f"{number_of(len(faults), 'fault')} in what was asked for:")
    show_table(
        ("WHERE", "CODE", "WHAT"),
        [(one["pointer"] or "/", one["code"], one["detail"]) for one in faults],
    )
