"""`sendoff`: the command line, for the local stack and for operators."""

import sys
from typing import Any

import typer

from functions.cli import demo, logs, stack
from functions.core.errors import SendoffError


class Commands(typer.Typer):
    """Says what went wrong in words, without a traceback."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().__call__(*arguments, **options)
        except SendoffError as error:
            typer.echo(error.detail, err=True)
            sys.exit(1)


app = Commands(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Notifications by email, SMS, push and webhook, with evidence of every attempt.",
)
app.command()(stack.up)
app.command()(stack.down)
app.command()(demo.demo)
app.command()(logs.logs)
app.command(context_settings=stack.PASSED_ON)(stack.psql)
app.command()(stack.flush)
app.command()(stack.reset)
app.command("supervise", hidden=True)(stack.supervise_command)


if __name__ == "__main__":
    app()
