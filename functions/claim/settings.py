"""What the claim function reads from its environment."""

from dataclasses import dataclass
from typing import Annotated

from functions.core.states import Channel
from functions.runtime.settings import WithDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WithDatabase):
    email_queue_url: Annotated[str, "Queue of the email sender"]
    sms_queue_url: Annotated[str, "Queue of the SMS sender"]
    push_queue_url: Annotated[str, "Queue of the push sender"]
    webhook_queue_url: Annotated[str, "Queue of the webhook sender"]
    ingest_function: Annotated[str, "Function that takes in requests made by SQL"]
    run_seconds: Annotated[float, "How long one run of the loop lives"] = 150.0
    idle_seconds: Annotated[float, "Sleep after a round that found nothing"] = 0.2

    @property
    def queue_urls(self) -> dict[str, str]:
        return {
            Channel.EMAIL: self.email_queue_url,
            Channel.SMS: self.sms_queue_url,
            Channel.PUSH: self.push_queue_url,
            Channel.WEBHOOK: self.webhook_queue_url,
        }
