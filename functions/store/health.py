"""Ask the database whether it answers."""

from functions.store.connection import Database

ASK = "SELECT 1"


def ask(database: Database) -> None:
    """Return when the database answers; raises Unavailable."""
    database.run(lambda connection: connection.execute(ASK))
