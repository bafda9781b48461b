"""Judges requests as a receiver would: with PyPI's `standardwebhooks`, and by hand for the X-Webhook-* headers.

Standard input: a JSON list of {"secret", "headers": {name: value}, "body": base64}. Standard output: for each,
{"standard": bool, "family": bool, "next": bool | null}, where `next` is null without X-Webhook-Signature-Next.
"""

import base64
import hashlib
import hmac
import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError


def standard(secret, headers, body):
    try:
        Webhook(secret).verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


def judge(request):
    secret, headers = request["secret"], request["headers"]
    body = base64.b64decode(request["body"])
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    following = headers.get("x-webhook-signature-next")
    return {
        "standard": standard(secret, headers, body),
        "family": hmac.compare_digest(headers["x-webhook-signature"], expected),
        "next": None if following is None else hmac.compare_digest(following, expected),
    }


json.dump([judge(request) for request in json.load(sys.stdin)], sys.stdout)
