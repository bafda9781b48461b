//! What was done and heard about an outgoing movement, in order: its evidence.
//!
//! A movement whose outcome isn't known ends by evidence alone, so all of it is kept: that it was about to be sent, how
//! the call ended, every question and its answer, every callback, every decision of an operator. Evidence is written by
//! the transition that it leads to, or by one of its own when it changes nothing.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::StoreError;
use crate::ids::{self, ResourceRef};
use crate::ports::Ports;
use crate::provider::{OutgoingReport, Progress, ProviderError};
use crate::time::Timestamp;
use crate::transition::{Step, Transition};

/// The most characters of [`Evidence::detail`].
pub const MAX_DETAIL_CHARS: usize = 500;

/// The same answer to a further question is kept again only after this long: whoever asks every second learns nothing.
pub const MIN_REPEAT_GAP: Duration = Duration::from_secs(15);

/// How far the clock of whoever has written evidence may be ahead: what is dated later is of one that was wrong.
pub const MAX_AHEAD: Duration = Duration::from_secs(10);

/// A provider that has not said for so long that it doesn't know a record begins anew not to know it.
pub const MAX_SILENCE: Duration = Duration::from_hours(1);

/// The most entries of one record that a store answers with.
pub const MAX_LISTED: u32 = 1_000;

/// What is kept of a record whose commit nobody has acknowledged.
pub const READ_AGAIN: &str = "read again: the store did not say whether it was kept";

/// What kind of thing was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvidenceKind {
    /// It is about to be sent: written before the first byte is.
    Attempt,
    /// How the call that sends it ended.
    Answer,
    /// The provider was asked about it.
    Consult,
    /// The provider called back about it: a hint, and no more.
    Callback,
    /// Somebody who may decide has decided.
    Decision,
}

impl EvidenceKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Attempt, Self::Answer, Self::Consult, Self::Callback, Self::Decision];

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attempt => "attempt",
            Self::Answer => "answer",
            Self::Consult => "consult",
            Self::Callback => "callback",
            Self::Decision => "decision",
        }
    }

    /// The kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What is known by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// Nothing.
    Nothing,
    /// It was definitely not sent.
    NotSent,
    /// The provider has it.
    Accepted,
    /// The money has left.
    Completed,
    /// It did not and will not happen.
    Failed,
    /// It was completed, and money came back.
    Returned,
    /// The provider doesn't know it: no proof by itself.
    NotKnown,
    /// It may have happened.
    Unknown,
}

impl Proof {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::Nothing,
        Self::NotSent,
        Self::Accepted,
        Self::Completed,
        Self::Failed,
        Self::Returned,
        Self::NotKnown,
        Self::Unknown,
    ];

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::NotSent => "not_sent",
            Self::Accepted => "accepted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Returned => "returned",
            Self::NotKnown => "not_known",
            Self::Unknown => "unknown",
        }
    }

    /// The one with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proof| proof.as_str() == name)
    }
}

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Its own id; entries of one instant are in its order.
    pub id: Uuid,
    /// What it is about.
    pub resource: ResourceRef,
    /// When.
    pub at: Timestamp,
    /// What kind of thing it is.
    pub kind: EvidenceKind,
    /// What is known by it.
    pub proof: Proof,
    /// A sentence or code, without personal data but what the integrator itself sent.
    pub detail: String,
}

/// Where evidence is read. It is written by [`TransitionStore`](crate::transition::TransitionStore) alone.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait EvidenceStore: Send + Sync {
    /// All evidence about the record (the newest [`MAX_LISTED`]), by time and then id. MUST find none of another
    /// integrator's.
    async fn list(&self, resource: ResourceRef) -> Result<Vec<Evidence>, StoreError>;
}

/// Something seen, before it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub kind: EvidenceKind,
    pub proof: Proof,
    pub detail: String,
    /// When, if not now.
    pub at: Option<Timestamp>,
    /// What led to it and isn't kept yet: a callback.
    pub hint: Option<Box<Self>>,
}

impl Seen {
    pub(crate) fn new(kind: EvidenceKind, proof: Proof, detail: &str) -> Self {
        Self { kind, proof, detail: detail.chars().take(MAX_DETAIL_CHARS).collect(), at: None, hint: None }
    }

    /// The same, with what led to it.
    pub(crate) fn led_to_by(self, hint: Option<Self>) -> Self {
        Self { hint: hint.map(Box::new), ..self }
    }

    /// That an intent was not sent, since the store couldn't say that it was kept.
    pub(crate) fn read_again() -> Self {
        Self::new(EvidenceKind::Answer, Proof::NotSent, READ_AGAIN)
    }

