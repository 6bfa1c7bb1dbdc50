"""The console: the one function that operators invoke, and the right to invoke it."""

from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from constructs import Construct

from functions.core.states import Channel
from infra.channel import RECEIVE_ACTIONS, ChannelQueue
from infra.function import Blueprint, Definition, ServiceFunction


class OperatorConsole(Construct):
    """``<prefix>-console``, and the policy ``<prefix>-operator`` to give to people.

    It logs in as a role of its own, which may do what the functions may and what operators do
    besides; of the queues it reads and empties those of dead letters. It tells operators what
    webhooks are signed with, so it reads what that derives from.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        blueprint: Blueprint,
        queues: Mapping[Channel, ChannelQueue],
    ) -> None:
        super().__init__(scope, name)
        dead_letters = {channel: queue.dead_letters for channel, queue in queues.items()}
        secrets = blueprint.surroundings.secrets
        definition = Definition(
            name="console",
            folder="console",
            description="Does what operators ask for, and keeps who asked.",
            numbers=blueprint.numbers.functions["console"],
            environment={
                "HASH_SECRET_ARN": secrets.hash,
                "WEBHOOK_SECRET_ARN": secrets.webhook,
                **{
                    f"{channel}_DEAD_LETTERS_URL".upper(): queue.queue_url
                    for channel, queue in dead_letters.items()
                },
            },
            secret_arns=(secrets.hash, secrets.webhook),
            rights={
                "dead-letters": iam.PolicyStatement(
                    actions=list(RECEIVE_ACTIONS),
                    resources=[queue.queue_arn for queue in dead_letters.values()],
                )
            },
            login=blueprint.surroundings.operator,
        )
        self.console = ServiceFunction(self, definition, blueprint=blueprint)
        self.policy = iam.ManagedPolicy(
            self,
            "Operator",
            managed_policy_name=f"{blueprint.prefix}-operator",
            description=f"Invoke {blueprint.prefix}-console: every operator's command, audited.",
            statements=[
                iam.PolicyStatement(
                    actions=["lambda:InvokeFunction"],
                    resources=[self.console.function.function_arn],
                )
            ],
        )
