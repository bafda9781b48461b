//! Splits: what a charge gives to other integrators, and what comes back, is right on both sides at once.

use std::time::Duration;

use pix_domain::charges::Charge;
use pix_domain::charges::service::CreateCharge;
use pix_domain::credentials::{Integrator, IntegratorStatus};
use pix_domain::error::{ApplyError, ServiceError, StoreError, UniqueKey};
use pix_domain::ids::{IntegratorId, ResourceKind, SplitId, Version};
use pix_domain::list::{Cursor, ListQuery};
use pix_domain::money::Cents;
use pix_domain::ports::Outcome;
use pix_domain::postbacks::delivery::{Lane, Turn};
use pix_domain::postbacks::events::{EventKey, EventQuery, ListedEvent};
use pix_domain::provider::Progress;
use pix_domain::splits::{NewShare, Part, Share, Side, Split, complete};
use pix_domain::text::PostbackUrl;
use pix_domain::transition::{EventKind, Guard, Record, Transition};
use pix_domain::wallet::store::EntryQuery;
use pix_domain::wallet::{Posting, Reason};
use pix_domain::withdrawals::OutgoingState;

use super::races::all_at_once;
use crate::builders::{
    amount, cents, charge_command, integrator, key, name, next, percent, refund_command, report, some_fees,
    withdrawal_command,
};
use crate::{Answer, Services, StoreHarness, services, snapshot};

/// How many charges are paid at once.
const CROWD: usize = 32;
/// How many are told of one payment at once.
const CALLERS: usize = 8;

fn percentage(recipient: IntegratorId, text: &str) -> NewShare {
    NewShare { recipient, part: Part::Percentage(percent(text)) }
}

fn fixed(recipient: IntegratorId, value_cents: i64) -> NewShare {
    NewShare { recipient, part: Part::Amount(amount(value_cents)) }
}

/// A live charge with these shares.
async fn shared_charge(
    services: &Services,
    owner: IntegratorId,
    value_cents: i64,
    split: Vec<NewShare>,
) -> Charge {
    let command = CreateCharge { amount: amount(value_cents), split, ..charge_command(owner) };
    services.charges.create(command).await.expect("a new charge").into_inner()
}

/// The same, paid in full.
async fn paid_and_shared(
    services: &Services,
    owner: IntegratorId,
    value_cents: i64,
    split: Vec<NewShare>,
) -> Charge {
    let charge = shared_charge(services, owner, value_cents, split).await;
    services.pay(&charge, services.payment(value_cents)).await
}

/// A refund that the provider answers so; the charge after it.
async fn refunded(services: &Services, charge: &Charge, value_cents: i64, answer: Answer) -> Charge {
    services.provider.answers_next(answer);
    services.refunds.create(refund_command(charge, value_cents)).await.expect("a refund");
    services.charges.get(charge.integrator_id, charge.id).await.expect("the charge")
}

/// The provider says that so much of the charge went back, and is asked.
async fn taken_back(services: &Services, charge: &Charge, value_cents: i64) -> Charge {
    services.provider.says_refunded(charge.id.0, cents(value_cents));
    let (charge, _) = services.charges.refresh(charge.integrator_id, charge.id).await.expect("a charge");
    charge
}

/// What a share brought, and what of it was taken back.
fn shares(charge: &Charge) -> Vec<(i64, i64)> {
    charge.split.iter().map(|share| (share.amount.get(), share.taken_back.get())).collect()
}

/// Available, held, owed.
async fn purse(services: &Services, integrator_id: IntegratorId) -> (i64, i64, i64) {
    let wallet = services.wallet(integrator_id).await;
    (wallet.available.get(), wallet.held.get(), wallet.owed.get())
}

/// Why money moved, and how much, from first to last.
async fn moved(services: &Services, integrator_id: IntegratorId) -> Vec<(Reason, i64)> {
    let all = EntryQuery::after(0, 1_000);
    let entries = services.stores.domain.wallets.entries(integrator_id, &all).await.expect("entries");
    entries.iter().map(|entry| (entry.posting.reason, entry.posting.amount.get())).collect()
}

/// The recipient's record of a share.
async fn split_of(services: &Services, share: &Share) -> Split {
    services.splits.get(share.recipient, share.split_id).await.expect("a split")
}

async fn told(services: &Services, integrator_id: IntegratorId) -> Vec<ListedEvent> {
    let query = EventQuery { limit: 1_000, ..EventQuery::default() };
    services.stores.postbacks.events.events(integrator_id, query).await.expect("events")
}

fn url(host: &str) -> PostbackUrl {
    PostbackUrl::parse(&format!("https://{host}.example.com:8443/pix?token=%20a&b=ção'\"#frag"))
        .expect("a URL")
}

async fn set_postback(services: &Services, integrator_id: IntegratorId, url: Option<PostbackUrl>) {
    let set = services.stores.integrators.set_split_postback(integrator_id, url).await;
    assert_eq!(set, Ok(true));
}

