//! Wallets and their books.

use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::money::{Cents, MAX_AMOUNT_CENTS};
use pix_domain::provider::Progress;
use pix_domain::transition::Transition;
use pix_domain::wallet::store::EntryQuery;
use pix_domain::wallet::{Account, Entry, Reason, Wallet};
use pix_domain::withdrawals::OutgoingState;

use crate::builders::{cents, refund_command, some_fees, withdrawal_command};
use crate::{Answer, Services, StoreHarness, services};

async fn entries(services: &Services, integrator_id: IntegratorId, after: u64, limit: u32) -> Vec<Entry> {
    services
        .stores
        .domain
        .wallets
        .entries(integrator_id, &EntryQuery::after(after, limit))
        .await
        .expect("entries")
}

fn balance(entries: &[Entry], account: Account) -> i64 {
    entries.iter().map(|entry| entry.posting.effect_cents(account)).sum()
}

/// Something of everything: paid, paid again, withdrawn, refunded, failed, canceled, returned.
async fn a_busy_day(services: &Services, integrator_id: IntegratorId) {
    let charge = services.paid_charge(integrator_id, 100_000).await;
    services.set_fees(integrator_id, some_fees()).await;
    services.paid_charge(integrator_id, 50_000).await;
    services.pay(&charge, services.payment(777)).await;
    for answer in [Answer::Complete, Answer::Fail, Answer::Reject, Answer::Accept, Answer::LostRequest] {
        services.provider.answers_next(answer);
        services.withdrawals.create(withdrawal_command(integrator_id, 3_000)).await.expect("a withdrawal");
    }
    services.provider.answers_next(Answer::Unavailable);
    let queued = services.withdrawals.create(withdrawal_command(integrator_id, 9_000)).await;
    let queued = queued.expect("a withdrawal").into_inner();
    services.apply(crate::builders::next(queued.cancel(services.now()))).await;
    for (returned, after) in [(1_000, OutgoingState::Completed), (3_000, OutgoingState::Returned)] {
        let sent = services.withdrawals.create(withdrawal_command(integrator_id, 3_000)).await;
        let sent = sent.expect("a withdrawal").into_inner();
        services.provider.knows(sent.id.0, Progress::Returned(cents(returned)));
        let (withdrawal, _) =
            services.withdrawals.refresh(integrator_id, sent.id).await.expect("a withdrawal");
        assert_eq!((withdrawal.state, withdrawal.returned), (after, cents(returned)));
    }
    for answer in [Answer::Complete, Answer::Reject, Answer::Accept] {
        services.provider.answers_next(answer);
        let charge = services.charges.get(integrator_id, charge.id).await.expect("the charge");
        let mut command = refund_command(&charge, 2_000);
        command.external_id = Some(crate::builders::name(&format!("{answer:?}")));
        services.refunds.create(command).await.expect("a refund");
    }
}

/// An integrator without movements has an empty wallet, and an empty book.
pub async fn a_wallet_without_movements_is_empty(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    services.charge(integrator_id, 10_000).await;
    assert_eq!(services.wallet(integrator_id).await, Wallet::default());
    assert_eq!(entries(&services, integrator_id, 0, 10).await, Vec::new());
    assert_eq!(services.wallet(IntegratorId(services.id())).await, Wallet::default());
}

/// Postings are numbered without gaps per integrator, with the balances after each.
pub async fn entries_have_no_gaps_and_carry_the_balances_after(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrators = [services.integrator().await, services.integrator().await];
    for integrator_id in integrators {
        a_busy_day(&services, integrator_id).await;
    }
    for integrator_id in integrators {
        let entries = entries(&services, integrator_id, 0, 1_000).await;
        assert!(entries.len() > 20, "{}", entries.len());
        let mut wallet = Wallet::default();
        for entry in &entries {
            wallet = wallet.after(&entry.posting).expect("a possible posting");
            assert_eq!(entry.integrator_id, integrator_id);
            assert_eq!(entry.number, wallet.entries);
            assert_eq!((entry.available_after, entry.held_after), (wallet.available, wallet.held));
        }
        assert_eq!(services.wallet(integrator_id).await, wallet);
    }
}

