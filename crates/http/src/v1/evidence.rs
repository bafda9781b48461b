//! `/api/v1/withdrawals/{withdrawal}/evidence` and `/api/v1/refunds/{refund}/evidence`: what was done and heard about an
//! outgoing movement, oldest first.

use pix_domain::error::ServiceError;
use pix_domain::evidence::{Evidence, EvidenceKind, Proof, READ_AGAIN};
use pix_domain::ids::ResourceKind;

use super::find;
use crate::extract::{Answer, TenantCall, ok};
use crate::json::{self, Object};
use crate::time;

/// The evidence about a withdrawal.
pub(crate) async fn of_withdrawal(call: TenantCall) -> Answer {
    list(call, ResourceKind::Withdrawal).await
}

/// The evidence about a refund.
pub(crate) async fn of_refund(call: TenantCall) -> Answer {
    list(call, ResourceKind::Refund).await
}

async fn list(call: TenantCall, kind: ResourceKind) -> Answer {
    let caller = call.caller().await?;
    let name = call.path_part().await;
    let transactions = call.state.services.transactions.clone();
    let work = async move {
        let found = find(&transactions, caller.integrator_id, kind, &name).await?;
        transactions.evidence(found.resource()).await
    };
    let known: Vec<Evidence> = call.state.run::<_, ServiceError>(work).await?;
    Ok(ok(Object::new().raw("data", &json::array(known.iter().map(|evidence| render(evidence).end())))))
}

fn render(evidence: &Evidence) -> Object {
    Object::new()
        .text("at", &time::rfc3339(evidence.at))
        .text("kind", evidence.kind.as_str())
        .text("proves", evidence.proof.as_str())
        .text("detail", detail(evidence))
}

/// What the integrator is told. How the call or question itself failed is for the operator (`pix-gateway uncertain`): it
/// names hosts and settings.
fn detail(evidence: &Evidence) -> &str {
    let of_call = matches!(evidence.kind, EvidenceKind::Answer | EvidenceKind::Consult);
    match evidence.proof {
        _ if evidence.detail == READ_AGAIN => READ_AGAIN,
        Proof::Nothing if of_call => "the provider could not be asked",
        Proof::NotSent if of_call => "the provider could not be reached; nothing was sent",
        Proof::Unknown if of_call => "the provider gave no answer that can be used",
        _ => &evidence.detail,
    }
}

#[cfg(test)]
mod tests {
    use pix_domain::ids::{IntegratorId, ResourceRef};
    use pix_domain::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_the_store_did_not_say_is_not_laid_to_the_provider() {
        let resource = ResourceRef {
            integrator_id: IntegratorId(Uuid::nil()),
            kind: ResourceKind::Refund,
            id: Uuid::nil(),
        };
        let told = |proof, text: &str| {
            let (at, kind) = (Timestamp::from_micros(0), EvidenceKind::Answer);
            detail(&Evidence { id: Uuid::nil(), resource, at, kind, proof, detail: text.into() }).to_owned()
        };
        assert_eq!(told(Proof::NotSent, READ_AGAIN), READ_AGAIN);
        let refused = "connection refused by 10.0.0.1:443";
        assert_eq!(told(Proof::NotSent, refused), "the provider could not be reached; nothing was sent");
    }
}