/// A payment gives every recipient its share in the same instant: both sides' money and records say the same.
pub async fn a_payment_gives_every_recipient_its_share(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let other = services.integrator().await;
    services.set_fees(owner, some_fees()).await;
    let asked = vec![percentage(one, "12.5"), fixed(other, 500)];
    let charge = shared_charge(&services, owner, 10_000, asked).await;
    assert_eq!(shares(&charge), [(0, 0), (0, 0)]);
    assert_eq!(services.stores.domain.splits.find(one, charge.split[0].split_id).await, Ok(None));
    services.wait(Duration::from_secs(7));
    let paid = services.pay(&charge, services.payment(10_000)).await;
    // 1.10 is the fee; of the 98.90 that are left, an eighth is 12.3625.
    assert_eq!(shares(&paid), [(1_236, 0), (500, 0)]);
    for (integrator_id, available) in [(owner, 9_890 - 1_236 - 500), (one, 1_236), (other, 500)] {
        assert_eq!(purse(&services, integrator_id).await, (available, 0, 0));
    }
    let of_owner = [
        (Reason::ChargePaid, 10_000),
        (Reason::ChargeFee, 110),
        (Reason::SplitGiven, 1_236),
        (Reason::SplitGiven, 500),
    ];
    assert_eq!(moved(&services, owner).await, of_owner);
    assert_eq!(moved(&services, one).await, [(Reason::SplitReceived, 1_236)]);
    assert_eq!(moved(&services, other).await, [(Reason::SplitReceived, 500)]);
    for (share, brought) in paid.split.iter().zip([1_236, 500]) {
        let split = Split {
            id: share.split_id,
            integrator_id: share.recipient,
            version: Version::FIRST,
            from: owner,
            charge_id: charge.id,
            amount: cents(brought),
            taken_back: Cents::ZERO,
            postback_url: None,
            created_at: services.now(),
            updated_at: services.now(),
        };
        assert_eq!(split_of(&services, share).await, split);
        let book = services.stores.books.book(share.recipient).await.expect("a book");
        assert_eq!(book.splits, std::slice::from_ref(&split));
        assert_eq!(book.entries[0].posting.resource, split.resource());
        assert_eq!((book.charges, book.receipts), (Vec::new(), Vec::new()));
    }
    let book = services.stores.books.book(owner).await.expect("a book");
    assert_eq!((book.charges, book.splits), (vec![paid], Vec::new()));
}

/// A charge comes back with its shares exactly, wherever it is read, before it is paid and after.
pub async fn a_charge_comes_back_with_its_shares(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owner = services.integrator().await;
    let mut asked = Vec::new();
    for part in ["0.0001", "33.3333", "12.5", "7", "0", "fixed"] {
        let recipient = services.integrator().await;
        asked.push(if part == "fixed" { fixed(recipient, 1_234) } else { percentage(recipient, part) });
    }
    let command =
        CreateCharge { external_id: Some(name("shared")), split: asked.clone(), ..charge_command(owner) };
    let charge = services.charges.create(command).await.expect("a charge").into_inner();
    let as_asked = charge.split.iter().zip(&asked);
    assert!(as_asked.clone().all(|(share, new)| share.recipient == new.recipient && share.part == new.part));
    assert_eq!(as_asked.count(), 6);
    let mut now = charge;
    for paid in [0, 10_000, 77] {
        if paid > 0 {
            now = services.pay(&now, services.payment(paid)).await;
        }
        let (charges, expected) = (&services.stores.domain.charges, Ok(Some(now.clone())));
        assert_eq!(charges.find(owner, now.id).await, expected);
        assert_eq!(charges.find_by_external_id(owner, &name("shared")).await, expected);
        let query = ListQuery { limit: 9, ..ListQuery::default() };
        assert_eq!(charges.list(owner, &query).await, Ok(vec![now.clone()]));
        let book = services.stores.books.book(owner).await.expect("a book");
        assert_eq!(book.charges, [now.clone()]);
    }
    let brought = [0, 3_333 + 25, 1_250 + 9, 700 + 5, 0, 1_234];
    assert_eq!(now.split.iter().map(|share| share.amount.get()).collect::<Vec<_>>(), brought);
    assert_eq!(
        services.splits.get(asked[4].recipient, now.split[4].split_id).await,
        Err(ServiceError::NotFound)
    );
}

/// What can't be divided stays with the owner; fixed parts are filled first, wherever they stand.
pub async fn odd_centavos_are_the_owners(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let other = services.integrator().await;
    let thirds = vec![percentage(one, "33.3333"), percentage(other, "33.3333")];
    let charge = paid_and_shared(&services, owner, 101, thirds).await;
    assert_eq!(shares(&charge), [(33, 0), (33, 0)]);
    assert_eq!(purse(&services, owner).await, (35, 0, 0));
    let halves = vec![percentage(one, "50"), fixed(other, 50)];
    let charge = shared_charge(&services, owner, 100, halves).await;
    let charge = services.pay(&charge, services.payment(60)).await;
    assert_eq!(shares(&charge), [(10, 0), (50, 0)]);
    assert_eq!(purse(&services, owner).await, (35, 0, 0));
    assert_eq!(purse(&services, one).await, (43, 0, 0));
    assert_eq!(purse(&services, other).await, (83, 0, 0));
}

/// A payment of less than asked for gives what it can; a further one is shared again, and fills what is open.
pub async fn a_further_payment_is_shared_again(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let other = services.integrator().await;
    let asked = vec![percentage(one, "10"), fixed(other, 300)];
    let mut charge = shared_charge(&services, owner, 1_000, asked).await;
    for (paid, brought) in
        [(200, [(0, 0), (200, 0)]), (1_000, [(100, 0), (300, 0)]), (500, [(150, 0), (300, 0)])]
    {
        charge = services.pay(&charge, services.payment(paid)).await;
        assert_eq!(shares(&charge), brought);
        services.wait(Duration::from_secs(1));
    }
    assert_eq!(purse(&services, owner).await, (1_700 - 450, 0, 0));
    assert_eq!(moved(&services, one).await, [(Reason::SplitReceived, 100), (Reason::SplitReceived, 50)]);
    assert_eq!(moved(&services, other).await, [(Reason::SplitReceived, 200), (Reason::SplitReceived, 100)]);
    let (of_one, of_other) =
        (split_of(&services, &charge.split[0]).await, split_of(&services, &charge.split[1]).await);
    assert_eq!((of_one.version, of_one.amount), (Version(2), cents(150)));
    assert_eq!((of_other.version, of_other.amount), (Version(2), cents(300)));
    assert_eq!(of_one.updated_at.since(of_one.created_at), Duration::from_secs(1));
    assert_eq!(of_other.updated_at, of_one.created_at);
}

