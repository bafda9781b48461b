//! Makes events as the gateway does: by the state machines' transitions, applied by the store in groups. Every charge is
//! made and paid, and some of its refunds complete while others fail, so that it has four to eight events that go to its
//! postback URL. It must never know who delivers them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastrand::Rng;
use pix_conformance::builders::{amount, name, payer, payment, report, ticket};
use pix_domain::charges::{Charge, DEFAULT_EXPIRES_IN, Failure, NewCharge, state as charge_state};
use pix_domain::fees::FeeRule;
use pix_domain::ids::{ChargeId, IntegratorId, RefundId};
use pix_domain::money::Cents;
use pix_domain::ports::DEFAULT_SUBMIT_GRACE;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::provider::Progress;
use pix_domain::refunds::{NewRefund, Refund, state as refund_state};
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Step, Transition, TransitionStore};
use pix_persistence::postgres::{PgOptions, PgStore};
use uuid::Uuid;

/// How many charges are made side by side, in one group of transitions a step.
const BATCH: usize = 128;
/// How many refunds a charge has.
const REFUNDS: std::ops::RangeInclusive<u32> = 3..=7;
/// Being paid. That it was made is told to nobody: whoever made it was answered so.
const FIRST_EVENTS: u64 = 1;
/// How many postback URLs an integrator has.
const PATHS: usize = 16;
/// A charge, in centavos.
const CHARGE_CENTS: i64 = 10_000;
/// A refund, in centavos.
const REFUND_CENTS: i64 = 100;
/// How long a caller waits for a connection: the machine may be busy.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);

/// Whose charges, and where their events go.
#[derive(Debug, Clone)]
pub struct Owner {
    /// The integrator.
    pub id: IntegratorId,
    /// The beginning of its postback URLs.
    pub url: String,
}

/// What was made.
#[derive(Debug, Default)]
pub struct Made {
    /// How many events go to a postback URL, by integrator.
    pub events: BTreeMap<Uuid, u64>,
    /// When each charge was there.
    pub charges: HashMap<Uuid, Instant>,
}

/// See the module.
pub struct Producer {
    store: PgStore,
    owners: Vec<Owner>,
    made: Arc<Mutex<Made>>,
    dice: Rng,
    count: u64,
}

struct Story {
    charge: Charge,
    refunds: u32,
    refund: Option<Refund>,
}

impl Producer {
    /// For `owners` in turn, in the database at `url`.
    pub async fn new(
        url: &str,
        owners: Vec<Owner>,
        made: Arc<Mutex<Made>>,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let options = PgOptions { acquire_timeout: ACQUIRE_TIMEOUT, ..PgOptions::default() };
        Ok(Self {
            store: PgStore::open(url, options).await?,
            owners,
            made,
            dice: Rng::with_seed(seed),
            count: 0,
        })
    }

    /// Makes charges with all their events until there are `events` of them.
    pub async fn make(mut self, events: u64) -> anyhow::Result<()> {
        let mut left = events;
        while left > 0 {
            left = left.saturating_sub(Box::pin(self.batch(left)).await?);
        }
        Ok(())
    }

