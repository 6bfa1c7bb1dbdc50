"""Secrets and database log-in, without the import cost of boto3.

A sender needs one secret and one token per environment. botocore's signer alone costs a fraction
of a client's import, so both are asked for by a signed request: Secrets Manager's GetSecretValue,
and the presigned ``connect`` that RDS takes as a password (15 minutes, checked at connect).
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import urllib3

from functions.core.errors import Misconfigured, Unavailable
from functions.core.login import GatewayCredentials, Login
from functions.core.signature import SECRET_PREFIX, key_of
from functions.runtime.settings import WithDatabase

if TYPE_CHECKING:
    from botocore.credentials import Credentials

TOKEN_SECONDS = 900
KEPT_SECONDS = 300.0
"""How long a secret is used before it is read again: a rotation has reached everybody by then."""

_TIMEOUT = urllib3.Timeout(connect=2.0, read=3.0)
_RETRY = urllib3.Retry(
    3,
    backoff_factor=0.2,
    allowed_methods=None,
    status_forcelist=(429, 500, 502, 503, 504),
    respect_retry_after_header=False,  # a handler has seconds, not the minutes it may be told
)
_ONCE = _RETRY.new(total=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    value: dict[str, str] = field(repr=False)
    until: float


class Vault:
    """What this function may know: its secrets, and how to log in to the database.

    ``environment`` is the process's, where Lambda keeps the role's credentials and region.
    """

    def __init__(
        self, environment: Mapping[str, str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._secrets: dict[str, _Kept] = {}

    def secret(self, arn: str) -> dict[str, str]:
        """Return the JSON secret ``arn``, read again every five minutes.

        While it cannot be read again the known one serves. Raises Unavailable, Misconfigured.
        """
        kept = self._secrets.get(arn)
        if kept is None or self._clock() >= kept.until:
            try:
                value = self._get_secret_value(arn, _ONCE if kept else _RETRY)
            except Unavailable:
                if kept is None:
                    raise
                value = kept.value
            kept = self._secrets[arn] = _Kept(value=value, until=self._clock() + KEPT_SECONDS)
        return kept.value

    def gateway_credentials(self, arn: str) -> GatewayCredentials:
        """Return how we prove to the gateway who we are, by the secret ``arn``."""
        token = self.secret(arn).get("token", "")
        return GatewayCredentials(secrets=self.webhook_secrets(arn), token=token)

    def webhook_secrets(self, arn: str) -> tuple[str, ...]:
        """Return the Standard Webhooks secrets in ``arn``: the current one, then the previous.

        Raises Misconfigured when there is no current one, or one of them is no secret.
        """
        value = self.secret(arn)
        if not value.get("current"):
            raise Misconfigured(f"The secret {arn} has no current part.")
        secrets = tuple(
            SECRET_PREFIX + value[name] for name in ("current", "previous") if value.get(name)
        )
        try:
            for secret in secrets:
                key_of(secret)
        except ValueError as error:
            raise Misconfigured(f"The secret {arn} is not base64.") from error
        return secrets

    def database_login(self, settings: WithDatabase) -> Login:
        """Return how to log in now: a token is valid for 15 minutes, a secret is read once."""
        user, password = settings.database_user, None
        match settings.database_auth:
            case "trust":
                pass
            case "iam":
                password = self._database_token(settings)
            case "secret":
                value = self.secret(settings.database_secret_arn)
                user, password = value.get("username", user), value.get("password")
            case other:
                raise Misconfigured(f"DATABASE_AUTH is not iam, secret or trust: {other!r}.")
        return Login(
            host=settings.database_host,
            port=settings.database_port,
            name=settings.database_name,
            user=user,
            tls=settings.database_auth != "trust",
            password=password,
        )

    def _get_secret_value(self, arn: str, retries: urllib3.Retry) -> dict[str, str]:
        # Once per environment, and not at all in tests: kept out of the import of every handler.
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        region = self._environment["AWS_REGION"]
        endpoint = self._environment.get(
            "AWS_ENDPOINT_URL", f"https://secretsmanager.{region}.amazonaws.com"
        )
        request = AWSRequest(
            method="POST",
            url=f"{endpoint.rstrip('/')}/",
            data=json.dumps({"SecretId": arn}),
            headers={
                "Content-Type": "application/x-amz-json-1.1",
                "X-Amz-Target": "secretsmanager.GetSecretValue",
            },
        )
        SigV4Auth(self._credentials(), "secretsmanager", region).add_auth(request)
        try:
            answer = urllib3.request(
                "POST",
                str(request.url),
                body=request.data,
                headers=dict(request.headers.items()),
                timeout=_TIMEOUT,
                retries=retries,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable("Secrets Manager cannot be reached.") from error
        if answer.status != 200:
            raise Misconfigured(f"Secrets Manager answered {answer.status} for {arn}.")
        try:
            value: dict[str, Any] = json.loads(json.loads(answer.data)["SecretString"])
            return {name: str(part) for name, part in value.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Misconfigured(f"The secret {arn} is not a JSON object.") from None

    def _database_token(self, settings: WithDatabase) -> str:
        from botocore.auth import SigV4QueryAuth  # at connect only, see above
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(
            method="GET",
            url=f"https://{settings.database_host}:{settings.database_port}/",
            params={"Action": "connect", "DBUser": settings.database_user},
        )
        region = self._environment["AWS_REGION"]
        signer = SigV4QueryAuth(self._credentials(), "rds-db", region, expires=TOKEN_SECONDS)
        signer.add_auth(request)
        return str(request.url).removeprefix("https://")

    def _credentials(self) -> "Credentials":
        from botocore.credentials import Credentials

        return Credentials(
            self._environment["AWS_ACCESS_KEY_ID"],
            self._environment["AWS_SECRET_ACCESS_KEY"],
            self._environment.get("AWS_SESSION_TOKEN"),
        )