/// Refunds take shares back by their sum, when they are done; a failed one takes nothing, and all of them take all.
pub async fn refunds_take_shares_back_by_their_sum(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.funded(100_000).await, services.integrator().await);
    let other = services.integrator().await;
    let asked = vec![percentage(one, "10"), percentage(other, "33.33")];
    let charge = paid_and_shared(&services, owner, 1_000, asked).await;
    assert_eq!(shares(&charge), [(100, 0), (333, 0)]);
    let charge = refunded(&services, &charge, 1, Answer::Complete).await;
    assert_eq!(shares(&charge), [(100, 1), (333, 1)]);
    let charge = refunded(&services, &charge, 99, Answer::Complete).await;
    assert_eq!(shares(&charge), [(100, 10), (333, 34)]);
    for answer in [Answer::Fail, Answer::Reject] {
        let charge = refunded(&services, &charge, 500, answer).await;
        assert_eq!(shares(&charge), [(100, 10), (333, 34)]);
    }
    let charge = refunded(&services, &charge, 300, Answer::Accept).await;
    assert_eq!(shares(&charge), [(100, 10), (333, 34)], "nobody knows yet whether it will be done");
    let refunds = services.refunds.list_of_charge(owner, charge.id).await.expect("refunds");
    let refund = refunds.iter().find(|refund| !refund.state.is_final()).expect("the one in progress");
    services.provider.knows(refund.id.0, Progress::Completed);
    services.transactions.consult(refund.resource()).await.expect("a consult");
    let charge = services.charges.get(owner, charge.id).await.expect("the charge");
    assert_eq!(shares(&charge), [(100, 40), (333, 134)]);
    assert_eq!(purse(&services, owner).await, (100_000 + 600 - 60 - 199, 0, 0));
    let charge = refunded(&services, &charge, 600, Answer::Complete).await;
    assert_eq!(shares(&charge), [(100, 100), (333, 333)]);
    for (integrator_id, available) in [(owner, 100_000), (one, 0), (other, 0)] {
        assert_eq!(purse(&services, integrator_id).await, (available, 0, 0));
    }
    let of_one = [1, 9, 30, 60].map(|back| (Reason::SplitTakenBack, back));
    assert_eq!(moved(&services, one).await[1..], of_one);
    let given_back: Vec<i64> = moved(&services, owner)
        .await
        .into_iter()
        .filter(|(reason, _)| *reason == Reason::SplitGivenBack)
        .map(|(_, back)| back)
        .collect();
    assert_eq!(given_back, [1, 1, 9, 33, 30, 100, 60, 199]);
    let split = split_of(&services, &charge.split[1]).await;
    assert_eq!((split.version, split.kept()), (Version(5), Cents::ZERO));
}

/// A refund takes of a recipient what that one has: what it has spent stays with the owner, and a further refund of the same
/// charge finds what came since.
pub async fn what_a_recipient_has_spent_is_the_owners_loss(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.funded(100_000).await, services.integrator().await);
    let charge = paid_and_shared(&services, owner, 1_000, vec![percentage(one, "50")]).await;
    services.withdrawals.create(withdrawal_command(one, 400)).await.expect("a withdrawal");
    let charge = refunded(&services, &charge, 600, Answer::Complete).await;
    assert_eq!(shares(&charge), [(500, 100)]);
    assert_eq!(split_of(&services, &charge.split[0]).await.taken_back, cents(100));
    assert_eq!(purse(&services, one).await, (0, 0, 0));
    assert_eq!(purse(&services, owner).await, (100_000 + 500 - 600 + 100, 0, 0));
    let charge = refunded(&services, &charge, 100, Answer::Complete).await;
    assert_eq!(shares(&charge), [(500, 100)], "there was nothing");
    services.paid_charge(one, 250).await;
    let charge = refunded(&services, &charge, 100, Answer::Complete).await;
    assert_eq!(shares(&charge), [(500, 350)], "three hundred were lacking");
    let charge = refunded(&services, &charge, 200, Answer::Complete).await;
    assert_eq!(shares(&charge), [(500, 350)]);
    assert_eq!(purse(&services, one).await, (0, 0, 0));
    assert_eq!(purse(&services, owner).await, (100_000 + 500 - 1_000 + 350, 0, 0));
    let of_one = [
        (Reason::SplitReceived, 500),
        (Reason::WithdrawalHold, 400),
        (Reason::WithdrawalSettle, 400),
        (Reason::SplitTakenBack, 100),
        (Reason::ChargePaid, 250),
        (Reason::SplitTakenBack, 250),
    ];
    assert_eq!(moved(&services, one).await, of_one);
}

/// One capital refunds no more than it is: whoever owns both sides can't have the gateway pay.
pub async fn refunds_are_paid_by_those_who_have_money(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.funded(1_000).await, services.integrator().await);
    let mut charges = Vec::new();
    for _ in 0..3 {
        charges.push(paid_and_shared(&services, owner, 1_000, vec![percentage(one, "100")]).await);
    }
    services.withdrawals.create(withdrawal_command(one, 3_000)).await.expect("a withdrawal");
    refunded(&services, &charges[0], 1_000, Answer::Complete).await;
    assert_eq!(purse(&services, owner).await, (0, 0, 0));
    let refused = services.refunds.create(refund_command(&charges[1], 1_000)).await;
    assert_eq!(refused, Err(ServiceError::InsufficientBalance));
    assert_eq!(purse(&services, one).await, (0, 0, 0));
}

/// What the provider was forced to send back takes the shares back with it, before the owner's part is taken.
pub async fn what_the_provider_takes_back_takes_shares_back(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let charge = paid_and_shared(&services, owner, 1_000, vec![percentage(one, "50")]).await;
    for (back, of_owner, of_one) in [(400, 300, 300), (400, 300, 300), (1_000, 0, 0)] {
        let charge = taken_back(&services, &charge, back).await;
        assert_eq!(shares(&charge), [(500, 500 - of_one)]);
        assert_eq!(purse(&services, owner).await, (of_owner, 0, 0));
        assert_eq!(purse(&services, one).await, (of_one, 0, 0));
    }
    let of_owner = [
        (Reason::ChargePaid, 1_000),
        (Reason::SplitGiven, 500),
        (Reason::SplitGivenBack, 200),
        (Reason::ForcedDebit, 400),
        (Reason::SplitGivenBack, 300),
        (Reason::ForcedDebit, 600),
    ];
    assert_eq!(moved(&services, owner).await, of_owner);
    // Where both have spent it, each owes its own part.
    let charge = paid_and_shared(&services, owner, 1_000, vec![percentage(one, "50")]).await;
    for (integrator_id, spent) in [(owner, 450), (one, 480)] {
        services.withdrawals.create(withdrawal_command(integrator_id, spent)).await.expect("a withdrawal");
    }
    taken_back(&services, &charge, 1_000).await;
    assert_eq!(purse(&services, owner).await, (0, 0, 450));
    assert_eq!(purse(&services, one).await, (0, 0, 480));
}

