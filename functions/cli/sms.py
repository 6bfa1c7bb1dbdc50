"""`sendoff sms`: where a tenant's SMS may go, how fast, and for how much a day."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from functions.cli.choosing import organization_id_of
from functions.cli.listing import number_of, say, short_time, show_table, write_json
from functions.cli.operating import AsJson, Prefix, Profile, Region, operating, target_of
from functions.cli.stack import StateDir
from functions.core.usual import LEAST_DAYS, LEAST_MESSAGES
from infra.local.state import DEFAULT_FOLDER

app = typer.Typer(no_args_is_help=True, help="Where SMS may go, how fast, and for how much.")
price_app = typer.Typer(no_args_is_help=True, help="What a part of a message costs, by country.")
app.add_typer(price_app, name="price")

_AMOUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)


def is_country(text: str) -> str:
    """Read a country: one that there is not would silently forbid, or price, nothing."""
    from phonenumbers import SUPPORTED_REGIONS  # 60 ms that only these commands need

    country = text.upper()
    if country not in SUPPORTED_REGIONS:
        raise typer.BadParameter(f"There is no country {text!r}: two letters, as GB or FR.")
    return country


def is_amount(text: str) -> str:
    if _AMOUNT.fullmatch(text) is None:
        raise typer.BadParameter("It is an amount like 12.50, in the currency of the prices.")
    return text


Tenant = Annotated[str, typer.Argument(help="The tenant, by id or name.", show_default=False)]
MOST = 1_000_000


@app.command()
def show(
    organization: Tenant,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Show a tenant's countries, limits and budget, what it spent today (UTC), and its mix."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = console.call("sms.show", organization_id=organization_id_of(console, organization))
    if as_json:
        write_json(found)
        return
    countries, budget = found["countries"], found["daily_budget"]
    rows = [
        ("countries", "every one" if countries is None else " ".join(countries) or "none"),
        ("budget a day", "no limit" if budget is None else budget),
        ("spent today", f"{found['spent']} for {number_of(found['messages'], 'message')}"),
        ("to one number an hour", found["number_per_hour"] or "no limit"),
        ("to one prefix an hour", found["prefix_per_hour"] or "no limit"),
        ("unusual a day", found["unusual_per_day"] or "no limit"),
        ("beyond usual times", f"{found['growth']:g}"),
        ("usual mix", "known" if found["usual"]["known"] else "not known yet"),
    ]
    show_table(("WHAT", "IS"), rows)
    if not found["usual"]["known"]:
        say("")
        say(_words_of_unknown(found["usual"]))


def _words_of_unknown(usual: Mapping[str, Any]) -> str:
    since = f"since {short_time(usual['since'])}" if usual["since"] else "so far"
    return (
        f"Its usual mix is known after {LEAST_DAYS} days with {LEAST_MESSAGES} messages before the "
        f"last 24 hours ({usual['messages']:,} {since}). Until then nothing is held as unlike it."
    )


@app.command()
def allow(
    organization: Tenant,
    country: Annotated[
        list[str] | None,
        typer.Option("--country", parser=is_country, metavar="COUNTRY", help="Of these only."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="To every country.")] = False,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Set the countries that a tenant may write to; to any other nothing is sent.

    Without a list, as at the beginning, every country is allowed.
    """
    if bool(country) is every:
        raise typer.BadParameter("Name countries by --country, or say --all.")
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call(
            "sms.allow",
            organization_id=organization_id_of(console, organization),
            countries=country or None,
            every=every,
        )
    if as_json:
        write_json(done)
    elif done["countries"] is None:
        say("Every country is allowed.")
    else:
        say(f"Allowed: {' '.join(done['countries'])}. To any other country nothing is sent.")


@app.command()
def budget(
    organization: Tenant,
    amount: Annotated[
        str | None,
        typer.Argument(parser=is_amount, metavar="AMOUNT", help="A day.", show_default=False),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="No limit.")] = False,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Set what a tenant's SMS may cost a day (UTC); beyond it they wait for the next day.

    What waits already is judged by the new budget at once.
    """
    if (amount is None) is not none:
        raise typer.BadParameter("Name an amount, or say --none.")
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call(
            "sms.budget",
            organization_id=organization_id_of(console, organization),
            amount=amount,
            none=none,
        )
    if as_json:
        write_json(done)
        return
    is_now = done["daily_budget"]
    say("There is no limit a day." if is_now is None else f"It may spend {is_now} a day.")
    if done["woken"]:
        say(f"{number_of(done['woken'], 'message')} waited for tomorrow and may go out now.")


@app.command()
def limits(
    organization: Tenant,
    number_per_hour: Annotated[
        int | None, typer.Option(min=0, max=MOST, help="Messages to one number.")
    ] = None,
    prefix_per_hour: Annotated[
        int | None, typer.Option(min=0, max=MOST, help="Messages to one prefix.")
    ] = None,
    unusual_per_day: Annotated[
        int | None, typer.Option(min=0, max=MOST, help="Messages beyond what is no surprise.")
    ] = None,
    growth: Annotated[
        float | None,
        typer.Option(min=1, max=1000, help="How many times the usual is no surprise."),
    ] = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Set how fast a tenant's SMS may go, and how unusual they may be; 0 is no limit."""
    chosen: dict[str, Any] = {
        "number_per_hour": number_per_hour,
        "prefix_per_hour": prefix_per_hour,
        "unusual_per_day": unusual_per_day,
        "growth": growth,
    }
    if all(value is None for value in chosen.values()):
        raise typer.BadParameter("Name at least one limit.")
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call(
            "sms.limits", organization_id=organization_id_of(console, organization), **chosen
        )
    if as_json:
        write_json(done)
    else:
        say("Set. It counts from the next message on.")


@price_app.command("list")
def list_prices(
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """List the prices; a country without one costs the highest of them."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        found = console.call("sms.prices")
    if as_json:
        write_json(found)
    elif found["data"]:
        rows = [(row["country"], row["amount"]) for row in found["data"]]
        show_table(("COUNTRY", "PRICE OF A PART"), rows)
    else:
        say("There is no price.")


@price_app.command("set")
def set_price(
    country: Annotated[
        str, typer.Argument(parser=is_country, metavar="COUNTRY", help="Two letters.")
    ],
    amount: Annotated[str, typer.Argument(parser=is_amount, metavar="AMOUNT", help="Of one part.")],
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Set what a part of a message to a country costs, from the next message on."""
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call("sms.price", country=country, amount=amount)
    if as_json:
        write_json(done)
    else:
        say(f"A part of a message to {done['country']} costs {done['amount']}.")
