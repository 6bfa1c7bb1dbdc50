"""`sendoff`: the command line, for the local stack and for operators."""

import sys
from typing import Any

import click
import typer
from typer.core import TyperGroup

from functions.cli import logs, stack
from functions.core.errors import SendoffError


class Commands(TyperGroup):
    """Says what went wrong in words, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SendoffError as error:
            typer.echo(error.detail, err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Notifications by email, SMS, push and webhook, with evidence of every attempt.",
)
app.command()(stack.up)
app.command()(stack.down)
app.command()(logs.logs)
app.command(context_settings=stack.PASSED_ON)(stack.psql)
app.command()(stack.flush)
app.command()(stack.reset)
app.command("supervise", hidden=True)(stack.supervise_command)


if __name__ == "__main__":
    sys.exit(app())