/// An owner who owes gives its recipients what was promised before: what is left of the payment repays. It can promise no
/// more.
pub async fn an_owner_who_owes_gives_what_was_promised_before(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let promised = shared_charge(&services, owner, 600, vec![percentage(one, "50")]).await;
    let unlucky = services.paid_charge(owner, 1_000).await;
    services.withdrawals.create(withdrawal_command(owner, 1_000)).await.expect("a withdrawal");
    taken_back(&services, &unlucky, 1_000).await;
    assert_eq!(purse(&services, owner).await, (0, 0, 1_000));
    let more = CreateCharge { split: vec![percentage(one, "50")], ..charge_command(owner) };
    let refused = services.charges.create(more).await;
    assert!(matches!(refused, Err(ServiceError::InvalidState(_))), "{refused:?}");
    let charge = services.pay(&promised, services.payment(600)).await;
    assert_eq!(purse(&services, owner).await, (0, 0, 700));
    assert_eq!(purse(&services, one).await, (300, 0, 0));
    taken_back(&services, &charge, 200).await;
    assert_eq!(purse(&services, owner).await, (0, 0, 800));
    assert_eq!(purse(&services, one).await, (200, 0, 0));
}

/// `transition` with what the recipients of its charge get or give back, by their splits as they are now.
async fn with_parts(services: &Services, transition: Transition) -> Transition {
    let charge = transition.charge().cloned().expect("a charge");
    let mut sides = Vec::new();
    for share in &charge.split {
        let split = services.stores.domain.splits.find(share.recipient, share.split_id).await;
        let available = services.wallet(share.recipient).await.available;
        sides.push(Side { split: split.expect("a read"), available, postback_url: None });
    }
    complete(transition, &sides).expect("sides of the charge's own time")
}

/// The transition that credits a PIX of so much, with its parts.
async fn shared_credit(services: &Services, charge: &Charge, value_cents: i64) -> Transition {
    with_parts(services, services.credit_intent(charge, services.payment(value_cents))).await
}

/// The transition with another split in that part, made by `change`.
fn with_split(mut transition: Transition, part: usize, change: impl FnOnce(&mut Split)) -> Transition {
    let part = &mut transition.parts[part];
    let Record::Split(split) = &mut part.writes[0].record else { panic!("a part writes a split") };
    change(split);
    let resource = split.resource();
    part.integrator_id = resource.integrator_id;
    for posting in &mut part.postings {
        posting.resource = resource;
    }
    transition
}

/// The same, with a split that is made and not changed.
fn with_new_split(transition: Transition, part: usize, change: impl FnOnce(&mut Split)) -> Transition {
    let mut transition = with_split(transition, part, |split| {
        split.version = Version::FIRST;
        change(split);
    });
    transition.parts[part].writes[0].guard = Guard::Absent;
    transition
}

/// Applies a transition that must be refused, and asserts that nothing was written and nobody told.
async fn refused(services: &Services, all: &[IntegratorId], transition: Transition) -> ApplyError {
    let told_so_far = async || {
        let mut events = Vec::new();
        for integrator_id in all {
            events.push(told(services, *integrator_id).await.len());
        }
        events
    };
    let before = (snapshot(&services.stores).await, told_so_far().await);
    let refusal = services.stores.domain.transitions.apply(transition).await.expect_err("a refusal");
    let after = (snapshot(&services.stores).await, told_so_far().await);
    assert_eq!(before, after, "a refused transition wrote something");
    refusal
}

fn is_rejected(refusal: &ApplyError) -> bool {
    matches!(refusal, ApplyError::Store(StoreError::Rejected(_)))
}

/// All or nothing: what is wrong with one part, or with the owner's side, keeps both sides as they were.
pub async fn a_refused_part_undoes_the_whole(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let other = services.integrator().await;
    let all = [owner, one, other];
    let asked = vec![percentage(one, "30"), percentage(other, "20")];
    let payment = services.payment(1_000);
    let charge = paid_and_shared(&services, owner, 1_000, asked).await;
    let charge = services.pay(&charge, payment.clone()).await;
    let credit = shared_credit(&services, &charge, 1_000).await;
    for part in [0, 1] {
        let mut ahead = with_split(credit.clone(), part, |split| split.version = Version(6));
        ahead.parts[part].writes[0].guard = Guard::At(Version(5));
        assert_eq!(refused(&services, &all, ahead).await, ApplyError::Stale);
        let unborn = with_split(credit.clone(), part, |split| split.id = SplitId(services.id()));
        assert_eq!(refused(&services, &all, unborn).await, ApplyError::Stale);
        for taken in [charge.split[0].split_id, charge.split[1].split_id] {
            let again = with_new_split(credit.clone(), part, |split| split.id = taken);
            assert_eq!(refused(&services, &all, again).await, ApplyError::Duplicate(UniqueKey::Id));
        }
        let to_nobody = with_new_split(credit.clone(), part, |split| {
            split.id = SplitId(services.id());
            split.integrator_id = IntegratorId(services.id());
        });
        let refusal = refused(&services, &all, to_nobody).await;
        assert!(is_rejected(&refusal), "{refusal:?}");
    }
    let twice = with_parts(&services, services.credit_intent(&charge, payment)).await;
    assert_eq!(refused(&services, &all, twice).await, ApplyError::Duplicate(UniqueKey::Receipt));
    let late = shared_credit(&services, &charge, 1_000).await;
    services.apply(credit).await;
    assert_eq!(refused(&services, &all, late).await, ApplyError::Stale);
    assert_eq!(purse(&services, one).await, (900, 0, 0));
    assert_eq!(purse(&services, other).await, (600, 0, 0));
}

