"""The main job, with a client that openapi-python-client has made of the document.

Arguments: the folder that the client is in, the URLs of the gateway and of the simulated provider, a key's id and secret.
"""

import base64
import sys
import urllib.request

folder, gateway, simulator, public_id, secret = sys.argv[1:]
sys.path.insert(0, folder)

from pix_client import AuthenticatedClient  # noqa: E402
from pix_client.api.authentication import create_token  # noqa: E402
from pix_client.api.balance import get_balance  # noqa: E402
from pix_client.api.charges import create_charge, list_charges  # noqa: E402
from pix_client.api.events import list_events  # noqa: E402
from pix_client.api.transactions import consult_transaction  # noqa: E402
from pix_client.api.v2 import get_v2_balance  # noqa: E402
from pix_client.api.withdrawals import create_withdrawal, get_withdrawal_evidence  # noqa: E402
from pix_client.models import (  # noqa: E402
    ChargeStatus,
    ConsultRequest,
    NewCharge,
    NewCreditParty,
    NewPayer,
    NewWithdrawal,
    Outcome,
    Problem,
    TokenForm,
    TokenRequest,
    WithdrawalStatus,
)


def client(token, prefix="Bearer"):
    return AuthenticatedClient(base_url=gateway, token=token, prefix=prefix, raise_on_unexpected_status=True)


basic = base64.b64encode(f"{public_id}:{secret}".encode()).decode()
for body in (
    TokenRequest(grant_type="client_credentials", public_id=public_id, secret=secret),
    TokenForm(grant_type="client_credentials", client_id=public_id, client_secret=secret),
):
    assert create_token.sync(client=client("none"), body=body).expires_in == 3600
token = create_token.sync(client=client(basic, "Basic"))
pix = client(token.access_token)

new = NewCharge(amount="100.00", external_id="python-order", payer=NewPayer(name="Maria Silva", document="529.982.247-25"))
made = create_charge.sync_detailed(client=pix, body=new, idempotency_key="python-key")
assert made.status_code == 201 and made.parsed.status == ChargeStatus.PENDING, made
charge = made.parsed
again = create_charge.sync_detailed(client=pix, body=new, idempotency_key="python-key")
assert again.status_code == 200 and again.headers["Idempotency-Replayed"] == "true" and again.parsed.uuid == charge.uuid
urllib.request.urlopen(urllib.request.Request(f"{simulator}/sim/charges/{charge.pix_id}/pay", method="POST")).read()
consulted = consult_transaction.sync(client=pix, body=ConsultRequest(external_id="python-order"))
assert consulted.transaction.status == ChargeStatus.PAID and consulted.transaction.net_amount == 100, consulted
assert get_balance.sync(client=pix).available == 100

party = NewCreditParty(name="Ana Lima", key_type="EMAIL", key="ana@example.com", tax_id="529.982.247-25")
sent = create_withdrawal.sync(client=pix, body=NewWithdrawal(amount=30.25, external_id="python-payout", credit_party=party))
assert sent.outcome == Outcome.CERTAIN, sent
done = consult_transaction.sync(client=pix, body=ConsultRequest(uuid=str(sent.uuid)))
assert done.transaction.status == WithdrawalStatus.COMPLETED, done
assert len(get_withdrawal_evidence.sync("python-payout", client=pix).data) >= 2
assert get_v2_balance.sync(client=pix).message.balance == "69.75"

page = list_charges.sync(client=pix, status="paid,pending", per_page=1)
assert [one.external_id for one in page.data] == ["python-order"] and page.meta.next_cursor is None, page
events = list_events.sync(client=pix, type_="cashin.confirmed")
assert [event.data.uuid for event in events.data] == [charge.uuid], events

refused = create_charge.sync(client=pix, body=NewCharge(amount=0, payer=NewPayer(name="", document="1")))
assert isinstance(refused, Problem) and refused.code == "validation_failed" and len(refused.errors) == 3, refused
print("done")