    /// What a report of the provider proves.
    pub(crate) fn report(kind: EvidenceKind, report: &OutgoingReport) -> Self {
        let (proof, detail) = match &report.progress {
            Progress::Accepted => (Proof::Accepted, String::new()),
            Progress::Completed => (Proof::Completed, String::new()),
            Progress::Failed { code, message } => (Proof::Failed, format!("{code}: {message}")),
            Progress::Returned(cents) => (Proof::Returned, format!("{} centavos came back", cents.get())),
        };
        let known = format!("pix_id {} {detail}", report.provider_id.as_str());
        Self::new(kind, proof, known.trim_end())
    }

    /// What a failed call that sends it proves.
    pub(crate) fn failed_call(error: &ProviderError) -> Self {
        let kind = EvidenceKind::Answer;
        match error {
            ProviderError::Rejected { code, message, .. } => {
                Self::new(kind, Proof::Failed, &format!("{code}: {message}"))
            }
            ProviderError::Unavailable(why) => Self::new(kind, Proof::NotSent, why),
            ProviderError::Indeterminate(why) => Self::new(kind, Proof::Unknown, why),
            ProviderError::Mismatch(_) => Self::new(kind, Proof::Unknown, &error.to_string()),
        }
    }

    /// What an answered or failed question proves. It is of the moment at which it was asked: what was sent after that it
    /// says nothing of.
    pub(crate) fn consult(
        answer: &Result<Option<OutgoingReport>, ProviderError>,
        asked_at: Timestamp,
    ) -> Self {
        let kind = EvidenceKind::Consult;
        let seen = match answer {
            Ok(Some(report)) => Self::report(kind, report),
            Ok(None) => Self::new(kind, Proof::NotKnown, "the provider does not know it"),
            Err(error) => Self::new(kind, Proof::Nothing, &error.to_string()),
        };
        Self { at: Some(asked_at), ..seen }
    }
}

impl Ports {
    /// Writes `seen` down as evidence about `resource`.
    pub(crate) fn evidence(&self, resource: ResourceRef, seen: Seen) -> Evidence {
        let Seen { kind, proof, detail, at, hint: _ } = seen;
        let at = at.unwrap_or_else(|| self.clock.now());
        Evidence { id: self.ids.next(), resource, at, kind, proof, detail }
    }

    /// Writes `seen` down, after what led to it.
    pub(crate) fn evidence_with_hint(&self, resource: ResourceRef, mut seen: Seen) -> Vec<Evidence> {
        let hint = seen.hint.take().map(|hint| self.evidence(resource, *hint));
        hint.into_iter().chain([self.evidence(resource, seen)]).collect()
    }

    /// Keeps what was seen of a record and changed nothing. Of one that `is_final`, only that the provider called back.
    pub(crate) async fn note_seen(&self, resource: ResourceRef, is_final: bool, mut seen: Seen) {
        if let Some(hint) = seen.hint.take() {
            self.note(self.evidence(resource, *hint)).await;
        }
        if !is_final {
            self.note(self.evidence(resource, seen)).await;
        }
    }

    /// Keeps evidence that changed nothing, unless it only repeats what was seen just before. A store that can't take it now loses a line
    /// of the story and no money, so that is no error.
    pub(crate) async fn note(&self, evidence: Evidence) {
        if let Ok(known) = self.stores.evidence.list(evidence.resource).await {
            self.note_beside(&known, evidence).await;
        }
    }

    /// The same, beside what is `known` of the record, where it was just read.
    pub(crate) async fn note_beside(&self, known: &[Evidence], evidence: Evidence) {
        let repeats = known
            .iter()
            .rev()
            // What a clock that was wrong has dated ahead says nothing of what was just before.
            .skip_while(|other| other.at > evidence.at.plus(MAX_AHEAD))
            .take_while(|other| evidence.at.since(other.at) < MIN_REPEAT_GAP)
            .any(|other| other.kind == evidence.kind && other.proof == evidence.proof);
        if !repeats {
            let transition =
                Transition::new(evidence.resource.integrator_id, evidence.at).witness([evidence]);
            let _ = self.stores.transitions.apply(transition).await;
        }
    }

    /// Whether the very intent is stored with which the evidence `attempt` came.
    pub(crate) async fn is_kept(&self, resource: ResourceRef, attempt: Uuid) -> Result<bool, StoreError> {
        let known = self.stores.evidence.list(resource).await?;
        Ok(known.iter().any(|evidence| evidence.id == attempt))
    }

    /// Whether a stored record is the one that this request has stored, by the evidence that came with it. Another request
    /// with the same handle may have given it the same id.
    pub(crate) async fn is_ours(
        &self,
        resource: ResourceRef,
        attempt: Option<Uuid>,
    ) -> Result<bool, StoreError> {
        if ids::timeless(resource.id).is_none() {
            return Ok(true);
        }
        match attempt {
            Some(attempt) => self.is_kept(resource, attempt).await,
            None => Ok(false),
        }
    }