/// A wallet that lacks what is taken back from it keeps both sides as they were, until it is owed.
pub async fn a_part_without_its_money_undoes_the_whole(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.funded(10_000).await, services.integrator().await);
    let all = [owner, one];
    let charge = paid_and_shared(&services, owner, 1_000, vec![percentage(one, "50")]).await;
    let intent = services.refund_intent(&charge, 1_000);
    services.apply(intent.clone()).await;
    let (refund, charge) = (intent.refund().cloned(), intent.charge().cloned());
    let refund = refund.expect("a refund");
    let done = report(refund.id.0, Progress::Completed);
    let completed = next(refund.complete(charge.expect("the charge"), done, services.now()));
    let mut completed = with_parts(&services, completed).await;
    // Spent after that was read.
    services.withdrawals.create(withdrawal_command(one, 400)).await.expect("a withdrawal");
    assert_eq!(refused(&services, &all, completed.clone()).await, ApplyError::InsufficientFunds);
    let split = completed.parts[0].postings[0].resource;
    completed.parts[0].postings =
        Posting::of(Reason::ForcedDebitOwed, cents(500), split).into_iter().collect();
    assert_eq!(refused(&services, &all, completed.clone()).await, ApplyError::Owing);
    let wallet = services.wallet(one).await;
    completed.parts[0].postings = Posting::of(Reason::ForcedDebit, cents(500), split).into_iter().collect();
    completed.parts[0] = completed.parts[0].fitted_to(wallet).expect("what is forced fits");
    services.apply(completed).await;
    assert_eq!(purse(&services, owner).await, (10_000, 0, 0));
    assert_eq!(purse(&services, one).await, (0, 0, 400));
}

/// What one side gives the other gets, each integrator has one part, and a split changes with its charge alone.
pub async fn parts_of_another_shape_are_rejected(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let (other, third) = (services.integrator().await, services.integrator().await);
    let all = [owner, one, other, third];
    let asked = vec![percentage(one, "30"), percentage(other, "20")];
    let charge = shared_charge(&services, owner, 1_000, asked).await;
    let right = shared_credit(&services, &charge, 1_000).await;
    let mut wrong: Vec<(&str, Transition)> = Vec::new();
    let mut add = |what: &'static str, change: &dyn Fn(&mut Transition)| {
        let mut transition = right.clone();
        change(&mut transition);
        wrong.push((what, transition));
    };
    add("more received", &|whole| whole.parts[0].postings[0].amount = cents(301));
    add("less received", &|whole| drop(whole.parts.pop()));
    add("nobody receives", &|whole| whole.parts.clear());
    add("nothing given", &|whole| {
        whole.postings.retain(|posting| posting.reason != Reason::SplitGiven);
    });
    add("given to oneself", &|whole| {
        *whole = with_split(whole.clone(), 0, |split| split.integrator_id = owner);
    });
    add("two parts of one", &|whole| {
        *whole = with_split(whole.clone(), 0, |split| split.integrator_id = other);
    });
    add("a part of a part", &|whole| {
        let part = Transition::new(third, whole.at);
        whole.parts[0].parts.push(part);
    });
    add("another's split", &|whole| {
        let split = whole.parts[1].postings[0].resource;
        whole.parts[0].postings[0].resource = split;
    });
    add("a record's version", &|whole| {
        whole.parts[1].writes[0].guard = Guard::At(Version::FIRST);
    });
    add("a split outside a part", &|whole| {
        *whole = with_split(whole.clone(), 0, |split| split.integrator_id = owner);
        let part = whole.parts.remove(0);
        whole.writes.extend(part.writes);
        whole.postings.retain(|posting| posting.amount != cents(300));
    });
    add("a split by itself", &|whole| *whole = whole.parts[0].clone());
    for (what, transition) in wrong {
        let refusal = refused(&services, &all, transition).await;
        assert!(is_rejected(&refusal), "{what}: {refusal:?}");
    }
    services.apply(right).await;
    assert_eq!(purse(&services, owner).await, (500, 0, 0));
}

/// Many at once, some with parts: each wholly or not at all and on its own, in order, one result each.
pub async fn many_with_and_without_parts_are_applied_in_order(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, other) = (services.integrator().await, services.integrator().await);
    let one = services.integrator().await;
    let first = shared_charge(&services, owner, 1_000, vec![percentage(one, "50")]).await;
    let second = shared_charge(&services, other, 1_000, vec![percentage(one, "30")]).await;
    let third = shared_charge(&services, owner, 1_000, vec![percentage(one, "10")]).await;
    let first = shared_credit(&services, &first, 1_000).await;
    let mut unbalanced = shared_credit(&services, &third, 1_000).await;
    unbalanced.parts[0].postings[0].amount = cents(99);
    let transitions = vec![
        first.clone(),
        services.withdrawal_intent(one, 500),
        shared_credit(&services, &second, 1_000).await,
        first,
        unbalanced,
        services.withdrawal_intent(one, 301),
        services.withdrawal_intent(one, 300),
        services.withdrawal_intent(owner, 500),
        shared_credit(&services, &third, 1_000).await,
        services.withdrawal_intent(one, 100),
    ];
    let results = services.stores.domain.transitions.apply_all(transitions).await;
    assert_eq!(results.len(), 10);
    for applied in [0, 1, 2, 6, 7, 8, 9] {
        assert_eq!(results[applied], Ok(()), "{applied}");
    }
    assert_eq!(results[3], Err(ApplyError::Stale));
    assert!(results[4].as_ref().is_err_and(is_rejected), "{:?}", results[4]);
    assert_eq!(results[5], Err(ApplyError::InsufficientFunds));
    assert_eq!(purse(&services, one).await, (0, 900, 0));
    assert_eq!(purse(&services, owner).await, (900, 500, 0));
    assert_eq!(purse(&services, other).await, (700, 0, 0));
}

/// Every other charge of each of four owners.
fn is_refunded(number: usize) -> bool {
    !(number / 4).is_multiple_of(2)
}

