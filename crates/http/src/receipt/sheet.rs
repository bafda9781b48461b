//! What a receipt says, before it has a form.

use pix_domain::charges::{Charge, ChargeState};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::error::ServiceError;
use pix_domain::money::Cents;
use pix_domain::party::{Document, PixKeyType, TaxIdKind};
use pix_domain::provider::{Party, ProviderBody};
use pix_domain::text::{Description, PayerQuestion, PersonName};
use pix_domain::time::Timestamp;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

use crate::language::Language;
use crate::{body, pay, time};

/// Why there is none.
pub(crate) const NO_WITHDRAWAL: &str =
    "there is a receipt of a withdrawal that is completed or returned only";
/// Why there is none.
pub(crate) const NO_CHARGE: &str = "there is a receipt of a charge that is paid only";

/// The longest body of a provider that is looked into for who has paid.
const MAX_LOOKED_INTO_BYTES: usize = 64 * 1024;

/// A receipt, in a language.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) language: Language,
    pub(crate) title: &'static str,
    pub(crate) amount: String,
    pub(crate) standing: &'static str,
    pub(crate) sections: Vec<Section>,
    pub(crate) foot: String,
}

/// What a line is of, and what it says.
type Row = (&'static str, String);

/// A part of it.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) heading: &'static str,
    pub(crate) rows: Vec<Row>,
}

struct Words {
    sent: &'static str,
    received: &'static str,
    completed: &'static str,
    completed_in_part: &'static str,
    returned: &'static str,
    paid: &'static str,
    paid_in_part: &'static str,
    paid_back: &'static str,
    payer: &'static str,
    payee: &'static str,
    details: &'static str,
    name: &'static str,
    keys: [&'static str; 5],
    date: &'static str,
    description: &'static str,
    question: &'static str,
    back: &'static str,
    payments: &'static str,
    of_the_first: &'static str,
    end_to_end_id: &'static str,
    uuid: &'static str,
    external_id: &'static str,
    issued: &'static str,
    hidden: &'static str,
}

static PORTUGUESE: Words = Words {
    sent: "Comprovante de Pix enviado",
    received: "Comprovante de Pix recebido",
    completed: "Concluído",
    completed_in_part: "Concluído; devolvido em parte",
    returned: "Devolvido por inteiro",
    paid: "Pago",
    paid_in_part: "Pago; devolvido em parte",
    paid_back: "Pago e devolvido por inteiro",
    payer: "Quem pagou",
    payee: "Quem recebeu",
    details: "Transação",
    name: "Nome",
    keys: [
        "Chave Pix (CPF)",
        "Chave Pix (CNPJ)",
        "Chave Pix (telefone)",
        "Chave Pix (e-mail)",
        "Chave Pix (aleatória)",
    ],
    date: "Data",
    description: "Descrição",
    question: "Mensagem",
    back: "Valor devolvido",
    payments: "Pagamentos",
    of_the_first: "a data, quem pagou e o ID da transação são do primeiro",
    end_to_end_id: "ID da transação",
    uuid: "Identificador",
    external_id: "Referência",
    issued: "Emitido em",
    hidden: "Documentos e chaves aparecem só em parte.",
};

static ENGLISH: Words = Words {
    sent: "Receipt of a Pix sent",
    received: "Receipt of a Pix received",
    completed: "Completed",
    completed_in_part: "Completed; returned in part",
    returned: "Returned in full",
    paid: "Paid",
    paid_in_part: "Paid; sent back in part",
    paid_back: "Paid, and sent back in full",
    payer: "Who paid",
    payee: "Who received",
    details: "Transaction",
    name: "Name",
    keys: ["Pix key (CPF)", "Pix key (CNPJ)", "Pix key (telephone)", "Pix key (e-mail)", "Pix key (random)"],
    date: "Date",
    description: "Description",
    question: "Message",
    back: "Amount sent back",
    payments: "Payments",
    of_the_first: "the date, who paid and the transaction id are those of the first",
    end_to_end_id: "Transaction id",
    uuid: "Identifier",
    external_id: "Reference",
    issued: "Issued on",
    hidden: "Documents and keys are shown in part only.",
};

impl Words {
    fn of(language: Language) -> &'static Self {
        match language {
            Language::Portuguese => &PORTUGUESE,
            Language::English => &ENGLISH,
        }
    }

