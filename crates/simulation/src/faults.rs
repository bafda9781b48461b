//! The faults there are, how likely each is in a world, and how often each occurred.

use std::collections::BTreeMap;

use crate::random::Random;

/// Something that goes wrong, or that a well-behaved integrator doesn't do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`name` says what each is")]
pub enum Fault {
    Crash,
    CrashMidRequest,
    ReadUnavailable,
    ApplyUnavailable,
    CommitUnknownNotDone,
    CommitUnknownDone,
    CommitUnknownLate,
    StaleWrite,
    HeldUp,
    ClockLeap,
    NotSent,
    RequestLost,
    AnswerLost,
    ArrivesLate,
    SlowAnswer,
    Refused,
    SettlesLater,
    FailsLater,
    NotKnownYet,
    ConsultFails,
    CallbackNever,
    CallbackLate,
    CallbackTwice,
    CallbackEarly,
    CallbackNotKept,
    CallbackRepeated,
    CallbackTakenUp,
    MoneyCameBack,
    SentBackByItself,
    Owed,
    OwedRepaid,
    SplitTakenBack,
    PaidTwice,
    PaidLate,
    PaidOtherAmount,
    ChargeRemoved,
    FeesChanged,
    Decided,
    Repeated,
    RepeatedAtOnce,
    OtherBody,
    TwinRefused,
    TwinAllowed,
}

impl Fault {
    /// Every one.
    pub const ALL: [Self; 43] = [
        Self::Crash,
        Self::CrashMidRequest,
        Self::ReadUnavailable,
        Self::ApplyUnavailable,
        Self::CommitUnknownNotDone,
        Self::CommitUnknownDone,
        Self::CommitUnknownLate,
        Self::StaleWrite,
        Self::HeldUp,
        Self::ClockLeap,
        Self::NotSent,
        Self::RequestLost,
        Self::AnswerLost,
        Self::ArrivesLate,
        Self::SlowAnswer,
        Self::Refused,
        Self::SettlesLater,
        Self::FailsLater,
        Self::NotKnownYet,
        Self::ConsultFails,
        Self::CallbackNever,
        Self::CallbackLate,
        Self::CallbackTwice,
        Self::CallbackEarly,
        Self::CallbackNotKept,
        Self::CallbackRepeated,
        Self::CallbackTakenUp,
        Self::MoneyCameBack,
        Self::SentBackByItself,
        Self::Owed,
        Self::OwedRepaid,
        Self::SplitTakenBack,
        Self::PaidTwice,
        Self::PaidLate,
        Self::PaidOtherAmount,
        Self::ChargeRemoved,
        Self::FeesChanged,
        Self::Decided,
        Self::Repeated,
        Self::RepeatedAtOnce,
        Self::OtherBody,
        Self::TwinRefused,
        Self::TwinAllowed,
    ];

    /// What it is, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "a node crashed",
            Self::CrashMidRequest => "a node crashed in the middle of a request, callback or follow-up",
            Self::ReadUnavailable => "the store could not be read, or a claim's answer was lost",
            Self::ApplyUnavailable => "the store refused a write, nothing done",
            Self::CommitUnknownNotDone => "a commit's outcome was unknown: not done",
            Self::CommitUnknownDone => "a commit's outcome was unknown: done",
            Self::CommitUnknownLate => "a commit's outcome was unknown: done later",
            Self::StaleWrite => "a write lost a race",
            Self::HeldUp => "a submission was held up for too long to be sent",
            Self::ClockLeap => "the clock leapt on, minutes at once",
            Self::NotSent => "the provider could not be reached",
            Self::RequestLost => "a request to the provider was lost",
            Self::AnswerLost => "the provider's answer was lost",
            Self::ArrivesLate => "a request reached the provider after its caller gave up, or would have",
            Self::SlowAnswer => "the provider was slow to answer",
            Self::Refused => "the provider refused for good",
            Self::SettlesLater => "taken first, settled later",
            Self::FailsLater => "taken first, failed later",
            Self::NotKnownYet => "the provider said that it doesn't know what it has",
            Self::ConsultFails => "a question to the provider failed",
            Self::CallbackNever => "no callback was sent",
            Self::CallbackLate => "a callback came late",
            Self::CallbackTwice => "a callback came twice",
            Self::CallbackEarly => "a callback came before its reason could be seen",
            Self::CallbackNotKept => "a callback could not be kept, or nobody said that it was",
            Self::CallbackRepeated => "a callback said what one that waits says",
            Self::CallbackTakenUp => "a kept callback was taken up by a worker",
            Self::MoneyCameBack => "a completed withdrawal came back",
            Self::SentBackByItself => "the provider sent money of a paid charge back by itself",
            Self::Owed => "more was forced out of a wallet than was there",
            Self::OwedRepaid => "what came in paid a debt",
            Self::SplitTakenBack => "what another integrator had got of a payment was taken back",
            Self::PaidTwice => "a charge was paid again",
            Self::PaidLate => "a charge was paid after its end",
            Self::PaidOtherAmount => "a charge was paid with another amount",
            Self::ChargeRemoved => "the provider removed a charge",
            Self::FeesChanged => "fees changed while operations were running",
            Self::Decided => "operators decided what nobody knew",
            Self::Repeated => "a request was repeated",
            Self::RepeatedAtOnce => "a request was repeated while the first one ran",
            Self::OtherBody => "a handle was used with another body",
            Self::TwinRefused => "a twin without handle was refused",
            Self::TwinAllowed => "a twin was allowed on purpose",
        }
    }
}

/// How often each fault occurred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts([u64; Fault::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; Fault::ALL.len()])
    }
}

impl Counts {
    /// It occurred once more.
    pub fn add(&mut self, fault: Fault) {
        if let Some(place) = Fault::ALL.iter().position(|other| *other == fault) {
            self.0[place] += 1;
        }
    }

    /// Takes over the counts of another world.
    pub fn add_all(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Each with its count.
    pub fn each(&self) -> BTreeMap<Fault, u64> {
        Fault::ALL.into_iter().zip(self.0).collect()
    }
}

/// How likely each fault of a port is, in thousandths of its calls.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "named as the faults are")]
pub struct Rates {
    pub read_unavailable: u64,
    pub apply_unavailable: u64,
    pub commit_unknown: u64,
    pub not_sent: u64,
    pub request_lost: u64,
    pub answer_lost: u64,
    pub arrives_late: u64,
    pub slow: u64,
    pub refused: u64,
    pub settles_later: u64,
    pub fails: u64,
    pub not_known_yet: u64,
    pub consult_fails: u64,
    pub callback_never: u64,
    pub callback_late: u64,
    pub callback_extra: u64,
    pub crash: u64,
    pub leap: u64,
}

impl Rates {
    /// Those of one world: each fault is absent from a third of all worlds, so that others show what they do alone.
    pub fn draw(random: &mut Random) -> Self {
        let mut up_to = |most: u64| if random.one_in(3) { 0 } else { 1 + random.below(most) };
        Self {
            read_unavailable: up_to(25),
            apply_unavailable: up_to(60),
            commit_unknown: up_to(120),
            not_sent: up_to(250),
            request_lost: up_to(200),
            answer_lost: up_to(250),
            arrives_late: up_to(250),
            slow: up_to(300),
            refused: up_to(150),
            settles_later: up_to(600),
            fails: up_to(300),
            not_known_yet: up_to(400),
            consult_fails: up_to(250),
            callback_never: up_to(500),
            callback_late: up_to(500),
            callback_extra: up_to(500),
            crash: up_to(8),
            leap: up_to(6),
        }
    }
}
