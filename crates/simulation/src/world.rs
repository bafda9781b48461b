//! One world: integrators, nodes, a provider, and a time of chaos followed by a time of healing.
//!
//! | Phase | What happens |
//! |---|---|
//! | opening | integrators, their fees, and some money in each wallet; no faults |
//! | chaos | requests, payments, callbacks, workers, crashes, clock, all as the seed has it |
//! | healing | faults end; what is on its way arrives; the clock goes from one due moment to the next until nothing is due |
//! | asking | every record is asked about once more, which brings what no callback told of |
//!
//! What must be true is said by [`model`](crate::model) (at each commit) and [`checker`](crate::checker) (at the end).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pix_domain::audit::{Book, BookStore, Difference, StoredFinding};
use pix_domain::audit_log::Operator;
use pix_domain::callbacks::CallbackService;
use pix_domain::charges::service::{ChargeService, CreateCharge};
use pix_domain::credentials::store::IntegratorStore;
use pix_domain::credentials::{Integrator, IntegratorStatus};
use pix_domain::decisions::{Decision, DecisionService, Seen, Verdict};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::error::ServiceError;
use pix_domain::fees::{FeeRule, FeeSchedule, Percent};
use pix_domain::ids::{ChargeId, IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::{Amount, Cents};
use pix_domain::ports::{Ports, Stores};
use pix_domain::provider::{Party, Payment, ReceiptKey, Reference};
use pix_domain::reconciler::{BATCH, Reconciler};
use pix_domain::refunds::service::RefundService;
use pix_domain::restore::NeverRestored;
use pix_domain::splits::service::{compare, trace};
use pix_domain::time::{Clock, Timestamp};
use pix_domain::transactions::TransactionService;
use pix_domain::transition::Record;
use pix_domain::unrecorded::Unrecorded;
use pix_domain::withdrawals::OutgoingState;
use pix_domain::withdrawals::service::WithdrawalService;
use pix_memory::MemoryStore;
use uuid::Uuid;

use crate::Options;
use crate::clients::{Command, FrontDesk, Intent, Told, Wishes};
use crate::decorators::observer::Observer;
use crate::decorators::provider::{DEADLINE, SimProvider};
use crate::decorators::store_faults::StoreFaults;
use crate::desk::{Fate, Paid, Style, provider_id};
use crate::executor::now;
use crate::faults::{Fault, Rates};
use crate::model::outgoing;
use crate::random::Random;
use crate::sim::{Message, NodeClock, SeededIds, Sim, number, sent_as, short};
use crate::tasks::{Purpose, Tasks};

/// How long sending may take: the provider's deadline and a margin.
pub const SUBMIT_GRACE: Duration = Duration::from_secs(20);

/// How many polls healing may take before a world counts as never coming to rest.
const MAX_HEALING_POLLS: u64 = 50_000;

/// How many callbacks the opening may take for one charge.
const MAX_OPENING_CALLBACKS: u32 = 10;

/// How long the provider waits before it repeats a callback that was not taken.
const CALLBACK_AGAIN: Duration = Duration::from_secs(30);

struct Node {
    desk: FrontDesk,
    transactions: TransactionService,
    callbacks: CallbackService,
    decisions: DecisionService,
    reconciler: Reconciler,
    clock: NodeClock,
    /// What it could not record; gone when it crashes.
    unrecorded: Unrecorded,
    down_until: Option<Timestamp>,
}

/// One world.
pub struct World {
    /// What its ports share.
    pub sim: Arc<Sim>,
    /// What clients want and were told.
    pub intents: Vec<Intent>,
    /// The fees of each integrator: the first is version 1.
    pub fees: BTreeMap<IntegratorId, Vec<FeeSchedule>>,
    /// When it was healed.
    pub healed_at: Timestamp,
    /// What was due when at that moment.
    pub due_when_healed: BTreeMap<ResourceRef, Timestamp>,
    store: Arc<MemoryStore>,
    observed: Stores,
    nodes: Vec<Node>,
    tasks: Tasks,
    /// Charges whose QR code somebody has seen.
    shown: Vec<ResourceRef>,
    max_intents: usize,
    steps: u32,
}

impl World {
    /// The world of that seed, at its beginning.
    pub fn new(seed: u64, options: &Options) -> Self {
        let sim = Sim::new(seed, options.trace);
        let store = Arc::new(MemoryStore::new());
        let observed = Observer::over(sim.clone(), (options.stores)(Stores::of(store.clone())));
        let (node_count, window, max_intents, steps) = sim.with(|state| {
            let random = &mut state.random;
            state.desk.style = Style {
                dedupes: random.one_in(2),
                proof_after: random
                    .pick(&[None, None, Some(Duration::from_mins(1)), Some(Duration::from_mins(5))])
                    .flatten(),
                names_payments: !random.one_in(4),
                remembers_refusals: random.one_in(2),
            };
            let window = if random.one_in(4) { Duration::ZERO } else { Duration::from_mins(1) };
            state.model.duplicate_window = window;
            let steps = 100 + u32::try_from(random.below(700)).unwrap_or(0);
            (1 + random.below(2), window, 4 + usize::try_from(random.below(20)).unwrap_or(0), steps)
        });
        let mut world = Self {
            intents: Vec::new(),
            fees: BTreeMap::new(),
            healed_at: sim.now(),
            due_when_healed: BTreeMap::new(),
            nodes: Vec::new(),
            tasks: Tasks::default(),
            shown: Vec::new(),
            max_intents,
            steps,
            store,
            observed,
            sim,
        };
        for _ in 0..=node_count {
            let node = world.node(window, options);
            world.nodes.push(node);
        }
        world
    }

    fn node(&self, duplicate_window: Duration, options: &Options) -> Node {
        let sim = &self.sim;
        let ahead = sim.with(|state| state.random.span(Duration::from_millis(900)));
        let ports = Ports {
            stores: StoreFaults::over(sim.clone(), self.observed.clone()),
            provider: (options.provider)(Arc::new(SimProvider::new(sim.clone()))),
            clock: Arc::new(NodeClock { sim: sim.clone(), ahead }),
            ids: Arc::new(SeededIds(sim.clone())),
            submit_grace: SUBMIT_GRACE,
            handle_seed: Uuid::from_u128(1),
            outflow: Arc::new(NeverRestored),
            duplicate_window,
            unrecorded: Unrecorded::default(),
        };
        Node {
            desk: FrontDesk {
                charges: ChargeService::new(ports.clone()),
                withdrawals: WithdrawalService::new(ports.clone()),
                refunds: RefundService::new(ports.clone()),
            },
            transactions: TransactionService::new(ports.clone()),
            callbacks: CallbackService::new(ports.clone()),
            decisions: DecisionService::new(ports.clone()),
            unrecorded: ports.unrecorded.clone(),
            reconciler: Reconciler::new(ports),
            clock: NodeClock { sim: sim.clone(), ahead },
            down_until: None,
        }
    }

    /// The integrators' books as they are stored.
    pub fn books(&self) -> Vec<(IntegratorId, Book, Vec<StoredFinding>)> {
        let read = |owner: IntegratorId| {
            let book = now(self.store.book(owner)).expect("a book of the reference store");
            let findings = now(self.store.findings(owner)).expect("findings of the reference store");
            (owner, book, findings)
        };
        self.fees.keys().copied().map(read).collect()
    }

    /// What charges gave and their recipients don't have, or have though no charge gave it.
    pub fn torn(&self) -> Vec<Difference> {
        let (store, mut torn) = (self.store.as_ref(), Vec::new());
        for (_, book, _) in self.books() {
            for charge in book.charges {
                torn.extend(now(compare(store, store, charge)).expect("records of the reference store"));
            }
            for split in &book.splits {
                torn.extend(now(trace(store, split)).expect("a charge of the reference store"));
            }
        }
        torn
    }

    /// Whether nothing is known to be wrong.
    fn is_well(&self) -> bool {
        self.sim.with(|state| state.violation.is_none())
    }

    /// Lives through all phases. What is wrong is in the shared state.
    pub fn live(&mut self) {
        self.open();
        self.chaos();
        self.heal();
    }

    // --- opening

    fn open(&mut self) {
        let integrators = 1 + self.sim.with(|state| state.random.below(2));
        for _ in 0..integrators {
            let id = IntegratorId(self.sim.with(crate::sim::State::next_id));
            let (status, created_at) = (IntegratorStatus::Active, self.sim.now());
            let integrator = Integrator {
                id,
                name: "Loja".into(),
                status,
                postback_scope: None,
                split_postback: None,
                created_at,
            };
            now(IntegratorStore::create(self.store.as_ref(), integrator)).expect("a new integrator");
            self.fees.insert(id, Vec::new());
            if self.sim.with(|state| state.random.one_in(2)) {
                self.set_fees(id);
            }
            self.fund(id);
        }
        self.sim.with(|state| state.rates = Rates::draw(&mut state.random));
    }

    /// A first charge, paid: the money that withdrawals are made of.
    fn fund(&mut self, owner: IntegratorId) {
        let cents = self.sim.with(|state| 20_000 + state.random.cents(100_000));
        let number = self.intents.len();
        let wish = self.sim.with(|state| Wishes::charge(owner, number, &mut state.random));
        let Command::Charge(wish) = wish else { return };
        let amount = Amount::from_cents(cents).expect("a possible amount");
        self.request(0, Command::Charge(CreateCharge { amount, ..wish }));
        self.finish();
        let Some(charge) = self.shown.last().copied() else { return };
        self.receive(charge, amount, Duration::ZERO);
        for _ in 0..MAX_OPENING_CALLBACKS {
            let Some(callback) = self.next_callback() else { return };
            self.call_back(callback);
            self.finish();
        }
        self.sim.with(|state| state.violate("a first payment was not taken, without any fault".into()));
    }

    fn set_fees(&mut self, owner: IntegratorId) {
        let schedule = self.sim.with(|state| {
            let mut rule = |percent: &str| {
                let fixed = Cents::new(state.random.cents(200)).expect("not negative");
                FeeRule::new(fixed, Percent::parse(percent).expect("a share"), Cents::ZERO, None)
                    .expect("a rule")
            };
            FeeSchedule { version: 0, cash_in: rule("1.5"), cash_out: rule("0.25"), refund: rule("0") }
        });
        let set = self.observed.fees.set(owner, schedule.clone(), self.sim.now());
        let version = now(set).expect("fees in force");
        self.fees.entry(owner).or_default().push(FeeSchedule { version, ..schedule });
    }

    // --- chaos

    fn chaos(&mut self) {
        for _ in 0..self.steps {
            if !self.is_well() {
                return;
            }
            self.step();
        }
    }

    fn step(&mut self) {
        let rates = self.sim.with(|state| state.rates.clone());
        let roll = self.sim.with(|state| state.random.below(1000));
        match roll {
            0..640 => {
                if !self.poll() {
                    self.tick(Duration::from_secs(5));
                }
            }
            640..705 => self.new_intent(),
            705..730 => self.ask_again(),
            730..738 => self.other_body(),
            738..790 => self.claim(),
            790..830 => {
                if let Some(callback) = self.due_callback() {
                    self.call_back(callback);
                }
            }
            830..845 => self.pay(),
            845..851 => self.come_back(),
            851..855 => self.remove(),
            855..858 => self.change_fees(),
            858..863 => self.send_back(),
            863..868 => self.decide(),
            868..980 => self.tick(Duration::from_millis(2500)),
            _ => {
                let random = |bound| self.sim.with(|state| state.random.below(bound));
                if random(100) < rates.crash * 4 {
                    self.crash();
                } else if random(100) < rates.leap * 4 {
                    self.sim.with(|state| state.count(Fault::ClockLeap));
                    self.tick(Duration::from_mins(25));
                }
            }
        }
        self.listen();
    }

    fn poll(&mut self) -> bool {
        self.tasks.poll_one(&self.sim, Random::place)
    }

    /// The clock moves on, by up to `most`.
    fn tick(&mut self, most: Duration) {
        let to = self.sim.with(|state| state.now.plus(state.random.span(most)));
        self.move_to(to);
    }

    fn move_to(&mut self, to: Timestamp) {
        let landing = self.sim.with(|state| {
            state.now = state.now.max(to);
            state.arrivals();
            let now = state.now;
            let (landing, late) = state.late.drain(..).partition(|commit| commit.at <= now);
            state.late = late;
            landing
        });
        let mut landing: Vec<crate::sim::LateCommit> = landing;
        landing.sort_by_key(|commit| commit.at);
        for commit in landing {
            let text = crate::decorators::store_faults::summary(&commit.transition);
            let result = now(self.observed.transitions.apply(commit.transition));
            self.sim.trace(|| format!("a late commit [{text}]: {result:?}"));
        }
        for node in &mut self.nodes {
            node.down_until = node.down_until.filter(|until| *until > to);
        }
    }

    fn up_node(&self) -> Option<usize> {
        let up: Vec<usize> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.down_until.is_none())
            .map(|(place, _)| place)
            .collect();
        self.sim.with(|state| state.random.pick(&up))
    }

    fn an_integrator(&self) -> IntegratorId {
        let all: Vec<IntegratorId> = self.fees.keys().copied().collect();
        self.sim.with(|state| state.random.pick(&all)).expect("there is one")
    }

    /// A charge that was shown to somebody, of the integrator's if one is named.
    fn a_charge(&self, owner: Option<IntegratorId>) -> Option<ResourceRef> {
        let shown =
            self.shown.iter().filter(|charge| owner.is_none_or(|owner| owner == charge.integrator_id));
        let shown: Vec<ResourceRef> = shown.copied().collect();
        self.sim.with(|state| state.random.pick(&shown))
    }

    fn new_intent(&mut self) {
        if self.intents.len() >= self.max_intents {
            return;
        }
        let (owner, number) = (self.an_integrator(), self.intents.len());
        let charge = self.a_charge(Some(owner));
        let command = self.sim.with(|state| {
            let random = &mut state.random;
            match (random.below(10), charge) {
                (0..3, _) => Wishes::charge(owner, number, random),
                (3..6, Some(charge)) => Wishes::refund(owner, ChargeId(charge.id), number, random),
                _ => Wishes::withdrawal(owner, number, random),
            }
        });
        let other = self.fees.keys().copied().find(|other| *other != owner);
        if let Some(node) = self.up_node() {
            self.request(node, Wishes::sharing(command, other, number));
        }
    }

    /// A new intent, asked for on that node.
    fn request(&mut self, node: usize, command: Command) {
        self.intents.push(Intent { command, told: Vec::new(), asked: 0, unanswered: 0 });
        self.ask(node, self.intents.len() - 1, None);
    }

    fn ask(&mut self, node: usize, intent: usize, allowing: Option<Uuid>) {
        let wanted = &mut self.intents[intent];
        wanted.asked += 1;
        let command = match allowing {
            Some(other) => wanted.command.clone().allowing(other),
            None => wanted.command.clone(),
        };
        let (desk, sim) = (self.nodes[node].desk.clone(), self.sim.clone());
        let kind = command.kind();
        let task = self.tasks.start(node, Purpose::Request { intent }, async move {
            let answer = desk.ask(command).await;
            sim.with(|state| {
                state.trace(|| format!("intent {intent} is told {}", said(&answer)));
                state.inbox.push(Message::Told { intent, answer: Box::new(answer) });
            });
        });
        self.sim.trace(|| format!("intent {intent} asks node {node} for a {} (task {task})", kind.as_str()));
    }

    fn ask_again(&mut self) {
        let count = self.intents.len();
        let (Some(intent), Some(node)) = (self.sim.with(|state| state.random.place(count)), self.up_node())
        else {
            return;
        };
        let wanted = &self.intents[intent];
        let refusal = wanted.told.last().and_then(|told| match told {
            Told::Refused(ServiceError::PossibleDuplicate(other)) => Some(other.id),
            _ => None,
        });
        let running = self.tasks.runs(intent);
        let allowing = refusal.filter(|_| self.sim.with(|state| state.random.one_in(2)));
        self.sim.with(|state| state.count(if running { Fault::RepeatedAtOnce } else { Fault::Repeated }));
        self.ask(node, intent, allowing);
    }

    fn other_body(&mut self) {
        let number = self.intents.len();
        let with_handle: Vec<usize> =
            (0..number).filter(|intent| self.intents[*intent].command.has_handle()).collect();
        let picked = self.sim.with(|state| state.random.pick(&with_handle));
        let (Some(intent), Some(node)) = (picked, self.up_node()) else { return };
        let command = self.intents[intent].command.clone();
        let command = self.sim.with(|state| {
            state.count(Fault::OtherBody);
            command.with_other_body(number, &mut state.random)
        });
        self.request(node, command);
    }

    fn claim(&mut self) {
        let Some(node) = self.up_node() else { return };
        self.claim_on(node);
    }

    fn claim_on(&mut self, node: usize) {
        let (reconciler, inbox) = (self.nodes[node].reconciler.clone(), self.nodes[node].callbacks.clone());
        let sim = self.sim.clone();
        self.tasks.start(node, Purpose::Claim, async move {
            reconciler.record().await;
            let due = reconciler.claim(BATCH).await.unwrap_or_default();
            let callbacks = inbox.claim(BATCH).await.unwrap_or_default();
            sim.with(|state| {
                if !due.is_empty() {
                    state.trace(|| {
                        let names: Vec<String> = due.iter().map(|due| short(due.resource)).collect();
                        format!("claimed {}", names.join(", "))
                    });
                }
                if !callbacks.is_empty() {
                    state.trace(|| format!("claimed {} kept callbacks", callbacks.len()));
                }
                state.inbox.push(Message::Claimed { node, due, callbacks });
            });
        });
    }

    fn crash(&mut self) {
        let Some(node) = self.up_node() else { return };
        let lost = self.tasks.crash(node);
        self.nodes[node].unrecorded.clear();
        self.sim.with(|state| {
            state.trace(|| format!("node {node} crashes in the middle of {} tasks", lost.len()));
            state.count(Fault::Crash);
            for _ in &lost {
                state.count(Fault::CrashMidRequest);
            }
            for purpose in &lost {
                if let Purpose::Callback { callback } = purpose {
                    state.desk.callbacks[*callback].running = false;
                }
            }
        });
        for purpose in lost {
            if let Purpose::Request { intent } = purpose {
                self.intents[intent].unanswered += 1;
            }
        }
        let back = self.sim.with(|state| state.now.plus(state.random.span(Duration::from_secs(20))));
        self.nodes[node].down_until = Some(back);
    }

    /// Two operators decide, rightly, about what was lost sight of: they have looked at the provider's own log.
    fn decide(&mut self) {
        let Some(node) = self.up_node() else { return };
        let decision = self.sim.with(|state| {
            let lost = state.model.records.iter().filter(|(_, record)| {
                outgoing(record).is_some_and(|record| {
                    matches!(record.state, OutgoingState::Uncertain | OutgoingState::NeedsReview)
                })
            });
            let lost: Vec<Uuid> = lost.map(|(resource, _)| resource.id).collect();
            let id = state.random.pick(&lost)?;
            let verdict = match state.desk.outgoing.get(&Reference::of(id).0) {
                None if !state.desk.expects(Reference::of(id).0) => Verdict::Failed,
                Some(operation) if operation.fate != Fate::Complete => Verdict::Failed,
                Some(operation) if operation.settles_at <= state.now => Verdict::Completed,
                _ => return None,
            };
            state.trace(|| format!("operators hold that {} {}", number(id), verdict.as_str()));
            Some((id, verdict))
        });
        let Some((id, verdict)) = decision else { return };
        let decisions = self.nodes[node].decisions.clone();
        self.tasks.start(node, Purpose::Decide, async move {
            for name in ["ana", "bia", "bia"] {
                let operator = Operator::parse(name).expect("a name");
                let reason = "seen in the provider's log".to_owned();
                // What fails is tried again by somebody, or never.
                let _ = decisions
                    .decide(&Decision { id, verdict, reason, operator, seen: Seen::NotLooked })
                    .await;
            }
        });
    }

    fn change_fees(&mut self) {
        let owner = self.an_integrator();
        self.set_fees(owner);
        self.sim.with(|state| {
            state.count(Fault::FeesChanged);
            state.trace(|| "fees change".to_owned());
        });
    }

    // --- the outside world

    fn pay(&mut self) {
        let Some(charge) = self.a_charge(None) else { return };
        let (asked, expires_at) = self.sim.with(|state| match state.model.records.get(&charge) {
            Some(Record::Charge(charge)) => (charge.amount, charge.expires_at),
            _ => (Amount::from_cents(1).expect("a centavo"), state.now),
        });
        let (amount, lag) = self.sim.with(|state| {
            let lag = if state.random.one_in(3) { Duration::from_secs(30) } else { Duration::ZERO };
            let lag = state.random.span(lag);
            if state.random.one_in(6) {
                state.count(Fault::PaidOtherAmount);
                return (Amount::from_cents(state.random.cents(30_000)).expect("a possible amount"), lag);
            }
            (asked, lag)
        });
        if self.sim.now() > expires_at {
            self.sim.with(|state| state.count(Fault::PaidLate));
        }
        self.receive(charge, amount, lag);
    }

    /// A PIX comes in.
    fn receive(&mut self, charge: ResourceRef, amount: Amount, lag: Duration) {
        self.sim.with(|state| {
            let names_payments = state.desk.style.names_payments;
            let payments = match state.desk.charges.get(&charge.id) {
                Some(made) if !made.refused => made.payments.len(),
                _ => return,
            };
            if payments > 0 && !names_payments {
                return;
            }
            if payments > 0 {
                state.count(Fault::PaidTwice);
            }
            let key = if names_payments {
                let id = number(state.next_id());
                let text = format!("E12345678202601151200{id:011}");
                ReceiptKey::EndToEnd(EndToEndId::parse(&text).expect("an end-to-end id"))
            } else {
                ReceiptKey::Transaction(provider_id(charge.id))
            };
            let payment = Payment { key, amount, paid_at: state.now, payer: Party::default() };
            let visible_at = state.now.plus(lag);
            let told = state.call_back(charge.id, visible_at);
            state.trace(|| format!("{} receives {amount}, to be seen in {lag:?}", short(charge)));
            if let Some(made) = state.desk.charges.get_mut(&charge.id) {
                made.payments.push(Paid { payment, visible_at, told });
            }
        });
    }

    /// A completed payment comes back, in part or whole.
    fn come_back(&mut self) {
        self.sim.with(|state| {
            let now = state.now;
            let done = state.desk.outgoing.iter().filter(|(_, operation)| {
                operation.kind == ResourceKind::Withdrawal
                    && operation.fate == Fate::Complete
                    && operation.settles_at <= now
                    && operation.returned < operation.amount.cents()
            });
            let done: Vec<Uuid> = done.map(|(reference, _)| *reference).collect();
            let Some(reference) = state.random.pick(&done) else { return };
            let whole = state.random.one_in(2);
            let part = state.random.cents(2_000);
            let visible_at =
                state.desk.outgoing.get(&reference).map_or(now, |operation| operation.visible_at);
            if let Some(operation) = state.desk.outgoing.get_mut(&reference) {
                let more =
                    if whole { operation.amount.cents().get() } else { operation.returned.get() + part };
                let more = Cents::new(more).unwrap_or_default().min(operation.amount.cents());
                operation.returned = more;
                state.count(Fault::MoneyCameBack);
                state.trace(|| format!("of the withdrawal {} {more} came back", number(reference)));
                let told = state.call_back(reference, visible_at.max(now));
                if let Some(operation) = state.desk.outgoing.get_mut(&reference).filter(|_| told) {
                    operation.returned_told = more;
                }
            }
        });
    }

    /// The provider sends money of a paid charge back, and nobody here has asked for it.
    fn send_back(&mut self) {
        let Some(charge) = self.a_charge(None) else { return };
        self.sim.with(|state| {
            let (now, id) = (state.now, charge.id);
            let Some(made) = state.desk.charges.get(&id) else { return };
            let gone = made.forced.get() + state.desk.refunded_cents(id);
            let left = state.desk.seen_cents(id, now) - gone;
            if left <= 0 {
                return;
            }
            let whole = state.random.one_in(2);
            let part = state.random.cents(2_000).min(left);
            let more = Cents::new(if whole { left } else { part }).unwrap_or_default();
            state.count(Fault::SentBackByItself);
            state.trace(|| format!("the provider sends {more} of the {} back by itself", short(charge)));
            let told = state.call_back(id, now);
            if let Some(made) = state.desk.charges.get_mut(&id) {
                made.forced = made.forced.checked_add(more).unwrap_or_default();
                if told {
                    made.forced_told = made.forced;
                }
            }
        });
    }

    /// The provider removes a charge that nobody has paid.
    fn remove(&mut self) {
        let Some(charge) = self.a_charge(None) else { return };
        self.sim.with(|state| {
            let now = state.now;
            let Some(made) = state.desk.charges.get_mut(&charge.id) else { return };
            if made.refused || made.removed_at.is_some() || !made.payments.is_empty() {
                return;
            }
            made.removed_at = Some(now);
            state.count(Fault::ChargeRemoved);
            state.trace(|| format!("the provider removes the {}", short(charge)));
            state.call_back(charge.id, now);
        });
    }

    // --- callbacks

    /// A callback whose time has come.
    fn due_callback(&self) -> Option<usize> {
        self.sim.with(|state| {
            let waiting = state.desk.callbacks.iter().enumerate();
            let due = waiting
                .filter(|(_, callback)| !callback.done && !callback.running && callback.due <= state.now);
            let due: Vec<usize> = due.map(|(place, _)| place).collect();
            state.random.pick(&due)
        })
    }

    /// The first callback that waits; the clock moves to it.
    fn next_callback(&mut self) -> Option<usize> {
        let (place, due) = self.sim.with(|state| {
            let waiting = state.desk.callbacks.iter().enumerate();
            let waiting = waiting.filter(|(_, callback)| !callback.done && !callback.running);
            waiting.min_by_key(|(_, callback)| callback.due).map(|(place, callback)| (place, callback.due))
        })?;
        self.move_to(due);
        Some(place)
    }

    /// As the HTTP edge takes one: keep it, answer, then go on with it.
    fn call_back(&mut self, callback: usize) {
        let Some(node) = self.up_node() else { return };
        let (reference, body) = self.sim.with(|state| {
            let callback = &mut state.desk.callbacks[callback];
            callback.running = true;
            (callback.reference, callback.body.clone())
        });
        let (inbox, sim) = (self.nodes[node].callbacks.clone(), self.sim.clone());
        self.sim.trace(|| format!("the provider calls node {node} back about {}: {body}", number(reference)));
        self.tasks.start(node, Purpose::Callback { callback }, async move {
            let kept = inbox.keep(Some(reference), body).await;
            sim.with(|state| {
                if kept.is_err() {
                    state.count(Fault::CallbackNotKept);
                }
                state.inbox.push(Message::CalledBack { callback, taken: kept.is_ok() });
            });
            sim.pause().await;
            if let Ok(Some(claimed)) = kept {
                // What fails is claimed after its lease.
                let _ = inbox.process(claimed).await;
            }
        });
    }

    /// Hears what finished tasks have to say.
    fn listen(&mut self) {
        for message in self.sim.with(|state| std::mem::take(&mut state.inbox)) {
            match message {
                Message::Told { intent, answer } => self.told(intent, *answer),
                Message::Claimed { node, due, callbacks } => {
                    for claimed in callbacks {
                        let inbox = self.nodes[node].callbacks.clone();
                        self.tasks.start(node, Purpose::Inbox, async move {
                            // What fails is claimed again after its lease.
                            let _ = inbox.process(claimed).await;
                        });
                    }
                    for due in due {
                        let reconciler = self.nodes[node].reconciler.clone();
                        self.tasks.start(node, Purpose::FollowUp, async move {
                            // What fails is claimed again after its lease.
                            let _ = reconciler.process(due).await;
                        });
                    }
                }
                Message::CalledBack { callback, taken } => self.sim.with(|state| {
                    let again = state.now.plus(CALLBACK_AGAIN);
                    let callback = &mut state.desk.callbacks[callback];
                    callback.running = false;
                    callback.done = taken || !callback.insists;
                    callback.due = again;
                }),
            }
        }
    }

    fn told(&mut self, intent: usize, answer: Told) {
        match &answer {
            Told::Ok(Record::Charge(charge))
                if charge.ticket.is_some() && !self.shown.contains(&charge.resource()) =>
            {
                self.shown.push(charge.resource());
            }
            Told::Refused(ServiceError::PossibleDuplicate(_)) => {
                self.sim.with(|state| state.count(Fault::TwinRefused));
            }
            _ => {}
        }
        self.intents[intent].told.push(answer);
    }

    // --- healing

    /// Polls until nothing is left to do; the clock moves only when everybody sleeps.
    fn finish(&mut self) {
        while !self.tasks.is_empty() && self.is_well() {
            if !self.poll()
                && let Some(wake) = self.tasks.next_wake()
            {
                self.move_to(wake);
            }
            self.listen();
        }
    }

    fn heal(&mut self) {
        if !self.is_well() {
            return;
        }
        if self.sim.with(|state| state.random.one_in(3)) {
            for node in 0..self.nodes.len() {
                self.nodes[node].down_until = None;
            }
            for _ in 0..self.nodes.len() * 2 {
                self.crash();
            }
        }
        for node in &mut self.nodes {
            node.down_until = None;
        }
        self.sim.with(|state| {
            let now = state.now;
            state.rates = Rates::default();
            state.healed = true;
            for mail in &mut state.desk.mail {
                mail.arrives_at = now;
            }
            state.arrivals();
            for operation in state.desk.outgoing.values_mut() {
                operation.settles_at = operation.settles_at.min(now);
                operation.visible_at = operation.visible_at.min(now);
            }
            for charge in state.desk.charges.values_mut() {
                for paid in &mut charge.payments {
                    paid.visible_at = paid.visible_at.min(now);
                }
            }
            for callback in &mut state.desk.callbacks {
                callback.due = callback.due.min(now);
            }
            for commit in &mut state.late {
                commit.at = now;
            }
            state.trace(|| "faults end".to_owned());
        });
        self.move_to(self.sim.now());
        // Answers on their way may be older than what has happened since; from here on none is.
        self.finish();
        self.healed_at = self.sim.now();
        self.due_when_healed = self.sim.with(|state| state.model.due.clone());
        self.come_to_rest();
        self.sim.with(|state| state.trace(|| "nothing is due".to_owned()));
    }

    /// Goes from one due moment to the next until nothing is due but what nobody can know.
    fn come_to_rest(&mut self) {
        let limit = self.sim.with(|state| state.step) + MAX_HEALING_POLLS;
        loop {
            self.finish();
            if !self.is_well() {
                return;
            }
            if self.sim.with(|state| state.step) > limit {
                self.sim.with(|state| state.violate("the world does not come to rest".into()));
                return;
            }
            while let Some(callback) = self.due_callback() {
                self.call_back(callback);
            }
            for node in 0..self.nodes.len() {
                if self.is_due(node) {
                    self.claim_on(node);
                }
            }
            if !self.tasks.is_empty() {
                continue;
            }
            let Some(next) = self.next_moment() else { return };
            self.move_to(next);
        }
    }

    fn is_due(&self, node: usize) -> bool {
        let node_now = self.nodes[node].clock.now();
        self.sim.with(|state| {
            let (records, callbacks) = (state.model.due.values(), state.model.callbacks.values());
            records.chain(callbacks).any(|due| *due <= node_now)
        })
    }

    /// When something happens next; `None` when nothing more will.
    fn next_moment(&self) -> Option<Timestamp> {
        self.sim.with(|state| {
            let model = &state.model;
            let hopeless = |resource: &ResourceRef| {
                let record = model.records.get(resource).and_then(outgoing);
                record.is_some_and(|record| *record.state == OutgoingState::NeedsReview)
                    && state.desk.report(sent_as(resource), state.now).is_none()
                    && state.desk.style.proof_after.is_none()
            };
            let due = model.due.iter().filter(|(resource, _)| !hopeless(resource)).map(|(_, due)| *due);
            let callbacks =
                state.desk.callbacks.iter().filter(|callback| !callback.done).map(|callback| callback.due);
            let late = state.late.iter().map(|commit| commit.at);
            let kept = model.callbacks.values().copied();
            due.chain(callbacks)
                .chain(kept)
                .chain(late)
                .min()
                .map(|at| at.max(state.now.plus(Duration::from_millis(1))))
        })
    }

    /// Asks about every record once more.
    pub fn ask_about_all(&mut self) {
        let all: Vec<ResourceRef> = self.sim.with(|state| state.model.records.keys().copied().collect());
        for resource in all {
            let transactions = self.nodes[0].transactions.clone();
            self.tasks.start(0, Purpose::Consult, async move {
                let _ = transactions.consult(resource).await;
            });
        }
        self.finish();
        self.come_to_rest();
    }
}

fn said(told: &Told) -> String {
    match told {
        Told::Ok(record) => format!("{} is {}", short(record.resource()), crate::model::state_name(record)),
        Told::Refused(error) => format!("no: {error}"),
    }
}

// A call that gave up must have done so before "held up for too long" is decided.
const _: () = assert!(DEADLINE.as_secs() < SUBMIT_GRACE.as_secs());
