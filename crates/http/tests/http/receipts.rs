//! Receipts of charges and withdrawals, as HTML and as PDF.

use lopdf::Document;
use pix_conformance::Answer as Told;
use pix_domain::money::Cents;
use pix_domain::provider::Progress;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Gateway, Request, Tenant, charge_body, withdrawal_body};

const WITHDRAWALS: &str = "/api/v1/withdrawals";
const CHARGES: &str = "/api/v1/charges";

/// A withdrawal that is done: its uuid.
async fn done(gateway: &Gateway, tenant: &Tenant, body: &Value) -> String {
    gateway.provider.fake.answers_next(Told::Complete);
    gateway.post(tenant, WITHDRAWALS, body).await.expect(201).text("uuid")
}

async fn receipt(gateway: &Gateway, tenant: &Tenant, path: &str, fields: &[(&str, &str)]) -> Answer {
    let path = format!("{path}/receipt");
    let request = Request::new("GET", &path).token(tenant);
    gateway.send(fields.iter().fold(request, |request, (name, value)| request.header(name, value))).await
}

/// What is read in a PDF, by a library that shares nothing with what wrote it: of its one page.
fn read(answer: &Answer) -> String {
    assert_eq!(answer.header("content-type"), Some("application/pdf"));
    let document = Document::load_mem(&answer.bytes).unwrap();
    assert_eq!(document.get_pages().len(), 1);
    document.extract_text(&[1]).unwrap()
}