    /// Stores `step`, which puts a record in the queue that was read though the store couldn't say that its intent was kept.
    /// What is sent now could be an intent that only this server has, and not the standby that replaces it: whoever follows
    /// up sends it, after a commit of its own. `None` when this one isn't acknowledged either.
    pub(crate) async fn hold_back(&self, resource: ResourceRef, step: Step) -> Option<Transition> {
        let Step::Next(queued) = step else { return None };
        let seen = self.evidence(resource, Seen::read_again());
        let queued = queued.witness([seen]);
        self.stores.transitions.apply(queued.clone()).await.ok()?;
        Some(queued)
    }

    /// Whether a record that was read, though the store couldn't say that it was kept, will stay: a server that was started
    /// again shows what it had written before its standby had it, and a commit after that is acknowledged when the standby has both.
    pub(crate) async fn stays(&self, resource: ResourceRef) -> bool {
        let seen = Seen::new(EvidenceKind::Answer, Proof::Nothing, READ_AGAIN);
        let evidence = self.evidence(resource, seen);
        let known = Transition::new(resource.integrator_id, evidence.at).witness([evidence]);
        self.stores.transitions.apply(known).await.is_ok()
    }

    /// Whether "not known" to a question of `asked_at` proves that the provider never took what was last sent at `sent_at`: the
    /// adapter's horizon has passed since, by a clock that was right all that time, and the provider has answered so before.
    pub(crate) async fn not_known_proves(
        &self,
        resource: ResourceRef,
        sent_at: Timestamp,
        asked_at: Timestamp,
    ) -> Result<bool, StoreError> {
        let Some(horizon) = self.provider.not_found_is_proof_after() else { return Ok(false) };
        let horizon = horizon.saturating_add(self.submit_grace);
        let is_past = asked_at.since(sent_at) >= horizon && self.clock.is_right_for(horizon);
        Ok(is_past && self.was_not_known(resource, sent_at, asked_at).await?)
    }

    /// Whether the provider has said since `sent_at`, and [`MIN_REPEAT_GAP`] before `asked_at` or earlier, that it doesn't
    /// know the record.
    async fn was_not_known(
        &self,
        resource: ResourceRef,
        sent_at: Timestamp,
        asked_at: Timestamp,
    ) -> Result<bool, StoreError> {
        let known = self.stores.evidence.list(resource).await?;
        Ok(known.iter().any(|evidence| {
            evidence.kind == EvidenceKind::Consult
                && evidence.proof == Proof::NotKnown
                && evidence.at >= sent_at
                && asked_at.since(evidence.at) >= MIN_REPEAT_GAP
        }))
    }

    /// Whether a provider that had the record has said from `before` on, or longer, that it doesn't know it, with no more than
    /// [`MAX_SILENCE`] between any two answers, and since `sent_at`; and neither said that it has it, nor called back about it,
    /// in all that time.
    pub(crate) async fn is_forgotten(
        &self,
        resource: ResourceRef,
        sent_at: Timestamp,
        before: Timestamp,
    ) -> Result<bool, StoreError> {
        let known = self.stores.evidence.list(resource).await?;
        let had = |evidence: &Evidence| {
            evidence.kind == EvidenceKind::Callback
                || matches!(
                    evidence.proof,
                    Proof::Accepted | Proof::Completed | Proof::Failed | Proof::Returned
                )
        };
        let mut since = self.clock.now();
        for evidence in known.iter().rev().take_while(|evidence| !had(evidence) && evidence.at >= sent_at) {
            if evidence.kind != EvidenceKind::Consult || evidence.proof != Proof::NotKnown {
                continue;
            }
            if since.since(evidence.at) > MAX_SILENCE {
                return Ok(false);
            }
            since = evidence.at;
            if since <= before {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_proofs_are_found_by_their_names() {
        for kind in EvidenceKind::ALL {
            assert_eq!(EvidenceKind::from_name(kind.as_str()), Some(kind));
        }
        for proof in Proof::ALL {
            assert_eq!(Proof::from_name(proof.as_str()), Some(proof));
        }
        assert_eq!(EvidenceKind::from_name("rumour"), None);
        assert_eq!(Proof::from_name("certain"), None);
    }

    #[test]
    fn details_are_cut() {
        let seen = Seen::new(EvidenceKind::Answer, Proof::Unknown, &"é".repeat(MAX_DETAIL_CHARS + 1));
        assert_eq!(seen.detail.chars().count(), MAX_DETAIL_CHARS);
    }
}
