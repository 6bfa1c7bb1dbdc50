"""`sendoff recover`: after a restore, before anything is sent again.

A restored database knows nothing of what was sent after the moment it was restored to. Whatever
may have been sent is marked as such, so that nothing goes out twice unseen. The channels stand
still meanwhile, and whatever interrupts this says how to go on: to repeat it marks nothing twice.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from functions.cli.console import Console
from functions.cli.console_error import ConsoleError, Unreachable
from functions.cli.listing import number_of, say, write_json
from functions.cli.operating import (
    AsJson,
    Prefix,
    Profile,
    Region,
    Yes,
    advancing,
    confirm,
    moment,
    operating,
    options_of,
    target_of,
    written,
)
from functions.cli.stack import StateDir
from functions.core.states import Channel
from infra.local.state import DEFAULT_FOLDER

INTERRUPTED = 130

PLAN = """\
After the database was restored to {since}, it shows as waiting, or as being sent, what may have
been sent since. This will

  1. pause every channel, so that nothing is sent meanwhile,
  2. mark each such notification as one that may have been accepted: evidence, the provider's own
     keys or its channel's policy decide what becomes of it,
  3. let the channels go on that it paused.

Whenever it is interrupted, it is safe to run it again."""


def recover(
    since: Annotated[
        datetime,
        typer.Option(
            "--since",
            parser=moment,
            metavar="TIME",
            help="The moment the database was restored to, in RFC 3339 with its offset.",
            show_default=False,
        ),
    ],
    resume: Annotated[
        list[Channel] | None,
        typer.Option("--resume", help="A channel that an interrupted run left paused."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    profile: Profile = None,
    region: Region = None,
    prefix: Prefix = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """After a restore, mark what may have been sent in the time that was lost.

    Run it before senders start. It pauses every channel, marks, and lets go on what it paused.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it says how to go on, however ended
    if since > datetime.now(UTC):
        raise typer.BadParameter("It lies in the future.", param_hint="--since")
    target = target_of(state_dir, profile=profile, region=region, prefix=prefix)
    with operating(target, as_json=as_json) as console:
        typer.echo(PLAN.format(since=written(since)), err=True)
        confirm("Go on?", yes=yes)
        recovery = Recovery(
            console=console,
            since=written(since),
            stopped=sorted(set(resume or [])),
            options=options_of(target),
        )
        done = recovery.run()
    if as_json:
        write_json(done)
        return
    resumed = ", ".join(done["resumed"]) or "no channel"
    say(
        f"{number_of(done['marked'], 'notification')} marked as possibly sent; "
        f"{resumed} let go on. `sendoff uncertain list` shows what waits for evidence."
    )


@dataclass(slots=True, kw_only=True)
class Recovery:
    """One run; ``stopped`` are the channels to let go on at its end."""

    console: Console
    since: str
    stopped: Sequence[str]
    options: str
    done: dict[str, Any] = field(
        default_factory=lambda: {"action_ids": [], "paused": [], "marked": 0, "resumed": []}
    )

    def run(self) -> dict[str, Any]:
        """Pause, mark, let go on; raise with words on how to go on when it cannot."""
        try:
            self._pause()
            self._mark()
            self._resume()
        except ConsoleError as error:
            error.detail += f"\n{self._how_to_go_on(error)}"
            error.partial = {**self.done, "go_on": self.command()}
            raise
        except KeyboardInterrupt:
            typer.echo(f"\nInterrupted. {self._how_to_go_on(None)}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        return self.done

    def command(self) -> str:
        """Return the command that goes on."""
        resume = "".join(f" --resume {name}" for name in self.stopped)
        return f"sendoff recover --since {self.since}{resume} --yes{self.options}"

    def _how_to_go_on(self, error: ConsoleError | None) -> str:
        again = f"To go on, run\n\n  {self.command()}\n"
        if self.stopped:
            return f"The channels {', '.join(self.stopped)} stay paused. {again}"
        if error is None or (isinstance(error, Unreachable) and error.maybe_done):
            return (
                "Channels may have been paused; one that stays so goes on with --resume <channel>. "
                f"{again}"
            )
        return again

    def _pause(self) -> None:
        paused = self._call("recover.pause")["paused"]
        self.done["paused"] = paused
        self.stopped = sorted({*self.stopped, *paused})

    def _mark(self) -> None:
        following: str | None = None
        with advancing("Marked", total=None) as advance:
            while True:
                page = self._call("recover", since=self.since, after=following)
                self.done["marked"] += page["marked"]
                advance(self.done["marked"])
                following = page["next"]
                if following is None:
                    return

    def _resume(self) -> None:
        if self.stopped:
            self.done["resumed"] = self._call("recover.resume", channels=list(self.stopped)).get(
                "resumed", list(self.stopped)
            )

    def _call(self, command: str, **arguments: Any) -> dict[str, Any]:
        result = self.console.call(command, **arguments)
        self.done["action_ids"].append(result["action_id"])
        return result