/// Charges of four owners, each with shares for the other three, are paid at once, and half of them refunded beside:
/// nobody waits for ever, and every centavo is where it belongs.
pub async fn owners_pay_each_other_at_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let mut owners = Vec::new();
    for _ in 0..4 {
        owners.push(services.funded(100_000).await);
    }
    let mut charges = Vec::new();
    for number in 0..CROWD {
        let of = |further: usize| owners[(number + further) % 4];
        let asked = vec![percentage(of(1), "10"), percentage(of(2), "20"), percentage(of(3), "5")];
        charges.push(shared_charge(&services, of(0), 1_000, asked).await);
    }
    let results = all_at_once(&services, CROWD, |services, number| {
        let charge = charges[number].clone();
        async move {
            let charge = services.pay(&charge, services.payment(1_000)).await;
            if !is_refunded(number) {
                return charge;
            }
            services.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund");
            services.charges.get(charge.integrator_id, charge.id).await.expect("the charge")
        }
    })
    .await;
    for (number, charge) in results.iter().enumerate() {
        let taken_back = i64::from(is_refunded(number));
        let expected = [100, 200, 50].map(|brought| (brought, brought * taken_back));
        assert_eq!(shares(charge), expected, "{number}");
    }
    // Four of the eight charges of each are kept: 6.50 of each, and 3.50 of those of the others.
    for owner in owners {
        assert_eq!(purse(&services, owner).await, (100_000 + 4 * 650 + 4 * 350, 0, 0));
    }
}

/// Recipients spend while what they have is taken back: what is owed is exact and never beside money.
pub async fn taking_back_races_with_spending(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.funded(100_000).await, services.integrator().await);
    let mut charges = Vec::new();
    for _ in 0..CALLERS {
        charges.push(paid_and_shared(&services, owner, 1_000, vec![percentage(one, "50")]).await);
    }
    all_at_once(&services, 2 * CALLERS, |services, number| {
        let charge = charges[number / 2].clone();
        async move {
            if number.is_multiple_of(2) {
                services.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund");
            } else {
                let _ = services.withdrawals.create(withdrawal_command(one, 700)).await;
            }
        }
    })
    .await;
    let book = services.stores.books.book(owner).await.expect("a book");
    assert!(book.refunds.iter().all(|refund| refund.state == OutgoingState::Completed));
    let of_owner = book.wallet;
    let book = services.stores.books.book(one).await.expect("a book");
    let done = book.withdrawals.iter().filter(|withdrawal| withdrawal.state == OutgoingState::Completed);
    let sent: i64 = done.map(|withdrawal| withdrawal.amount.cents().get()).sum();
    let kept: i64 = book.splits.iter().map(|split| split.kept().get()).sum();
    assert_eq!(book.wallet.available.get(), kept - sent);
    assert!(book.wallet.owed.is_zero() && book.wallet.held.is_zero());
    assert_eq!(
        (of_owner.available.get(), of_owner.held.get()),
        (100_000 - kept, 0),
        "what was spent is its loss"
    );
}

/// A PIX told of by many callbacks at once is shared once.
pub async fn one_payment_told_many_times_is_shared_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let charge = shared_charge(&services, owner, 1_000, vec![percentage(one, "50")]).await;
    services.provider.receives(charge.id.0, services.payment(1_000));
    let id = charge.id;
    let results =
        all_at_once(
            &services,
            CALLERS,
            |services, _| async move { services.charges.refresh(owner, id).await },
        )
        .await;
    for result in results {
        let (charge, _) = result.expect("a refreshed charge");
        assert_eq!(shares(&charge), [(500, 0)]);
    }
    assert_eq!(purse(&services, owner).await, (500, 0, 0));
    assert_eq!(moved(&services, one).await, [(Reason::SplitReceived, 500)]);
    assert_eq!(split_of(&services, &charge.split[0]).await.version, Version::FIRST);
}

/// A split is its recipient's alone, and the charge its owner's.
pub async fn a_split_is_its_recipients_alone(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let third = services.integrator().await;
    let charge = paid_and_shared(&services, owner, 1_000, vec![percentage(one, "50")]).await;
    let id = charge.split[0].split_id;
    let everything = ListQuery { limit: 100, ..ListQuery::default() };
    for stranger in [owner, third, IntegratorId(services.id())] {
        assert_eq!(services.splits.get(stranger, id).await, Err(ServiceError::NotFound));
        assert_eq!(services.stores.domain.splits.find(stranger, id).await, Ok(None));
        assert_eq!(services.stores.domain.splits.list(stranger, &everything).await, Ok(Vec::new()));
    }
    assert_eq!(services.splits.get(one, SplitId(charge.id.0)).await, Err(ServiceError::NotFound));
    assert_eq!(services.charges.get(one, charge.id).await, Err(ServiceError::NotFound));
    assert_eq!(services.stores.domain.charges.list(one, &everything).await, Ok(Vec::new()));
    assert_eq!(services.stores.domain.charges.receipts(one, charge.id).await, Ok(Vec::new()));
    let kinds = |events: &[ListedEvent]| events.iter().map(|told| told.event.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&told(&services, owner).await), [EventKind::ChargePaid]);
    let of_one = told(&services, one).await;
    assert_eq!(kinds(&of_one), [EventKind::SplitReceived]);
    assert_eq!(told(&services, third).await, Vec::new());
    let key = of_one[0].event.key;
    assert_eq!(key.resource, split_of(&services, &charge.split[0]).await.resource());
    for stranger in [owner, third] {
        let mut theirs = key;
        theirs.resource.integrator_id = stranger;
        assert_eq!(services.stores.postbacks.events.event(theirs).await, Ok(None));
    }
}