/// A book is read in pieces: those with a number above `after`, in order, up to `limit`.
pub async fn entries_are_read_in_pieces(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for _ in 0..10 {
        services.paid_charge(integrator_id, 100).await;
    }
    let whole = entries(&services, integrator_id, 0, 1_000).await;
    assert_eq!(whole.iter().map(|entry| entry.number).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    assert_eq!(entries(&services, integrator_id, 0, 4).await, whole[..4]);
    assert_eq!(entries(&services, integrator_id, 4, 4).await, whole[4..8]);
    assert_eq!(entries(&services, integrator_id, 8, 4).await, whole[8..]);
    assert_eq!(entries(&services, integrator_id, 10, 4).await, Vec::new());
}

/// An entry keeps its posting, its record and its time exactly.
pub async fn an_entry_is_kept_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let intent = services.withdrawal_intent(integrator_id, 10_000);
    let posting = intent.postings[0];
    services.apply(intent).await;
    let kept = entries(&services, integrator_id, 1, 10).await;
    let expected = Entry {
        integrator_id,
        number: 2,
        posting,
        available_after: Cents::ZERO,
        held_after: cents(10_000),
        at: services.now(),
    };
    assert_eq!(kept, [expected]);
}

/// Money law 1: debits equal credits, and cash at the provider mirrors what came in less what went out.
pub async fn money_is_conserved(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    a_busy_day(&services, integrator_id).await;
    let entries = entries(&services, integrator_id, 0, 1_000).await;
    let balances = Account::ALL.map(|account| balance(&entries, account));
    assert_eq!(balances.iter().sum::<i64>(), 0);
    // In: 1000.00 and 7.77 free, 500.00 less 0.10 and 1 %. Out: three withdrawals of 30.00 with 0.50 each, of which
    // 10.00 and 30.00 came back, and a refund of 20.00 with 0.25. Held: two withdrawals and a refund, with their fees.
    let came_in = 100_000 + 777 + 50_000;
    let fees = 510 + 3 * 50 + 25;
    let went_out = 3 * 3_000 - 1_000 - 3_000 + 2_000;
    let held = 2 * 3_050 + 2_025;
    assert_eq!(balances, [came_in - went_out - fees - held, held, went_out - came_in, fees, 0]);
    assert_eq!(services.balances(integrator_id).await, (balances[0], balances[1]));
}

/// What fits into one PIX fits into a wallet, many times over.
pub async fn the_largest_amounts_are_exact(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for _ in 0..3 {
        services.paid_charge(integrator_id, MAX_AMOUNT_CENTS).await;
    }
    services.apply(services.withdrawal_intent(integrator_id, MAX_AMOUNT_CENTS)).await;
    assert_eq!(services.balances(integrator_id).await, (2 * MAX_AMOUNT_CENTS, MAX_AMOUNT_CENTS));
}

/// A finding is kept once per record and code, oldest first, and needs no other change.
pub async fn a_finding_is_kept_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let one = services.charge(integrator_id, 100).await.resource();
    let other = services.charge(integrator_id, 100).await.resource();
    let found = |resource: ResourceRef, code, detail: &str| {
        Transition::new(integrator_id, services.now()).find(resource, code, detail.to_owned())
    };
    services.apply(found(one, "b", "first 'quoted' 🍞")).await;
    services.apply(found(other, "b", "second")).await;
    services.apply(found(one, "a", "third")).await;
    services.apply(found(one, "b", "again, in other words")).await;
    services.apply(found(other, "c", "fourth").find(other, "c", "in the same breath".into())).await;
    let findings = services.stores.books.findings(integrator_id).await.expect("findings");
    let kept: Vec<_> = findings
        .iter()
        .map(|finding| (finding.resource, finding.code.as_str(), finding.detail.as_str()))
        .collect();
    assert_eq!(
        kept,
        [
            (one, "b", "first 'quoted' 🍞"),
            (other, "b", "second"),
            (one, "a", "third"),
            (other, "c", "fourth")
        ]
    );
}

/// The whole of an integrator's books is one consistent view, whatever is being written meanwhile.
pub async fn a_book_is_one_view_while_others_write(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let writers = (0..4).map(|_| {
        let services = services.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                services
                    .withdrawals
                    .create(withdrawal_command(integrator_id, 100))
                    .await
                    .expect("a withdrawal");
            }
        })
    });
    let mut writers: Vec<_> = writers.collect();
    while !writers.is_empty() {
        let book = services.stores.books.book(integrator_id).await.expect("a book");
        assert_eq!(pix_domain::audit::check(integrator_id, &book), Vec::new());
        if writers[0].is_finished() {
            writers.remove(0).await.expect("a writer");
        }
        tokio::task::yield_now().await;
    }
    let settled = |entry: &&Entry| entry.posting.reason == Reason::WithdrawalSettle;
    assert_eq!(entries(&services, integrator_id, 0, 1_000).await.iter().filter(settled).count(), 100);
}