    /// A group of charges from their beginning to their end; how many events they have.
    async fn batch(&mut self, wanted: u64) -> anyhow::Result<u64> {
        let (mut stories, mut opened, mut events) = (Vec::new(), Vec::new(), 0);
        while stories.len() < BATCH && events < wanted {
            let (transition, refunds) = self.open()?;
            let charge = transition.charge().cloned().context("a charge")?;
            opened.push(transition);
            events += FIRST_EVENTS + u64::from(refunds);
            stories.push(Story { charge, refunds, refund: None });
        }
        self.apply(opened).await?;
        {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            for Story { charge, refunds, .. } in &stories {
                made.charges.insert(charge.id.0, now);
                *made.events.entry(charge.integrator_id.0).or_default() += FIRST_EVENTS + u64::from(*refunds);
            }
        }
        let now = present();
        let mut paid = Vec::new();
        for story in &mut stories {
            let pix = payment(story.charge.id.0, CHARGE_CENTS, now);
            paid.push(story.goes_on(story.charge.clone().pay(pix, &FeeRule::free(), now))?);
        }
        self.apply(paid).await?;
        for round in 0..*REFUNDS.end() {
            let (mut begun, mut ended, now) = (Vec::new(), Vec::new(), present());
            for story in stories.iter_mut().filter(|story| story.refunds > round) {
                let new = self.new_refund()?;
                let step = refund_state::accept(new, story.charge.clone(), now, DEFAULT_SUBMIT_GRACE);
                begun.push(story.goes_on(Step::Next(step.context("a refund")?))?);
            }
            self.apply(begun).await?;
            let now = present();
            for story in stories.iter_mut().filter(|story| story.refunds > round) {
                let refund = story.refund.take().context("a refund")?;
                let (id, charge) = (refund.id.0, story.charge.clone());
                ended.push(story.goes_on(if self.dice.u32(0..4) > 0 {
                    refund.complete(charge, report(id, Progress::Completed), now)
                } else {
                    let failure =
                        Failure { code: "account_closed".into(), message: "the account is closed".into() };
                    refund.fail(charge, failure, now)
                })?);
            }
            self.apply(ended).await?;
        }
        Ok(events)
    }

    async fn apply(&self, transitions: Vec<Transition>) -> anyhow::Result<()> {
        for result in self.store.apply_all(transitions).await {
            result.context("a transition was not applied")?;
        }
        Ok(())
    }

    fn id(&mut self) -> Uuid {
        self.count += 1;
        // As version 7 has it, but of a count and the dice.
        Uuid::from_u64_pair((self.count << 16) | 0x7000, (0x8 << 60) | (self.dice.u64(..) >> 4))
    }

    fn open(&mut self) -> anyhow::Result<(Transition, u32)> {
        let id = ChargeId(self.id());
        let index = usize::try_from(self.count)? % self.owners.len().max(1);
        let owner = self.owners.get(index).context("nobody to make charges for")?;
        let url = format!("{}/{}", owner.url, self.dice.usize(0..PATHS));
        let url = PostbackUrl::parse(&url).map_err(|error| anyhow::anyhow!("{url}: {error:?}"))?;
        let new = NewCharge {
            id,
            integrator_id: owner.id,
            external_id: name(&format!("charge {id}")),
            external_id_given: true,
            amount: amount(CHARGE_CENTS),
            payer: payer(),
            payer_email: None,
            payer_question: None,
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url: Some(url),
            postback_scope: PostbackScope::All,
            expires_in: DEFAULT_EXPIRES_IN,
            split: Vec::new(),
            fee_version: 0,
        };
        Ok((charge_state::open(new, ticket(id), present()), self.dice.u32(REFUNDS)))
    }

    fn new_refund(&mut self) -> anyhow::Result<NewRefund> {
        let id = RefundId(self.id());
        ensure!(self.count < 1 << 47, "too many ids");
        Ok(NewRefund {
            id,
            external_id: name(&format!("refund {id}")),
            external_id_given: true,
            amount: amount(REFUND_CENTS),
            amount_given: true,
            fee: Cents::ZERO,
            fee_version: 0,
            description: None,
        })
    }
}

impl Story {
    /// Takes the records as a transition leaves them.
    fn goes_on(&mut self, step: Step) -> anyhow::Result<Transition> {
        let transition = step.next().context("the state machine refuses a step of the storm")?;
        for write in &transition.writes {
            match &write.record {
                pix_domain::transition::Record::Charge(charge) => self.charge = charge.as_ref().clone(),
                pix_domain::transition::Record::Refund(refund) => self.refund = Some(refund.as_ref().clone()),
                pix_domain::transition::Record::Withdrawal(_) | pix_domain::transition::Record::Split(_) => {}
            }
        }
        Ok(transition)
    }
}

/// The present instant, by the clock of the machine, which the gateway's is ahead of.
pub fn present() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "what is made here must be due by the program's own clock")]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
