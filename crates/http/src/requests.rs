//! From the body of a request to a command: the same reader for v1 and v2, which differ in what they require.

use std::time::Duration;

use pix_domain::charges::service::CreateCharge;
use pix_domain::charges::{DEFAULT_EXPIRES_IN, MAX_EXPIRES_IN, MIN_EXPIRES_IN};
use pix_domain::credentials::Scope;
use pix_domain::credentials::service::Caller;
use pix_domain::fees::Percent;
use pix_domain::ids::{ChargeId, IntegratorId};
use pix_domain::invalid::Invalid;
use pix_domain::money::Amount;
use pix_domain::party::{Document, PixKey, PixKeyType, TaxId};
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::provider::Party;
use pix_domain::refunds::service::CreateRefund;
use pix_domain::splits::{MAX_SHARES, NewShare, Part};
use pix_domain::text::{
    Description, Email, ExternalId, IdempotencyKey, PayerQuestion, PersonName, PostbackUrl,
};
use pix_domain::withdrawals::Payee;
use pix_domain::withdrawals::service::CreateWithdrawal;
use uuid::Uuid;

use crate::error::ApiError;
use crate::fields::{Form, Mode, Problems};

/// The body of a charge; `postbacks` says whether postbacks can ever go to a URL.
pub(crate) fn charge(
    body: &str,
    mode: Mode,
    caller: &Caller,
    idempotency_key: Option<IdempotencyKey>,
    postbacks: &impl Fn(&PostbackUrl) -> Result<(), Invalid>,
) -> Result<CreateCharge, ApiError> {
    let form = Form::parse(body, mode)?;
    let mut problems = Problems::default();
    let amount = form.amount("amount", &mut problems);
    let external_id = external_id(&form, &mut problems);
    let payer_form = form.child("payer", &mut problems)?;
    let payer = party(&payer_form, "document", &mut problems);
    let payer_email = payer_form.optional("email", |text| email(text, mode), &mut problems);
    let payer_question = form.optional("payerQuestion", PayerQuestion::parse_optional, &mut problems);
    let metadata = form.pairs("metadata", &mut problems)?;
    let postback_url = postback_url(&form, postbacks, &mut problems);
    let bounds = MIN_EXPIRES_IN.as_secs()..=MAX_EXPIRES_IN.as_secs();
    let expiration = form.whole_number("expiration", bounds, &mut problems);
    let split = shares(&form, caller, &mut problems)?;
    let Some(amount) = amount else { return Err(problems.into_error()) };
    problems.check()?;
    if !split.is_empty() {
        // It is the integrator's money that goes to others.
        caller.require(Scope::WithdrawalsWrite)?;
    }
    Ok(CreateCharge {
        integrator_id: caller.integrator_id,
        external_id,
        idempotency_key,
        amount,
        payer,
        payer_email,
        payer_question,
        metadata,
        postback_url,
        postback_scope: postback_scope(mode, caller),
        expires_in: expiration.map_or(DEFAULT_EXPIRES_IN, Duration::from_secs),
        split,
    })
}

/// The body of a withdrawal; `postbacks` as for a charge.
pub(crate) fn withdrawal(
    body: &str,
    mode: Mode,
    caller: &Caller,
    idempotency_key: Option<IdempotencyKey>,
    postbacks: &impl Fn(&PostbackUrl) -> Result<(), Invalid>,
) -> Result<CreateWithdrawal, ApiError> {
    let form = Form::parse(body, mode)?;
    let mut problems = Problems::default();
    let amount = form.amount("amount", &mut problems);
    let external_id = external_id(&form, &mut problems);
    let credit_party = form.child("creditParty", &mut problems)?;
    let party = party(&credit_party, "taxId", &mut problems);
    let kind = credit_party.required("keyType", PixKeyType::parse, &mut problems);
    // Of an unknown type, all that can be said of a key is whether it is there.
    let parse = |text: &str| match kind {
        Some(kind) => PixKey::parse(kind, text).map(Some),
        None if text.trim().is_empty() => Err(Invalid::new(Invalid::REQUIRED, "creditParty.key is required")),
        None => Ok(None),
    };
    let key = credit_party.required("key", parse, &mut problems).flatten();
    let description = form.optional("description", Description::parse_optional, &mut problems);
    let metadata = form.pairs("metadata", &mut problems)?;
    let postback_url = postback_url(&form, postbacks, &mut problems);
    let allow_duplicate_of = allow_duplicate_of(&form, &mut problems);
    let (Some(amount), Some(key)) = (amount, key) else { return Err(problems.into_error()) };
    problems.check()?;
    Ok(CreateWithdrawal {
        integrator_id: caller.integrator_id,
        integrator_status: caller.status,
        external_id,
        idempotency_key,
        amount,
        payee: Payee { party, key },
        description,
        metadata,
        postback_url,
        postback_scope: postback_scope(mode, caller),
        allow_duplicate_of,
    })
}

