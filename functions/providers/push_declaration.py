"""What the ``push`` provider promises, for those who send nothing by it: no boto3, no google-auth.

Neither SNS nor FCM knows our keys, and neither owes a receipt: an accepted push is unconfirmed.
"""

from functions.core.declaration import Declaration

DECLARATION = Declaration(name="push", keyed=False, receipts=False)