/// Splits are listed newest first, in pages and by their time; they have no states, names or metadata.
pub async fn splits_are_listed_newest_first(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, other) = (services.integrator().await, services.integrator().await);
    let (one, begin) = (services.integrator().await, services.now());
    let mut made: Vec<Split> = Vec::new();
    for number in 0..7 {
        let from = [owner, other][number % 2];
        let charge = paid_and_shared(&services, from, 1_000, vec![percentage(one, "10")]).await;
        made.insert(0, split_of(&services, &charge.split[0]).await);
        services.wait(Duration::from_secs(1));
    }
    let list =
        async |query: ListQuery| services.stores.domain.splits.list(one, &query).await.expect("a list");
    let first = |limit: u32| ListQuery { limit, ..ListQuery::default() };
    let from = |cursor: Cursor, limit: u32| ListQuery { cursor: Some(cursor), ..first(limit) };
    assert_eq!(list(first(9)).await, made);
    assert_eq!(list(first(3)).await, made[..3]);
    let middle = made[3].id.0;
    assert_eq!(list(from(Cursor::OlderThan(middle), 2)).await, made[4..6]);
    assert_eq!(list(from(Cursor::NewerThan(middle), 2)).await, made[1..3], "the nearest ones");
    assert_eq!(list(from(Cursor::OlderThan(made[6].id.0), 5)).await, []);
    assert_eq!(list(from(Cursor::NewerThan(made[0].id.0), 5)).await, []);
    let second = |number| Some(begin.plus(Duration::from_secs(number)));
    assert_eq!(list(ListQuery { created_from: second(3), ..first(9) }).await, made[..4]);
    assert_eq!(list(ListQuery { created_to: second(3), ..first(9) }).await, made[4..]);
    let range = ListQuery { created_from: second(1), created_to: second(5), ..first(9) };
    assert_eq!(list(range.clone()).await, made[2..6]);
    let cursor = Some(Cursor::OlderThan(made[3].id.0));
    assert_eq!(list(ListQuery { cursor, limit: 1, ..range }).await, made[4..5]);
    let named = ListQuery { states: vec!["paid"], external_id: Some(name("no split")), ..first(9) };
    assert_eq!(list(named).await, made);
    let mut seen = Vec::new();
    let mut query = first(3);
    loop {
        let page = services.splits.list(one, query).await.expect("a page");
        seen.extend_from_slice(&page.items);
        if !page.has_older {
            break;
        }
        query = from(Cursor::OlderThan(page.items[2].id.0), 3);
    }
    assert_eq!(seen, made);
}

/// A recipient is told of its splits among all else that happens to it, numbered without gaps, each as it was then.
pub async fn recipients_are_told_in_order(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.funded(100_000).await, services.integrator().await);
    let charge = shared_charge(&services, owner, 1_000, vec![percentage(one, "10")]).await;
    services.paid_charge(one, 300).await;
    let charge = services.pay(&charge, services.payment(1_000)).await;
    let mut then = vec![split_of(&services, &charge.split[0]).await];
    services.wait(Duration::from_secs(1));
    services.withdrawals.create(withdrawal_command(one, 350)).await.expect("a withdrawal");
    let charge = services.pay(&charge, services.payment(500)).await;
    then.push(split_of(&services, &charge.split[0]).await);
    services.wait(Duration::from_secs(1));
    for back in [300, 1_200] {
        let charge = refunded(&services, &charge, back, Answer::Complete).await;
        then.push(split_of(&services, &charge.split[0]).await);
    }
    services.paid_charge(one, 200).await;
    let events = told(&services, one).await;
    let heard: Vec<_> = events
        .iter()
        .map(|listed| (listed.event.number, listed.event.kind, listed.event.moved.get()))
        .collect();
    let expected = [
        (1, EventKind::ChargePaid, 300),
        (2, EventKind::SplitReceived, 100),
        (3, EventKind::WithdrawalCompleted, 350),
        (4, EventKind::SplitReceived, 50),
        (5, EventKind::SplitTakenBack, 30),
        // Of 1.20 the rest was spent.
        (6, EventKind::SplitTakenBack, 70),
        (7, EventKind::ChargePaid, 200),
    ];
    assert_eq!(heard, expected);
    assert_eq!(purse(&services, one).await, (200, 0, 0));
    let of_split: Vec<&ListedEvent> =
        events.iter().filter(|listed| listed.event.key.resource.kind == ResourceKind::Split).collect();
    for (listed, split) in of_split.iter().zip(&then) {
        assert_eq!(listed.record_then(), Some(Record::Split(Box::new(split.clone()))));
        assert_eq!(listed.record, Record::Split(Box::new(then[3].clone())), "as it is now");
        let key = EventKey { resource: split.resource(), sequence: split.version };
        assert_eq!((listed.event.key, listed.event.at), (key, split.updated_at));
        assert_eq!(listed.event.related, None);
        assert_eq!(services.stores.postbacks.events.event(key).await, Ok(Some((*listed).clone())));
        assert_eq!((&listed.delivery, listed.postback_url()), (&None, None), "nobody named a place");
    }
    assert_eq!(of_split.len(), then.len());
}

/// A split's events go where its recipient wanted them when it came to be, whatever the owner's charge says.
pub async fn splits_are_told_where_their_recipient_wants_it(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.funded(100_000).await, services.integrator().await);
    let other = services.integrator().await;
    set_postback(&services, one, Some(url("a"))).await;
    let command = CreateCharge {
        postback_url: Some(url("owner")),
        split: vec![percentage(one, "10"), percentage(other, "10")],
        ..charge_command(owner)
    };
    let charge = services.charges.create(command).await.expect("a charge").into_inner();
    let charge = services.pay(&charge, services.payment(10_000)).await;
    set_postback(&services, one, Some(url("b"))).await;
    set_postback(&services, other, Some(url("c"))).await;
    refunded(&services, &charge, 1_000, Answer::Complete).await;
    let later = paid_and_shared(&services, owner, 1_000, vec![percentage(one, "10")]).await;
    let places = [(&charge.split[0], Some("a")), (&charge.split[1], None), (&later.split[0], Some("b"))];
    for (share, host) in places {
        assert_eq!(split_of(&services, share).await.postback_url, host.map(url));
        let of_split = told(&services, share.recipient)
            .await
            .into_iter()
            .filter(|listed| listed.event.key.resource.id == share.split_id.0);
        for listed in of_split {
            assert_eq!(listed.postback_url().cloned(), host.map(url));
            assert_eq!(listed.delivery.is_some(), host.is_some());
        }
    }
    let turn = Turn {
        now: services.now(),
        lease: Duration::from_mins(1),
        after: None,
        lanes: 100,
        per_lane: 100,
        except: Vec::new(),
    };
    let taken = services.stores.postbacks.deliveries.take(turn).await.expect("a turn").deliveries;
    let of_splits = taken.iter().filter(|claimed| claimed.key.resource.kind == ResourceKind::Split);
    let mut lanes: Vec<_> = of_splits.map(|claimed| (claimed.lane, claimed.key.resource.id)).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let mut expected = vec![
        (Lane::of(one, &url("a")), charge.split[0].split_id.0),
        (Lane::of(one, &url("b")), later.split[0].split_id.0),
    ];
    expected.sort_unstable();
    assert_eq!(lanes, expected);
}