/// What the body of a refund says, without the charge it is of.
pub(crate) struct RefundBody {
    amount: Option<Amount>,
    external_id: Option<ExternalId>,
    description: Option<Description>,
    allow_duplicate_of: Option<Uuid>,
}

impl RefundBody {
    /// Reads the body; `problems` may hold some already, and all are told.
    pub(crate) fn parse(form: &Form<'_>, mut problems: Problems) -> Result<Self, ApiError> {
        // `null` is no amount: a lost variable of a client must not refund everything.
        let amount = if form.has("amount") { form.amount("amount", &mut problems) } else { None };
        let external_id = external_id(form, &mut problems);
        let description = form.optional("description", Description::parse_optional, &mut problems);
        let allow_duplicate_of = allow_duplicate_of(form, &mut problems);
        problems.check()?;
        Ok(Self { amount, external_id, description, allow_duplicate_of })
    }

    /// The command.
    pub(crate) fn of(
        self,
        charge_id: ChargeId,
        caller: &Caller,
        idempotency_key: Option<IdempotencyKey>,
    ) -> CreateRefund {
        CreateRefund {
            integrator_id: caller.integrator_id,
            integrator_status: caller.status,
            charge_id,
            external_id: self.external_id,
            idempotency_key,
            amount: self.amount,
            description: self.description,
            allow_duplicate_of: self.allow_duplicate_of,
        }
    }
}

/// The parts of a charge's payments that go to others. The use case refuses all that is wrong with them; what can be told of
/// each without the books is told here, together with what else is wrong with the form.
fn shares(form: &Form<'_>, caller: &Caller, problems: &mut Problems) -> Result<Vec<NewShare>, ApiError> {
    let too_many = format!("must name at most {MAX_SHARES} recipients");
    let items = form.objects("split", MAX_SHARES, &too_many, problems)?;
    let mut shares: Vec<NewShare> = Vec::with_capacity(items.len());
    for item in &items {
        let Some(share) = share(item, problems) else { continue };
        if share.recipient == caller.integrator_id {
            problems.add(item.name(), Invalid::INVALID_FORMAT, "must not name the charge's own integrator");
        } else if shares.iter().any(|other| other.recipient == share.recipient) {
            problems.add(item.name(), Invalid::INVALID_FORMAT, "must not name a recipient twice");
        }
        shares.push(share);
    }
    Ok(shares)
}