    fn key(&self, kind: PixKeyType) -> &'static str {
        let [cpf, cnpj, phone, email, random] = self.keys;
        match kind {
            PixKeyType::Cpf => cpf,
            PixKeyType::Cnpj => cnpj,
            PixKeyType::Phone => phone,
            PixKeyType::Email => email,
            PixKeyType::Evp => random,
        }
    }

    /// Name and document of somebody, as far as they are known.
    fn party(&self, party: &Party) -> Vec<Row> {
        let name = party.name.as_ref().map(|name| (self.name, name.as_str().to_owned()));
        let document = party.document.as_ref().map(|document| {
            let kind = match document.kind() {
                TaxIdKind::Cpf => "CPF",
                TaxIdKind::Cnpj => "CNPJ",
            };
            (kind, document.masked())
        });
        name.into_iter().chain(document).collect()
    }
}

/// A moment in Brazil's capital, to the second.
fn moment(language: Language, at: Timestamp) -> String {
    match language {
        Language::Portuguese => time::sao_paulo_as(at, "%d/%m/%Y às %H:%M:%S (horário de Brasília)"),
        Language::English => time::sao_paulo_as(at, "%B %-d, %Y, %H:%M:%S (Brasília time)"),
    }
}

/// What is left out when there is nothing to say.
fn row(name: &'static str, text: Option<&str>) -> Option<Row> {
    text.filter(|text| !text.is_empty()).map(|text| (name, text.to_owned()))
}

fn foot(language: Language, now: Timestamp) -> String {
    let words = Words::of(language);
    format!("{} {}. {}", words.issued, moment(language, now), words.hidden)
}

