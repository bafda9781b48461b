"""Values that a schema can't say how to make: those with check digits, and addresses that postbacks may go to."""

import hashlib
import os
import re

import schemathesis
from hypothesis import strategies as st


def with_check_digits(base, weights):
    """The digits of a CPF or CNPJ, with the two that follow from them."""
    text = base
    for _ in range(2):
        total = sum((ord(c) - 48) * weights(place) for place, c in enumerate(reversed(text)))
        rest = total % 11
        text += "0" if rest < 2 else str(11 - rest)
    return text


def cpf(base):
    return with_check_digits(base, lambda place: place + 2)


def cnpj(base):
    return with_check_digits(base, lambda place: place % 8 + 2)


def dotted(text):
    if len(text) == 11:
        return f"{text[:3]}.{text[3:6]}.{text[6:9]}-{text[9:]}"
    return f"{text[:2]}.{text[2:5]}.{text[5:8]}/{text[8:12]}-{text[12:]}"


KEY = re.compile(r"""[!#-~][!-~]{0,254}|"([!#-\[\]-~]|\\["\\]){1,255}\"""")
RECEIVER = os.environ["PIX_RECEIVER"]

digits, letters = "0123456789", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
cpfs = st.text(digits, min_size=9, max_size=9).map(cpf).filter(lambda text: len(set(text)) > 1)
cnpjs = st.text(letters, min_size=12, max_size=12).map(cnpj).filter(lambda text: set(text) != {"0"})
documents = cpfs | cnpjs
emails = st.from_regex(r"[a-z0-9]{1,20}(\.[a-z0-9]{1,10})?@[a-z0-9]{1,20}\.(com|example)", fullmatch=True)

schemathesis.openapi.format("cpf-or-cnpj", documents | documents.map(dotted))
schemathesis.openapi.format("payer-email", st.just("") | emails)
schemathesis.openapi.format("pix-key", documents | emails)
schemathesis.openapi.format(
    "postback-url",
    st.from_regex(r"https://[a-z]{1,20}\.com/[a-z0-9/]{0,20}(\?[a-z]=[0-9]{1,9})?", fullmatch=True),
)


@schemathesis.hook
def filter_case(context, case):
    """An empty `cursor` or `per_page` is as good as none, whatever its type: that is no mistake which could be refused."""
    return not any((case.query or {}).get(name) == "" for name in ("cursor", "per_page"))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Nothing is ever sent to somebody else's host: whatever URL was made up, postbacks go to the one of this run.

    And the same idempotency key goes with the same content only: two of another kind are refused by design.
    """
    key = (case.headers or {}).get("Idempotency-Key")
    if key and KEY.fullmatch(key):
        content = f"{case.method} {case.formatted_path} {case.body!r}"
        case.headers["Idempotency-Key"] = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()
    if isinstance(case.body, dict):
        for name in ("url", "postbackUrl"):
            url = case.body.get(name)
            if isinstance(url, str) and url.lower().startswith("http"):
                case.body[name] = RECEIVER + "/" + url.partition("://")[2].partition("/")[2]
