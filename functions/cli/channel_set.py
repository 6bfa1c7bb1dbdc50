"""`sendoff channel set`: everything about a channel that can be changed while it works."""

from typing import Annotated

import typer

from functions.cli.channel_tuning import (
    ClearedOfChannel,
    OfChannel,
    OnOff,
    column_of,
    given,
    number,
    tell_changes,
)
from functions.cli.listing import write_json
from functions.cli.operating import AsJson, Prefix, Profile, Region, operating, target_of
from functions.cli.stack import StateDir
from functions.core.retry import Curve, UnknownPolicy
from infra.local.state import DEFAULT_FOLDER

PROVIDERS, PACE, RETRY, CONFIRM = "Providers", "Pace", "Retry", "Confirmation"


def _amount(
    option: str, help: str, *, panel: str, metavar: str = "SECONDS"
) -> typer.models.OptionInfo:
    return typer.Option(option, parser=number, metavar=metavar, help=help, rich_help_panel=panel)


def set_channel(
    channel: OfChannel,
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider",
            help="Who sends; it is called at no address of its own until one is given.",
            rich_help_panel=PROVIDERS,
        ),
    ] = None,
    provider_url: Annotated[
        str | None,
        typer.Option("--provider-url", help="Where it is called.", rich_help_panel=PROVIDERS),
    ] = None,
    fallback_provider: Annotated[
        str | None,
        typer.Option(
            "--fallback-provider",
            help="Who sends what the first one provably did not take.",
            rich_help_panel=PROVIDERS,
        ),
    ] = None,
    fallback_provider_url: Annotated[
        str | None,
        typer.Option(
            "--fallback-provider-url", help="Where that one is called.", rich_help_panel=PROVIDERS
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        _amount(
            "--deadline",
            "For one call of a provider; less than a sixth of the lease.",
            panel=PROVIDERS,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        _amount("--rate", "Leases per second.", panel=PACE, metavar="NUMBER"),
    ] = None,
    burst: Annotated[
        float | None,
        _amount("--burst", "Leases at once after a pause.", panel=PACE, metavar="NUMBER"),
    ] = None,
    max_in_flight: Annotated[
        int | None,
        typer.Option("--max-in-flight", help="Leases at a time.", rich_help_panel=PACE),
    ] = None,
    page: Annotated[
        int | None, typer.Option("--page", help="Leases per round.", rich_help_panel=PACE)
    ] = None,
    endpoint_concurrency: Annotated[
        int | None,
        typer.Option(
            "--endpoint-concurrency",
            help="Calls of one webhook endpoint at a time.",
            rich_help_panel=PACE,
        ),
    ] = None,
    retries: Annotated[
        OnOff | None,
        typer.Option(
            "--retries",
            help="Off: due retries wait, first attempts go on.",
            rich_help_panel=RETRY,
        ),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            "--max-attempts",
            help="Of a notification that is accepted from now on.",
            rich_help_panel=RETRY,
        ),
    ] = None,
    backoff_base: Annotated[
        float | None, _amount("--backoff-base", "Before the second attempt.", panel=RETRY)
    ] = None,
    backoff_cap: Annotated[
        float | None, _amount("--backoff-cap", "Between attempts at most.", panel=RETRY)
    ] = None,
    backoff_curve: Annotated[
        Curve | None,
        typer.Option("--backoff-curve", help="How the waits grow.", rich_help_panel=RETRY),
    ] = None,
    waiting_limit: Annotated[
        float | None,
        _amount("--waiting-limit", "Throttled or blocked in all, until it is held.", panel=RETRY),
    ] = None,
    cutoff: Annotated[
        float | None,
        _amount("--cutoff", "After acceptance, until it ends unconfirmed.", panel=CONFIRM),
    ] = None,
    grace: Annotated[
        float | None,
        _amount("--grace", "For evidence about an unknown outcome.", panel=CONFIRM),
    ] = None,
    unknown_policy: Annotated[
        UnknownPolicy | None,
        typer.Option(
            "--unknown-policy",
            help="What becomes of an unknown outcome after the grace.",
            rich_help_panel=CONFIRM,
        ),
    ] = None,
    check_base: Annotated[
        float | None, _amount("--check-base", "Before the first look-up.", panel=CONFIRM)
    ] = None,
    check_cap: Annotated[
        float | None, _amount("--check-cap", "Between look-ups at most.", panel=CONFIRM)
    ] = None,
    poll_rate: Annotated[
        float | None,
        _amount("--poll-rate", "Look-ups per second.", panel=CONFIRM, metavar="NUMBER"),
    ] = None,
    fallback_after: Annotated[
        float | None,
        _amount(
            "--fallback-after",
            "For a candidate of several channels, until the next one is started.",
            panel=CONFIRM,
        ),
    ] = None,
    clear: Annotated[
        list[ClearedOfChannel] | None,
        typer.Option("--clear", help="Do without it; repeat it for several."),
    ] = None,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Change how a channel works; what is not named stays as it is.

    The next deployment leaves it so, unless it deploys another value than the last one did.
    """
    settings = given(
        {
            "provider": provider,
            "provider_url": provider_url,
            "fallback_provider": fallback_provider,
            "fallback_provider_url": fallback_provider_url,
            "provider_deadline_seconds": deadline,
            "rate": rate,
            "burst": burst,
            "max_in_flight": max_in_flight,
            "page": page,
            "endpoint_concurrency": endpoint_concurrency,
            "retries": None if retries is None else retries is OnOff.ON,
            "max_attempts": max_attempts,
            "backoff_base_seconds": backoff_base,
            "backoff_cap_seconds": backoff_cap,
            "backoff_curve": backoff_curve,
            "waiting_limit_seconds": waiting_limit,
            "cutoff_seconds": cutoff,
            "grace_seconds": grace,
            "unknown_policy": unknown_policy,
            "check_base_seconds": check_base,
            "check_cap_seconds": check_cap,
            "poll_rate": poll_rate,
            "fallback_after_seconds": fallback_after,
        },
        clear,
    )
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        done = console.call(
            "channel.set",
            channel=channel,
            settings=settings or None,
            clear=[column_of(one) for one in clear] if clear else None,
        )
    if as_json:
        write_json(done)
    else:
        tell_changes(done)