fn sections(parts: [(&'static str, Vec<Row>); 3]) -> Vec<Section> {
    let parts = parts.into_iter().filter(|(_, rows)| !rows.is_empty());
    parts.map(|(heading, rows)| Section { heading, rows }).collect()
}

/// The receipt of a withdrawal: of one that is completed or returned.
pub(crate) fn of_withdrawal(
    withdrawal: &Withdrawal,
    language: Language,
    now: Timestamp,
) -> Result<Sheet, ServiceError> {
    let words = Words::of(language);
    let standing = match withdrawal.state {
        OutgoingState::Completed if withdrawal.returned == Cents::ZERO => words.completed,
        OutgoingState::Completed => words.completed_in_part,
        OutgoingState::Returned => words.returned,
        _ => return Err(ServiceError::InvalidState(NO_WITHDRAWAL)),
    };
    let mut receiver = words.party(&withdrawal.payee.party);
    receiver.push((words.key(withdrawal.payee.key.kind()), withdrawal.payee.key.masked()));
    let back = (withdrawal.returned != Cents::ZERO).then(|| language.money(withdrawal.returned));
    let done = withdrawal.completed_at.unwrap_or(withdrawal.updated_at);
    let details = [
        Some((words.date, moment(language, done))),
        row(words.back, back.as_deref()),
        row(words.description, withdrawal.description.as_ref().map(Description::as_str)),
        row(words.end_to_end_id, withdrawal.end_to_end_id.as_deref()),
        Some((words.uuid, withdrawal.id.to_string())),
        row(words.external_id, Some(withdrawal.external_id.as_str())),
    ];
    let payer = words.party(&sender(withdrawal.provider_body.as_ref()));
    Ok(Sheet {
        language,
        title: words.sent,
        amount: language.money(withdrawal.amount.cents()),
        standing,
        sections: sections([
            (words.payer, payer),
            (words.payee, receiver),
            (words.details, details.into_iter().flatten().collect()),
        ]),
        foot: foot(language, now),
    })
}

/// The receipt of a charge that is paid. Who has received is who the code names, as payers have seen it.
pub(crate) fn of_charge(charge: &Charge, language: Language, now: Timestamp) -> Result<Sheet, ServiceError> {
    let words = Words::of(language);
    let (ChargeState::Paid, Some(credited)) = (&charge.state, &charge.credited) else {
        return Err(ServiceError::InvalidState(NO_CHARGE));
    };
    let back = charge.sent_back();
    let standing = if back == Cents::ZERO {
        words.paid
    } else if back == credited.amount_paid {
        words.paid_back
    } else {
        words.paid_in_part
    };
    let back = (back != Cents::ZERO).then(|| language.money(back));
    let payments = (credited.payments > 1).then(|| format!("{}: {}", credited.payments, words.of_the_first));
    let payee = pay::receiver(charge).map(|name| (words.name, name));
    let details = [
        Some((words.date, moment(language, credited.paid_at))),
        row(words.payments, payments.as_deref()),
        row(words.back, back.as_deref()),
        row(words.question, charge.payer_question.as_ref().map(PayerQuestion::as_str)),
        row(words.end_to_end_id, credited.first.end_to_end_id().map(EndToEndId::as_str)),
        Some((words.uuid, charge.id.to_string())),
        row(words.external_id, Some(charge.external_id.as_str())),
    ];
    Ok(Sheet {
        language,
        title: words.received,
        amount: language.money(credited.amount_paid),
        standing,
        sections: sections([
            (words.payer, words.party(&credited.paid_by)),
            (words.payee, payee.into_iter().collect()),
            (words.details, details.into_iter().flatten().collect()),
        ]),
        foot: foot(language, now),
    })
}

/// Whose account it left, as the provider says: the `debitParty` of the classic contract. What can't be read is not known.
fn sender(provider: Option<&ProviderBody>) -> Party {
    let found = provider.map(|body| body.0.as_str()).filter(|text| text.len() <= MAX_LOOKED_INTO_BYTES);
    let party = found.and_then(|text| body::object(text).ok()?.get("debitParty").map(|raw| raw.get()));
    let Some(fields) = party.and_then(|text| body::object(text).ok()) else { return Party::default() };
    let text = |name: &str| {
        let raw = fields.get(name)?.get();
        serde_json::from_str::<String>(raw).ok()
    };
    Party {
        name: text("name").and_then(|name| PersonName::parse_optional(&name).ok().flatten()),
        document: text("document").or_else(|| text("taxId")).and_then(|text| Document::parse(&text).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender_of(body: &str) -> (Option<String>, Option<String>) {
        let party = sender(Some(&ProviderBody(body.to_owned())));
        (party.name.map(|name| name.as_str().to_owned()), party.document.map(|document| document.masked()))
    }

    #[test]
    fn who_has_paid_is_read_from_the_provider_where_it_says_so() {
        let body = r#"{"debitParty":{"name":"LOJA SA","document":"11222333000181"},"requestBody":{}}"#;
        assert_eq!(sender_of(body), (Some("LOJA SA".into()), Some("**.222.333/****-**".into())));
        let body = r#"{"debitParty":{"name":"LOJA SA","taxId":"529.982.247-25"}}"#;
        assert_eq!(sender_of(body), (Some("LOJA SA".into()), Some("***.982.247-**".into())));
        for body in [
            "{}",
            "",
            "[]",
            r#"{"debitParty":null}"#,
            r#"{"debitParty":"x"}"#,
            r#"{"debitParty":{}}"#,
            r#"{"debitParty":{"name":7,"document":7}}"#,
            r#"{"debitParty":{"name":"","document":"1"}}"#,
            "{\"debitParty\":{\"name\":\"a\u{202e}b\"}}",
        ] {
            assert_eq!(sender_of(body), (None, None), "{body}");
        }
        assert_eq!(sender(None), Party::default());
    }

    #[test]
    fn a_moment_has_its_seconds_and_says_where() {
        let at = Timestamp::from_micros(1_791_348_065_000_001);
        assert_eq!(moment(Language::Portuguese, at), "07/10/2026 às 01:41:05 (horário de Brasília)");
        assert_eq!(moment(Language::English, at), "October 7, 2026, 01:41:05 (Brasília time)");
    }
}
