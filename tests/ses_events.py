"""Events as SES publishes them: one sample of each, and any bounce or complaint a test needs."""

import copy
import json
from typing import Any
from uuid import UUID

HASH_KEY = b"a key that is only good for tests"
NOTIFICATION_ID = UUID("01900000-0000-7000-8000-0000000000aa")
ATTEMPT_ID = UUID("01900000-0000-7000-8000-0000000000bb")

BOUNCE: dict[str, Any] = json.loads("""
{"eventType":"Bounce","mail":{"timestamp":"2026-01-02T03:04:05.000Z","messageId":"0100-m1",
"source":"no-reply@notify.example","sendingAccountId":"111122223333",
"destination":["gone@rcpt.example"],"headersTruncated":false,"headers":[],
"commonHeaders":{"subject":"Hi"},"tags":{"ses:configuration-set":["notify-tx"],
"attempt_id":["att_01"],"tenant_id":["t1"]}},"bounce":{"bounceType":"Permanent",
"bounceSubType":"NoEmail","bouncedRecipients":[{"emailAddress":"gone@rcpt.example",
"action":"failed","status":"5.1.1","diagnosticCode":"smtp; 550 5.1.1 user unknown"}],
"timestamp":"2026-01-02T03:04:07.000Z","feedbackId":"0100-f1",
"reportingMTA":"dns; mx.rcpt.example"}}
""")
COMPLAINT: dict[str, Any] = json.loads("""
{"eventType":"Complaint","mail":{"timestamp":"2026-01-02T03:04:05.000Z","messageId":"0100-m2",
"destination":["a@rcpt.example"],"tags":{"attempt_id":["att_02"]}},
"complaint":{"complainedRecipients":[{"emailAddress":"a@rcpt.example"}],
"timestamp":"2026-01-03T00:00:00.000Z","feedbackId":"0100-f2","complaintSubType":null,
"userAgent":"Example FBL 1","complaintFeedbackType":"abuse",
"arrivalDate":"2026-01-02T23:59:00.000Z"}}
""")
DELIVERY: dict[str, Any] = json.loads("""
{"eventType":"Delivery","mail":{"timestamp":"2026-01-02T03:04:05.000Z","messageId":"0100-m3",
"destination":["a@rcpt.example"],"tags":{"attempt_id":["att_03"]}},
"delivery":{"timestamp":"2026-01-02T03:04:06.500Z","processingTimeMillis":1500,
"recipients":["a@rcpt.example"],"smtpResponse":"250 ok",
"reportingMTA":"a8-1.smtp-out.example"}}
""")
SEND: dict[str, Any] = json.loads("""
{"eventType":"Send","mail":{"timestamp":"2026-01-02T03:04:05.000Z","messageId":"0100-m4",
"destination":["a@rcpt.example"],"tags":{"attempt_id":["att_04"]}},"send":{}}
""")
REJECT: dict[str, Any] = json.loads("""
{"eventType":"Reject","mail":{"timestamp":"2026-01-02T03:04:05.000Z","messageId":"0100-m5",
"destination":["a@rcpt.example"],"tags":{"attempt_id":["att_05"]}},
"reject":{"reason":"Bad content"}}
""")
RENDERING_FAILURE: dict[str, Any] = json.loads("""
{"eventType":"Rendering Failure","mail":{"timestamp":"2026-01-02T03:04:05.000Z",
"messageId":"0100-m6","destination":["a@rcpt.example"],"tags":{"attempt_id":["att_06"]}},
"failure":{"templateName":"welcome",
"errorMessage":"Attribute 'name' is not present in the rendering data."}}
""")
DELAY: dict[str, Any] = json.loads("""
{"eventType":"DeliveryDelay","mail":{"timestamp":"2026-01-02T03:04:05.000Z",
"messageId":"0100-m7","destination":["a@rcpt.example"],"tags":{"attempt_id":["att_07"]}},
"deliveryDelay":{"timestamp":"2026-01-02T03:10:00.000Z",
"delayType":"TransientCommunicationFailure","expirationTime":"2026-01-02T17:04:05.000Z",
"delayedRecipients":[{"emailAddress":"a@rcpt.example","status":"4.4.1",
"diagnosticCode":"smtp; 421 4.4.1 unable to connect"}]}}
""")
SUBSCRIPTION: dict[str, Any] = json.loads("""
{"eventType":"Subscription","mail":{"timestamp":"2026-01-02T03:04:05.000Z",
"messageId":"0100-m8","destination":["a@rcpt.example"],"tags":{"attempt_id":["att_08"]}},
"subscription":{"contactList":"main","timestamp":"2026-01-02T04:00:00.000Z",
"source":"UnsubscribeHeader","newTopicPreferences":{"unsubscribeAll":true,
"topicSubscriptionStatus":[{"topicName":"news","subscriptionStatus":"OptOut"}]},
"oldTopicPreferences":{"unsubscribeAll":false,
"topicSubscriptionStatus":[{"topicName":"news","subscriptionStatus":"OptIn"}]}}}
""")
EVENTBRIDGE: dict[str, Any] = json.loads("""
{"version":"0","id":"6f1c0000-0000-4000-8000-000000000001","detail-type":"Email Bounced",
"source":"aws.ses","account":"111122223333","time":"2026-01-02T03:04:07Z",
"region":"eu-west-1",
"resources":["arn:aws:ses:eu-west-1:111122223333:configuration-set/notify-tx"],
"detail":{"eventType":"Bounce","mail":{"messageId":"0100-m1",
"destination":["gone@rcpt.example"],"tags":{"attempt_id":["att_01"]}},
"bounce":{"bounceType":"Permanent","bounceSubType":"General",
"bouncedRecipients":[{"emailAddress":"gone@rcpt.example"}],
"timestamp":"2026-01-02T03:04:07.000Z","feedbackId":"0100-f1"}}}
""")

SAMPLES: list[tuple[dict[str, Any], str]] = [
    (BOUNCE, "gone@rcpt.example"),
    *(
        (sample, "a@rcpt.example")
        for sample in (
            COMPLAINT,
            DELIVERY,
            SEND,
            REJECT,
            RENDERING_FAILURE,
            DELAY,
            SUBSCRIPTION,
        )
    ),
]
"""Each with the address that it is about."""


def bounce(
    kind: str,
    sub_type: str,
    *,
    address: str = "gone@rcpt.example",
    feedback_id: str = "0100-f1",
    **said: str,
) -> dict[str, Any]:
    """Return a bounce of ``address``; ``said`` is what its server answered (status,
    diagnosticCode)."""
    event = copy.deepcopy(BOUNCE)
    recipient = {"emailAddress": address, **said}
    event["bounce"] |= {"bounceType": kind, "bounceSubType": sub_type, "feedbackId": feedback_id}
    event["bounce"]["bouncedRecipients"] = [recipient]
    return event


def complaint(feedback_type: str | None, **members: Any) -> dict[str, Any]:
    """Return a complaint with ``members`` of its object."""
    event = copy.deepcopy(COMPLAINT)
    event["complaint"] |= {"complaintFeedbackType": feedback_type, **members}
    return event


def event_of(
    event_type: str,
    *,
    notification_id: UUID = NOTIFICATION_ID,
    attempt_id: UUID = ATTEMPT_ID,
    **members: Any,
) -> dict[str, Any]:
    """Return an event about a message that carries our tags; ``members`` are those of its type."""
    tags = {"notification_id": [str(notification_id)], "attempt_id": [str(attempt_id)]}
    mail = {**BOUNCE["mail"], "tags": tags}
    return {"eventType": event_type, "mail": mail, **members}