/// Where an integrator is told of splits is kept of it, exactly.
pub async fn the_place_for_splits_is_kept(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (one, other) = (services.integrator().await, services.integrator().await);
    let store = &services.stores.integrators;
    for place in [Some(url("a")), Some(url("b")), None, Some(url("a"))] {
        set_postback(&services, one, place.clone()).await;
        let expected = Integrator { split_postback: place, ..integrator(one) };
        assert_eq!(store.find(one).await, Ok(Some(expected.clone())));
        assert_eq!(store.list().await, Ok(vec![expected, integrator(other)]));
    }
    let nobody = IntegratorId(services.id());
    assert_eq!(store.set_split_postback(nobody, None).await, Ok(false));
    assert_eq!(store.set_split_postback(nobody, Some(url("a"))).await, Ok(false));
    let born_with = Integrator { split_postback: Some(url("a")), ..integrator(nobody) };
    assert_eq!(store.create(born_with.clone()).await, Ok(()));
    assert_eq!(store.find(nobody).await, Ok(Some(born_with)));
}

/// A split that can't be paid is refused before anything is stored: its handle is free afterwards.
pub async fn a_split_that_can_not_be_paid_burns_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let suspended = services.integrator().await;
    services.set_fees(owner, some_fees()).await;
    let integrators = &services.stores.integrators;
    assert_eq!(integrators.set_status(suspended, IntegratorStatus::Suspended).await, Ok(true));
    let command = CreateCharge {
        external_id: Some(name("shared")),
        idempotency_key: Some(key("shared")),
        ..charge_command(owner)
    };
    let before = snapshot(&services.stores).await;
    for (what, split) in [
        ("an unknown recipient", vec![percentage(one, "1"), percentage(IntegratorId(services.id()), "1")]),
        ("a suspended recipient", vec![percentage(suspended, "1")]),
        ("oneself", vec![percentage(owner, "1")]),
        ("one recipient twice", vec![percentage(one, "1"), fixed(one, 1)]),
        // 1.10 of the 100.00 is the fee.
        ("more than the payment brings", vec![fixed(one, 9_891)]),
    ] {
        let refused = services.charges.create(CreateCharge { split, ..command.clone() }).await;
        let of_split = matches!(refused, Err(ServiceError::Invalid { field: "split", .. }));
        assert!(of_split, "{what}: {refused:?}");
        let lookups = &services.stores.domain.lookups;
        assert_eq!(lookups.find_handle(owner, ResourceKind::Charge, &key("shared")).await, Ok(None));
    }
    assert_eq!(integrators.set_status(owner, IntegratorStatus::Suspended).await, Ok(true));
    let promised = CreateCharge { split: vec![fixed(one, 1)], ..command.clone() };
    assert_eq!(services.charges.create(promised).await, Err(ServiceError::IntegratorSuspended));
    assert_eq!(integrators.set_status(owner, IntegratorStatus::Active).await, Ok(true));
    assert_eq!(snapshot(&services.stores).await, before);
    let right = CreateCharge { split: vec![fixed(one, 9_890)], ..command };
    let made = services.charges.create(right).await.expect("a charge");
    let Outcome::Created(charge) = made else { panic!("its handle was taken") };
    // Who is suspended later is paid all the same: the charge is made.
    assert_eq!(integrators.set_status(one, IntegratorStatus::Suspended).await, Ok(true));
    services.pay(&charge, services.payment(10_000)).await;
    assert_eq!(purse(&services, one).await, (9_890, 0, 0));
    assert_eq!(purse(&services, owner).await, (0, 0, 0));
}

/// The same request again is the same charge, with the same splits; another split under its handle is refused.
pub async fn another_split_under_the_same_handle_is_refused(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, one) = (services.integrator().await, services.integrator().await);
    let other = services.integrator().await;
    let command =
        CreateCharge { split: vec![percentage(one, "50"), fixed(other, 7)], ..charge_command(owner) };
    let by_name = CreateCharge { external_id: Some(name("shared")), ..command.clone() };
    let by_key = CreateCharge { idempotency_key: Some(key("shared")), ..command };
    for (command, refusal) in
        [(by_name, ServiceError::ExternalIdConflict), (by_key, ServiceError::IdempotencyMismatch)]
    {
        let charge = services.charges.create(command.clone()).await.expect("a charge").into_inner();
        let again = services.charges.create(command.clone()).await;
        assert_eq!(again, Ok(Outcome::Replayed(charge.clone())));
        for split in [
            Vec::new(),
            vec![percentage(one, "50")],
            vec![fixed(other, 7), percentage(one, "50")],
            vec![percentage(one, "50.0001"), fixed(other, 7)],
            vec![percentage(one, "50"), fixed(other, 8)],
            vec![percentage(other, "50"), fixed(one, 7)],
            vec![fixed(one, 5_000), fixed(other, 7)],
        ] {
            let another = CreateCharge { split, ..command.clone() };
            assert_eq!(services.charges.create(another).await, Err(refusal.clone()));
        }
        // However much of it was paid meanwhile.
        let paid = services.pay(&charge, services.payment(10_000)).await;
        assert_eq!(services.charges.create(command).await, Ok(Outcome::Replayed(paid)));
    }
    assert_eq!(purse(&services, one).await, (10_000, 0, 0));
    assert_eq!(purse(&services, other).await, (14, 0, 0));
}