/// One of them, in v1's words or in the family's, in either generation.
fn share(item: &Form<'_>, problems: &mut Problems) -> Option<NewShare> {
    let given = |names: &[&'static str]| -> Vec<&'static str> {
        names.iter().copied().filter(|name| item.gives(name)).collect()
    };
    let parse_id = |text: &str| match Uuid::try_parse(text) {
        Ok(id) => Ok(IntegratorId(id)),
        Err(_not_one) => Err(Invalid::new(Invalid::INVALID_FORMAT, "must be a UUID")),
    };
    let recipient = match given(&["recipient", "username"]).as_slice() {
        [] => item.required("recipient", parse_id, problems),
        [name] => item.required(name, parse_id, problems),
        _ => {
            problems.add(item.name(), "mismatch", "must have a recipient or a username, and not both");
            None
        }
    };
    let part = match given(&["percentage", "percentageSplit", "amount"]).as_slice() {
        ["amount"] => item.amount("amount", problems).map(Part::Amount),
        [name] => item.digits(name, percentage, problems).map(Part::Percentage),
        names => {
            let code = if names.is_empty() { Invalid::REQUIRED } else { "mismatch" };
            problems.add(item.name(), code, "must have a percentage or an amount, and not both");
            None
        }
    };
    Some(NewShare { recipient: recipient?, part: part? })
}

fn percentage(text: &str) -> Result<Percent, Invalid> {
    let percent = Percent::parse(text)?;
    if percent.is_zero() {
        return Err(Invalid::new(Invalid::INVALID_FORMAT, "must be greater than zero"));
    }
    Ok(percent)
}

/// Where events go. A URL that nothing can ever be sent to is refused while somebody reads the answer.
pub(crate) fn postback_url(
    form: &Form<'_>,
    postbacks: &impl Fn(&PostbackUrl) -> Result<(), Invalid>,
    problems: &mut Problems,
) -> Option<PostbackUrl> {
    let parse = |text: &str| match PostbackUrl::parse_optional(text)? {
        Some(url) => postbacks(&url).map(|()| Some(url)),
        None => Ok(None),
    };
    form.optional("postbackUrl", parse, problems)
}

/// Which events go there: what was agreed with the integrator, else what clients of the generation know. Those of v2 know
/// the outcome alone, and many credit whatever names their charge.
fn postback_scope(mode: Mode, caller: &Caller) -> PostbackScope {
    caller.postback_scope.unwrap_or(match mode {
        Mode::Strict => PostbackScope::All,
        Mode::Liberal => PostbackScope::Outcomes,
    })
}

/// The uuid of the record that this one is like on purpose.
fn allow_duplicate_of(form: &Form<'_>, problems: &mut Problems) -> Option<Uuid> {
    let parse = |text: &str| {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        Uuid::try_parse(text).map(Some).map_err(|_not_one| {
            Invalid::new(Invalid::INVALID_FORMAT, "allow_duplicate_of must be the uuid of a transaction")
        })
    };
    form.optional("allow_duplicate_of", parse, problems)
}

/// The integrator's name for a record. In v1 an empty one is refused: it would be a lost handle.
pub(crate) fn external_id(form: &Form<'_>, problems: &mut Problems) -> Option<ExternalId> {
    let parse = |text: &str| match ExternalId::parse(text) {
        Err(invalid) if invalid.code == Invalid::REQUIRED => {
            Err(Invalid::new(Invalid::INVALID_FORMAT, "must not be empty"))
        }
        parsed => parsed.map(Some),
    };
    form.optional("external_id", parse, problems)
}

/// A name and a document: both required, with check digits, in v1; both optional, without, in v2.
fn party(form: &Form<'_>, document: &str, problems: &mut Problems) -> Party {
    match form.mode() {
        Mode::Strict => Party {
            name: form.required("name", PersonName::parse, problems),
            document: form.required(document, TaxId::parse, problems).map(Document::from),
        },
        Mode::Liberal => Party {
            name: form.optional("name", PersonName::parse_optional, problems),
            document: form.optional(document, optional_document, problems),
        },
    }
}

/// Clients of v2 send fillers: what is no address is left out, since a charge doesn't need one.
fn email(text: &str, mode: Mode) -> Result<Option<Email>, Invalid> {
    match (Email::parse_optional(text), mode) {
        (Err(_filler), Mode::Liberal) => Ok(None),
        (parsed, _) => parsed,
    }
}

fn optional_document(text: &str) -> Result<Option<Document>, Invalid> {
    match Document::parse(text) {
        Err(invalid) if invalid.code == Invalid::REQUIRED => Ok(None),
        parsed => parsed.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use pix_domain::credentials::{IntegratorStatus, Scopes};
    use pix_domain::ids::IntegratorId;
    use uuid::Uuid;

    use super::*;

    fn caller() -> Caller {
        Caller {
            integrator_id: IntegratorId(Uuid::nil()),
            status: IntegratorStatus::Active,
            postback_scope: None,
            key_public_id: "key".into(),
            scopes: Scopes::ALL,
        }
    }

    /// Where postbacks go: anywhere but to one host.
    fn anywhere(url: &PostbackUrl) -> Result<(), Invalid> {
        let private = url.origin() == "http://10.0.0.1";
        if private { Err(Invalid::new("address_not_public", "not there")) } else { Ok(()) }
    }

    #[test]
    fn v2_takes_what_clients_of_the_family_send_for_a_charge() {
        for body in [
            r#"{"amount":15.55}"#,
            r#"{"amount":"15.55","external_id":42,"payer":null,"postbackUrl":"","payerQuestion":null,"split":[]}"#,
            r#"{"amount":15.55,"external_id":"a:b","payer":{"name":"","document":"","email":"","phone":"+55"}}"#,
            r#"{"amount":15.55,"payer":{"document":"000.000.000-00"},"split":null,"expiration":"300"}"#,
            r#"{"amount":15.55,"payer":{"document":12345678909},"external_id":null,"payerQuestion":"ok?"}"#,
            r#"{"amount":15.55,"payer":[]}"#,
            r#"{"amount":15.55,"payer":false,"split":false,"postbackUrl":false,"external_id":-5}"#,
            r#"{"amount":15.55,"payer":{"name":false,"email":"none","document":false},"expiration":false}"#,
        ] {
            let command = charge(body, Mode::Liberal, &caller(), None, &anywhere).unwrap();
            assert_eq!(command.amount.cents().get(), 1555, "{body}");
        }
    }

    const RECIPIENT: &str = "019c0000-0000-7000-8000-000000000001";

    fn split_of(json: &str, mode: Mode) -> Result<Vec<NewShare>, String> {
        let json = json.replace('R', RECIPIENT);
        let body =
            format!(r#"{{"amount":1,"payer":{{"name":"Ana","document":"52998224725"}},"split":{json}}}"#);
        let command = charge(&body, mode, &caller(), None, &anywhere);
        command.map(|command| command.split).map_err(|error| error.to_string())
    }

    #[test]
    fn a_split_is_read_in_either_spelling_to_the_last_digit() {
        let recipient = IntegratorId(Uuid::try_parse(RECIPIENT).unwrap());
        let percent = |text| Part::Percentage(Percent::parse(text).unwrap());
        let reais = |text| Part::Amount(Amount::parse(text).unwrap());
        for mode in [Mode::Strict, Mode::Liberal] {
            for (json, part) in [
                (r#"[{"recipient":"R","percentage":"10.5"}]"#, percent("10.5")),
                (r#"[{"recipient":"R","percentage":0.0001,"amount":null}]"#, percent("0.0001")),
                (r#"[{"recipient":"R","amount":"1.00","percentage":null}]"#, reais("1")),
                (r#"[{"recipient":"R","amount":0.29}]"#, reais("0.29")),
                (r#"[{"username":"R","percentageSplit":10}]"#, percent("10")),
                (r#"[{"username":"R","percentageSplit":"33.3333"}]"#, percent("33.3333")),
                (r#"[{"username":"R","recipient":null,"percentage":100}]"#, percent("100")),
            ] {
                assert_eq!(split_of(json, mode), Ok(vec![NewShare { recipient, part }]), "{json}");
            }
            for json in ["null", "[]"] {
                assert_eq!(split_of(json, mode), Ok(vec![]), "{json}");
            }
        }
        let other = RECIPIENT.replace('1', "2");
        let two = format!(r#"[{{"recipient":"R","percentage":1}},{{"recipient":"{other}","amount":1}}]"#);
        assert_eq!(split_of(&two, Mode::Strict).unwrap().len(), 2);
    }

    #[test]
    fn a_split_is_never_silently_left_out() {
        let eleven = format!("[{}]", [r#"{"recipient":"R","percentage":1}"#; MAX_SHARES + 1].join(","));
        for mode in [Mode::Strict, Mode::Liberal] {
            for json in [
                "{}",
                "1",
                "true",
                "\"R\"",
                "[1]",
                "[null]",
                "[{}]",
                &eleven,
                r#"[{"username":"x","percentageSplit":"10"}]"#,
                r#"[{"recipient":"","percentage":"10"}]"#,
                r#"[{"recipient":["R"],"percentage":"10"}]"#,
                r#"[{"recipient":"R"}]"#,
                r#"[{"recipient":"R","percentage":null}]"#,
                r#"[{"recipient":"R","percentage":"10","amount":"1"}]"#,
                r#"[{"recipient":"R","percentage":"10","percentageSplit":"10"}]"#,
                r#"[{"recipient":"R","username":"R","percentage":"10"}]"#,
                r#"[{"percentage":"10"}]"#,
                r#"[{"recipient":"R","percentage":0}]"#,
                r#"[{"recipient":"R","percentage":"0.0000"}]"#,
                r#"[{"recipient":"R","percentage":"100.0001"}]"#,
                r#"[{"recipient":"R","percentage":"1.00001"}]"#,
                r#"[{"recipient":"R","percentage":-1}]"#,
                r#"[{"recipient":"R","percentage":1e1}]"#,
                r#"[{"recipient":"R","percentage":"1,5"}]"#,
                r#"[{"recipient":"R","percentage":[1]}]"#,
                r#"[{"recipient":"R","percentage":1},{"recipient":"R","amount":1}]"#,
                r#"[{"recipient":"00000000-0000-0000-0000-000000000000","percentage":1}]"#,
                r#"[{"recipient":"R","amount":0}]"#,
                r#"[{"recipient":"R","amount":"0.001"}]"#,
                r#"[{"recipient":"R","amount":{"$gt":0}}]"#,
            ] {
                assert_eq!(split_of(json, mode), Err("validation_failed".to_owned()), "{json}");
            }
        }
        assert_eq!(split_of("false", Mode::Liberal), Ok(vec![]));
        assert_eq!(split_of("false", Mode::Strict), Err("validation_failed".to_owned()));
        let twice = r#"[{"recipient":"R","percentage":1,"percentage":2}]"#;
        assert_eq!(split_of(twice, Mode::Liberal), Err("malformed_request".to_owned()));
    }

    #[test]
    fn the_only_problem_decides_the_code() {
        let code =
            |body: &str, mode| withdrawal(body, mode, &caller(), None, &anywhere).unwrap_err().to_string();
        let party = |key: &str| {
            format!(r#""creditParty":{{"name":"Ana","keyType":"cpf","key":"{key}","taxId":"52998224725"}}"#)
        };
        assert_eq!(
            code(&format!("{{\"amount\":0,{}}}", party("52998224725")), Mode::Strict),
            "invalid_amount"
        );
        assert_eq!(code(&format!("{{\"amount\":1,{}}}", party("1")), Mode::Strict), "invalid_pix_key");
        assert_eq!(code(&format!("{{\"amount\":0,{}}}", party("1")), Mode::Strict), "validation_failed");
        assert_eq!(code("{\"amount\":1}", Mode::Liberal), "validation_failed");
    }

    #[test]
    fn v2_needs_no_name_nor_document_of_a_payee() {
        let body = r#"{"amount":10,"creditParty":{"name":"","keyType":"TELEFONE","key":"11987654321"}}"#;
        let command = withdrawal(body, Mode::Liberal, &caller(), None, &anywhere).unwrap();
        assert_eq!(command.payee.key.as_str(), "+5511987654321");
        assert!(withdrawal(body, Mode::Strict, &caller(), None, &anywhere).is_err());
    }

    #[test]
    fn a_postback_url_is_asked_about_and_an_empty_one_is_none() {
        let url = |text: &str| {
            let body = format!(r#"{{"amount":1,"postbackUrl":"{text}"}}"#);
            let command = charge(&body, Mode::Liberal, &caller(), None, &anywhere);
            command.map(|command| command.postback_url.map(|url| url.as_str().to_owned()))
        };
        assert_eq!(url("https://loja.example/x?y").unwrap().as_deref(), Some("https://loja.example/x?y"));
        assert_eq!(url("").unwrap(), None);
        assert_eq!(url("http://10.0.0.1/x").unwrap_err().to_string(), "validation_failed");
    }

    #[test]
    fn the_generation_decides_which_events_go_out_unless_something_else_was_agreed() {
        let v1 = r#"{"amount":1,"payer":{"name":"Ana","document":"52998224725"}}"#;
        let scope = |mode, postback_scope| {
            let caller = Caller { postback_scope, ..caller() };
            charge(v1, mode, &caller, None, &anywhere).unwrap().postback_scope
        };
        assert_eq!(scope(Mode::Strict, None), PostbackScope::All);
        assert_eq!(scope(Mode::Liberal, None), PostbackScope::Outcomes);
        assert_eq!(scope(Mode::Strict, Some(PostbackScope::Outcomes)), PostbackScope::Outcomes);
        assert_eq!(scope(Mode::Liberal, Some(PostbackScope::All)), PostbackScope::All);
    }

    #[test]
    fn a_refund_of_null_is_refused_and_one_without_amount_is_of_all_that_is_left() {
        let parse = |body: &'static str| {
            RefundBody::parse(&Form::parse(body, Mode::Liberal).unwrap(), Problems::default())
        };
        assert_eq!(parse("{}").unwrap().amount, None);
        for body in [r#"{"amount":null}"#, r#"{"amount":""}"#, r#"{"amount":0}"#] {
            assert_eq!(parse(body).err().unwrap().to_string(), "invalid_amount", "{body}");
        }
    }

    #[test]
    fn an_empty_external_id_is_a_lost_handle_in_v1_and_none_in_v2() {
        let v1 = r#"{"amount":1,"external_id":"","payer":{"name":"Ana","document":"52998224725"}}"#;
        assert!(charge(v1, Mode::Strict, &caller(), None, &anywhere).is_err());
        assert_eq!(charge(v1, Mode::Liberal, &caller(), None, &anywhere).unwrap().external_id, None);
    }
}