/// The text of a page, tags taken out.
fn visible(answer: &Answer) -> String {
    let body = answer.body.split_once("<body>").unwrap().1;
    let pieces = body.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
    pieces.map(str::trim).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("|")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_that_is_done_has_a_receipt() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let uuid = done(&gateway, &tenant, &withdrawal_body()).await;
    let path = format!("{WITHDRAWALS}/payout-1");
    let shown = gateway.get(&tenant, &path).await.expect(200);
    let end_to_end_id = shown.text("end_to_end_id");
    let page = receipt(&gateway, &tenant, &path, &[]).await.expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("content-language"), Some("pt-BR"));
    assert_eq!(page.header("vary"), Some("Accept, Accept-Language"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("script-src") && !page.body.contains("<script"), "{policy}");
    let date = "15/01/2026 às 09:00:00 (horário de Brasília)";
    assert_eq!(
        visible(&page),
        format!(
            "Comprovante de Pix enviado|R$\u{a0}10,00|Concluído|Quem recebeu|Nome|Bruno|CPF|***.982.247-**\
             |Chave Pix (e-mail)|***@example.com|Transação|Data|{date}|Descrição|semana 1\
             |ID da transação|{end_to_end_id}|Identificador|{uuid}|Referência|payout-1\
             |Emitido em {date}. Documentos e chaves aparecem só em parte."
        )
    );

    let english =
        receipt(&gateway, &tenant, &path, &[("Accept-Language", "en-GB, pt;q=0.5")]).await.expect(200);
    assert_eq!(english.header("content-language"), Some("en"));
    assert!(
        visible(&english)
            .starts_with("Receipt of a Pix sent|R$\u{a0}10.00|Completed|Who received|Name|Bruno|"),
        "{}",
        english.body
    );
    let by_uuid = receipt(&gateway, &tenant, &format!("{WITHDRAWALS}/{uuid}"), &[]).await.expect(200);
    assert_eq!(by_uuid.body, page.body);
    let head = format!("{path}/receipt");
    let head = gateway.send(Request::new("HEAD", &head).token(&tenant)).await.expect(200);
    assert_eq!((head.body.as_str(), head.header("content-language")), ("", Some("pt-BR")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pdf_says_what_the_page_does() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let mut body = withdrawal_body();
    body["creditParty"]["name"] = json!("Conceição Araújo – “Zé”");
    let uuid = done(&gateway, &tenant, &body).await;
    let path = format!("{WITHDRAWALS}/{uuid}");
    for language in ["pt-BR", "en"] {
        let accept = [("Accept", "application/pdf, text/html;q=0.5"), ("Accept-Language", language)];
        let file = receipt(&gateway, &tenant, &path, &accept).await.expect(200);
        let name = format!("inline; filename=\"receipt-{uuid}.pdf\"");
        assert_eq!(file.header("content-disposition"), Some(name.as_str()));
        assert_eq!(file.header("content-language"), Some(language));
        let flat = |text: &str| text.split_whitespace().collect::<String>();
        let told = flat(&read(&file));
        let page = receipt(&gateway, &tenant, &path, &[("Accept-Language", language)]).await.expect(200);
        for text in visible(&page).split('|') {
            assert!(told.contains(&flat(text)), "{text} is not in {told}");
        }
        assert!(file.bytes.len() < 8_000, "{} bytes", file.bytes.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_texts_are_on_one_page_too() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let (mut withdrawal, mut charge) = (withdrawal_body(), charge_body());
    withdrawal["amount"] = json!("99999.99");
    withdrawal["creditParty"]["name"] = json!("W".repeat(200));
    withdrawal["creditParty"]["key"] = json!(format!("a@{}.example", "w".repeat(60)));
    withdrawal["description"] = json!("W ".repeat(70).trim());
    withdrawal["external_id"] = json!("#".repeat(120));
    charge["payerQuestion"] = json!("M".repeat(140));
    charge["external_id"] = json!("—".repeat(120));
    let uuid = done(&gateway, &tenant, &withdrawal).await;
    let paid = gateway.post(&tenant, CHARGES, &charge).await.expect(201).text("uuid");
    gateway.pay(&tenant, &paid, 999_999_999_999).await;
    for (path, last) in [(format!("{WITHDRAWALS}/{uuid}"), "#"), (format!("{CHARGES}/{paid}"), "—")] {
        let file = receipt(&gateway, &tenant, &path, &[("Accept", "application/pdf")]).await.expect(200);
        let told = read(&file);
        assert_eq!(told.matches(last).count(), 120, "{told}");
        assert!(told.contains("Emitido em"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pdf_can_not_show_comes_as_a_page_alone() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let mut body = withdrawal_body();
    body["creditParty"]["name"] = json!("山田 <b>太郎</b>");
    let uuid = done(&gateway, &tenant, &body).await;
    let path = format!("{WITHDRAWALS}/{uuid}");
    let page = receipt(&gateway, &tenant, &path, &[]).await.expect(200);
    assert!(page.body.contains("<dd>山田 &lt;b&gt;太郎&lt;/b&gt;</dd>"), "{}", page.body);
    let refused = receipt(&gateway, &tenant, &path, &[("Accept", "application/pdf")]).await.expect(406);
    assert_eq!(refused.code(), "not_acceptable");
    assert!(refused.text("detail").contains("text/html"), "{}", refused.body);
    let other = receipt(&gateway, &tenant, &path, &[("Accept", "application/json")]).await.expect(406);
    assert!(other.text("detail").contains("text/html or application/pdf"), "{}", other.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paid_charge_has_a_receipt_of_who_has_paid() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let mut body = charge_body();
    body["payer"]["name"] = json!("Somebody Else");
    let uuid = gateway.post(&tenant, CHARGES, &body).await.expect(201).text("uuid");
    let path = format!("{CHARGES}/order:1");
    let refused = receipt(&gateway, &tenant, &path, &[("Accept-Language", "pt")]).await.expect(409);
    assert_eq!(refused.code(), "invalid_state");
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.text("detail"), "só há comprovante de uma cobrança paga");

    let charge = gateway.pay(&tenant, &uuid, 1_550).await;
    let end_to_end_id = charge.credited.unwrap().first.to_text();
    let page = receipt(&gateway, &tenant, &path, &[]).await.expect(200);
    let date = "15/01/2026 às 09:00:00 (horário de Brasília)";
    let told = format!(
        "Comprovante de Pix recebido|R$\u{a0}15,50|Pago|Quem pagou|Nome|Ana Souza|CPF|***.982.247-**|Transação|Data|{date}\
         |Mensagem|Tudo certo?|ID da transação|{end_to_end_id}|Identificador|{uuid}|Referência|order:1\
         |Emitido em {date}. Documentos e chaves aparecem só em parte."
    );
    assert_eq!(visible(&page), told, "the named payer is not who has paid");
    let english = [("Accept-Language", "en")];
    for (amount, standing, back) in [
        (5, "Paid; sent back in part", "5.00"),
        (10, "Paid; sent back in part", "15.00"),
        (1, "Paid, and sent back in full", "15.50"),
    ] {
        let amount = if back == "15.50" { json!("0.50") } else { json!(amount) };
        let refund = json!({"amount": amount, "external_id": format!("r-{back}")});
        gateway.post(&tenant, &format!("{CHARGES}/{uuid}/refunds"), &refund).await.expect(201);
        let page = receipt(&gateway, &tenant, &path, &english).await.expect(200);
        let told = visible(&page);
        assert!(
            told.starts_with(&format!("Receipt of a Pix received|R$\u{a0}15.50|{standing}|Who paid|")),
            "{told}"
        );
        assert!(told.contains(&format!("|Amount sent back|R$\u{a0}{back}|")), "{told}");
    }
    gateway.pay(&tenant, &uuid, 100).await;
    let told = visible(&receipt(&gateway, &tenant, &path, &english).await.expect(200));
    assert!(told.contains("|R$\u{a0}16.50|") && told.contains("|Payments|2: the date, who paid"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_has_a_receipt_when_it_is_completed_or_returned_only() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    for told in [Told::Accept, Told::LostRequest, Told::Unavailable, Told::Reject] {
        gateway.provider.fake.answers_next(told);
        let mut body = withdrawal_body();
        body["external_id"] = json!(format!("{told:?}"));
        let made = gateway.post(&tenant, WITHDRAWALS, &body).await;
        assert!(matches!(made.status, 201 | 422), "{}", made.body);
        for accept in ["*/*", "application/pdf"] {
            let path = format!("{WITHDRAWALS}/{told:?}");
            let refused = receipt(&gateway, &tenant, &path, &[("Accept", accept)]).await.expect(409);
            assert_eq!(refused.code(), "invalid_state", "{told:?}");
        }
    }
    let path = format!("{WITHDRAWALS}/Accept");
    let uuid = gateway.get(&tenant, &path).await.expect(200).text("uuid");
    let knows = |progress| gateway.provider.fake.knows(Uuid::try_parse(&uuid).unwrap(), progress);
    for (back, standing) in
        [(0, "Concluído"), (400, "Concluído; devolvido em parte"), (1_000, "Devolvido por inteiro")]
    {
        knows(if back == 0 { Progress::Completed } else { Progress::Returned(Cents::new(back).unwrap()) });
        let consult = json!({"uuid": uuid});
        gateway.post(&tenant, "/api/v1/transactions/consult", &consult).await.expect(200);
        let page = receipt(&gateway, &tenant, &path, &[]).await.expect(200);
        let told = visible(&page);
        assert!(told.starts_with(&format!("Comprovante de Pix enviado|R$\u{a0}10,00|{standing}|")), "{told}");
        assert_eq!(told.contains("Valor devolvido"), back > 0, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_its_owners() {
    let gateway = Gateway::start().await;
    let (tenant, stranger) = (gateway.rich().await, gateway.rich().await);
    let uuid = done(&gateway, &tenant, &withdrawal_body()).await;
    for path in
        [format!("{WITHDRAWALS}/{uuid}"), format!("{WITHDRAWALS}/payout-1"), format!("{CHARGES}/{uuid}")]
    {
        assert_eq!(receipt(&gateway, &stranger, &path, &[]).await.expect(404).code(), "not_found");
    }
    receipt(&gateway, &tenant, &format!("{CHARGES}/{uuid}"), &[]).await.expect(404);
    let path = format!("{WITHDRAWALS}/{uuid}/receipt");
    gateway.send(Request::new("GET", &path)).await.expect(401);
}
