"""`sendoff`: the command line, for the local stack and for operators."""

import sys
from typing import Any

import typer

from functions.cli import (
    category,
    channel,
    chaos,
    dead,
    demo,
    dlq,
    endpoints,
    explain,
    hold,
    logs,
    policy,
    receipts,
    recover,
    sms,
    stack,
    suppressions,
    templates,
    tenants,
    uncertain,
    webhook,
)
from functions.core.errors import SendoffError

OPERATE = "Operate, here or on AWS by --profile"
STATUSES = (
    "Exit statuses of these: 0 done, or nothing to do; 1 something waits for a person; 2 usage; "
    "3 refused; 4 unreachable."
)


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
    epilog=STATUSES,
)
app.command()(stack.up)
app.command()(stack.down)
app.command()(demo.demo)
app.command()(chaos.chaos)
app.command()(logs.logs)
app.command(context_settings=stack.PASSED_ON)(stack.psql)
app.command()(stack.flush)
app.command()(stack.reset)
app.command(rich_help_panel=OPERATE)(explain.explain)
app.command(rich_help_panel=OPERATE)(policy.policy)
app.add_typer(dead.app, name="dead", rich_help_panel=OPERATE)
app.add_typer(uncertain.app, name="uncertain", rich_help_panel=OPERATE)
app.add_typer(dlq.app, name="dlq", rich_help_panel=OPERATE)
app.add_typer(channel.app, name="channel", rich_help_panel=OPERATE)
app.add_typer(category.app, name="category", rich_help_panel=OPERATE)
app.add_typer(endpoints.app, name="endpoints", rich_help_panel=OPERATE)
app.add_typer(webhook.app, name="webhook", rich_help_panel=OPERATE)
app.add_typer(hold.app, name="hold", rich_help_panel=OPERATE)
app.add_typer(sms.app, name="sms", rich_help_panel=OPERATE)
app.add_typer(suppressions.app, name="suppressions", rich_help_panel=OPERATE)
app.add_typer(templates.app, name="templates", rich_help_panel=OPERATE)
app.add_typer(receipts.app, name="receipts", rich_help_panel=OPERATE)
app.add_typer(tenants.tenant_app, name="tenant", rich_help_panel=OPERATE)
app.add_typer(tenants.keys_app, name="keys", rich_help_panel=OPERATE)
app.command(rich_help_panel=OPERATE)(recover.recover)
app.command("supervise", hidden=True)(stack.supervise_command)


if __name__ == "__main__":
    app()
