"""Who a stream of a channel sends as: the two streams share nothing that could stop both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderIdentity:
    """How a provider is told who sends.

    identity           SES: a From address; SMS: an origination number, pool or sender id;
                       push: the ARN of a platform application
    configuration_set  of SES or SMS: without one no events come
    settings           what one provider alone knows, by the names its module documents
    """

    identity: str | None = None
    configuration_set: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
