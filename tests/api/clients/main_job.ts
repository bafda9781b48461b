// The main job, with openapi-fetch over types that openapi-typescript has made of the document.
//
// Arguments: the URLs of the gateway and of the simulated provider, a key's id and secret.

import createClient from "openapi-fetch";
import type { components, paths } from "./pix.js";

const [gateway, simulator, publicId, secret] = process.argv.slice(2);

function check(holds: boolean, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

const anybody = createClient<paths>({ baseUrl: gateway });
const basic = `Basic ${Buffer.from(`${publicId}:${secret}`).toString("base64")}`;
const token = await anybody.POST("/v2/oauth/token", { headers: { Authorization: basic } });
check(token.data !== undefined, token.error);
const pix = createClient<paths>({ baseUrl: gateway, headers: { Authorization: `Bearer ${token.data.access_token}` } });

const body: components["schemas"]["NewCharge"] = {
  amount: "100.00",
  external_id: "typescript-order",
  payer: { name: "Maria Silva", document: "529.982.247-25" },
};
const header = { "Idempotency-Key": "typescript-key" };
const made = await pix.POST("/api/v1/charges", { body, params: { header } });
check(made.response.status === 201 && made.data?.status === "pending", made);
const again = await pix.POST("/api/v1/charges", { body, params: { header } });
check(again.response.status === 200 && again.data?.uuid === made.data.uuid, again);
await fetch(`${simulator}/sim/charges/${made.data.pix_id}/pay`, { method: "POST" });
const consulted = await pix.POST("/api/v1/transactions/consult", { body: { external_id: "typescript-order" } });
check(consulted.data?.type === "charge" && consulted.data.transaction.status === "paid", consulted);
const before = await pix.GET("/api/v1/balance");
check(before.data?.available === 100, before);

const sent = await pix.POST("/api/v1/withdrawals", {
  body: {
    amount: 30.25,
    external_id: "typescript-payout",
    creditParty: { name: "Ana Lima", keyType: "EMAIL", key: "ana@example.com", taxId: "529.982.247-25" },
  },
});
check(sent.data?.outcome === "certain" && sent.data.total === 30.25, sent);
const done = await pix.POST("/api/v1/transactions/consult", { body: { uuid: sent.data.uuid } });
check(done.data?.transaction.status === "completed", done);
const evidence = await pix.GET("/api/v1/withdrawals/{withdrawal}/evidence", {
  params: { path: { withdrawal: "typescript-payout" } },
});
check((evidence.data?.data.length ?? 0) >= 2, evidence);
const balance = await pix.POST("/v2/balance", { body: {} });
check(balance.data?.message.balance === "69.75", balance);

const page = await pix.GET("/api/v1/charges", { params: { query: { status: "paid,pending", per_page: 1 } } });
check(page.data?.data[0]?.external_id === "typescript-order" && page.data.meta.next_cursor === null, page);

const refused = await pix.POST("/api/v1/charges", { body: { amount: 0, payer: { name: "", document: "1" } } });
check(refused.error?.code === "validation_failed", refused);
check("errors" in refused.error && refused.error.errors?.length === 3, refused.error);
console.log("done");
