"""Where the stack on the emulator may differ from the one on AWS, and why."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where the local template may differ: ``<type>/<logical id>/<path>``, with wildcards."""

    where: str
    why: str


_FUNCTION = "AWS::Lambda::Function/*/Properties"
_POLICY = "AWS::IAM::Role/*/Properties/Policies"

LOCAL_DIFFERENCES = (
    Difference(
        where=f"{_FUNCTION}/Code/*",
        why="The emulator runs the host's Python and packages, so its bundle carries neither.",
    ),
    Difference(
        where="AWS::Lambda::Function/*sender*/Properties/Timeout",
        why="A sender that hangs is to be seen within seconds.",
    ),
    Difference(
        where="AWS::SQS::Queue/*/Properties/VisibilityTimeout",
        why="Follows from the sender timeout.",
    ),
    Difference(
        where="Custom::Migration/*/Properties/Channels*",
        why="Lease and deadline follow from the timeout; backoff and cutoff are to be watched.",
    ),
    Difference(where=f"{_FUNCTION}/VpcConfig/*", why="The emulator has no network to attach to."),
    Difference(where=f"{_POLICY}/network/*", why="The right that belongs to the network."),
    Difference(where=f"{_POLICY}/key/*", why="Local secrets are encrypted by no key of ours."),
    Difference(
        where=f"{_FUNCTION}/Environment/Variables/DATABASE_*",
        why="The local database is a parameter, and trusts whoever reaches it.",
    ),
    Difference(where=f"{_POLICY}/database/*", why="No token is needed to log in locally."),
    Difference(where="Parameters/*Database*", why="The local database is a parameter."),
    Difference(where="Parameters/*SecretArn/*", why="Local secrets are made before the stack."),
    Difference(
        where=f"{_FUNCTION}/Environment/Variables/*_SECRET_ARN*",
        why="A parameter here, an export of DataStack there.",
    ),
    Difference(where=f"{_POLICY}/secrets/*", why="Names the same secrets, by parameter."),
)
"""Everything else is the same on both targets, or a test fails."""
