// As verify.py, with npm's `standardwebhooks`. The first argument is the folder that it is installed in.

import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { Webhook, WebhookVerificationError } = createRequire(`${process.argv[2]}/`)("standardwebhooks");

function standard(secret, headers, body) {
  try {
    new Webhook(secret).verify(body.toString("utf8"), headers);
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

function isSame(one, other) {
  return one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));
}

function judge({ secret, headers, body: encoded }) {
  const body = Buffer.from(encoded, "base64");
  const expected = createHmac("sha256", secret).update(body).digest("hex");
  const following = headers["x-webhook-signature-next"];
  return {
    standard: standard(secret, headers, body),
    family: isSame(headers["x-webhook-signature"], expected),
    next: following === undefined ? null : isSame(following, expected),
  };
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(judge)));
