//! Every statement finds its rows by key, on empty tables and on full ones: the server's own account of its plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use pix_conformance::Services;
use pix_conformance::builders::{cents, key, next, payee, report};
use pix_domain::audit::BookStore;
use pix_domain::audit_log::{Action, AuditLog, AuditLogStore, Operator};
use pix_domain::callbacks::{Callback, CallbackEnd, CallbackState, CallbackStore};
use pix_domain::charges::store::ChargeStore;
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::evidence::EvidenceStore;
use pix_domain::fees::FeeStore;
use pix_domain::follow_up::{FollowUpStore, LookupStore};
use pix_domain::ids::{self, ChargeId, IntegratorId, ResourceKind, WithdrawalId};
use pix_domain::limits::{LimitStore, Windows};
use pix_domain::list::{Cursor, ListQuery};
use pix_domain::postbacks::delivery::DeliveryStore;
use pix_domain::postbacks::events::{EventKey, EventStore};
use pix_domain::provider::Progress;
use pix_domain::refunds::store::RefundStore;
use pix_domain::seals::store::SealStore;
use pix_domain::splits::store::SplitStore;
use pix_domain::text::ExternalId;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Transition, TransitionStore};
use pix_domain::wallet::store::WalletStore;
use pix_domain::withdrawals::store::WithdrawalStore;
use pix_persistence::postgres::{PgOptions, PgStore};
use pix_pg_server::{Options, PgServer};

use super::support::{
    PATIENCE, database, giving_back, named, namesake, open, options, releasing, services, settling, sharing,
    with_parts,
};

/// How many rows each table is filled to.
const ROWS: usize = 10_000;
const TABLES: [&str; 19] = [
    "integrators",
    "wallets",
    "charges",
    "charge_follow_ups",
    "withdrawals",
    "refunds",
    "postings",
    "events",
    "receipts",
    "handles",
    "findings",
    "fee_schedules",
    "evidence",
    "twins",
    "callbacks",
    "audit_log",
    "payee_keys",
    "locked_parts",
    "splits",
];

/// What the statements that are looked at have in them.
const OURS: [&str; 22] = [
    "Query Text: WITH",
    "Query Text: WITH paid AS (UPDATE charges AS t SET",
    "FROM (VALUES ($1,",
    "FROM (SELECT unnest($1),",
    "Query Text: SELECT found.* FROM unnest((SELECT $1), (SELECT $2)) AS wanted(integrator_id, id), LATERAL (SELECT \"charges\"",
    "Query Text: SELECT found.* FROM unnest((SELECT $1), (SELECT $2)) AS wanted(integrator_id, id), LATERAL (SELECT \"withdrawals\"",
    "FOR KEY SHARE",
    "\"external_id\" = $2",
    "\"provider_id\" = $2",
    "\"end_to_end_id\" = $2",
    "\"return_id\" = $2",
    "substr(id::text, 15) = wanted.reference",
    "FROM handles WHERE handles.integrator_id = wanted",
    "FROM twins WHERE twins.integrator_id = wanted",
    "FROM wallets WHERE wallets.integrator_id = wanted",
    "FROM charges WHERE charges.integrator_id = wanted",
    "FROM withdrawals WHERE withdrawals.integrator_id = wanted",
    "FROM \"receipts\"",
    "callbacks",
    "audit_log",
    "follow_up_attempts",
    "follow_up_at IS NOT NULL",
];

/// Every shape of a transition, of one owner with money: alone, then all that go together.
async fn every_shape(store: &Arc<PgStore>, services: &Services, owner: IntegratorId) {
    for together in [false, true] {
        let mut steps: [Vec<Transition>; 5] = Default::default();
        for _ in 0..if together { 3 } else { 1 } {
            let opening = services.charge_intent(owner).answering(Some(key(&services.id().to_string())));
            let charge = opening.charge().unwrap().clone();
            let paying = services.credit_intent(&charge, services.payment(10_000));
            let paid = paying.charge().unwrap().clone();
            let holding = [services.withdrawal_intent(owner, 10), services.withdrawal_intent(owner, 10)];
            let [first, second] = holding.clone().map(|holding| holding.withdrawal().unwrap().clone());
            let refunding = services.refund_intent(&paid, 10);
            let refund = refunding.refund().unwrap().clone();
            let done = report(refund.id.0, Progress::Completed);
            let of_refund = refunding.charge().unwrap().clone();
            let finding = Transition::new(owner, services.now()).find(paid.resource(), "odd", "odd".into());
            let back = services.paid_charge(owner, 1_000).await;
            let recipients = [services.integrator().await, services.integrator().await];
            let shared = sharing(services, owner, &recipients);
            let of_shared = shared.charge().unwrap().clone();
            let giving = with_parts(services.credit_intent(&of_shared, services.payment(10_000)), None);
            let after = giving.charge().unwrap().clone();
            let sending = services.refund_intent(&after, 1_000);
            let taking = giving_back(services, &sending, &giving);
            steps[0].extend([opening, next(back.take_back(cents(400), services.now())), shared]);
            steps[1].extend([paying, holding[0].clone(), holding[1].clone(), namesake(services, &charge)]);
            steps[1].push(giving);
            steps[2].extend([settling(services, &first), releasing(services, &second), refunding, sending]);
            steps[3].push(taking);
            steps[3].extend([next(refund.complete(of_refund, done, services.now())), finding]);
            // Payments and nothing else.
            let charge = services.charge(owner, 10_000).await;
            steps[4].push(services.credit_intent(&charge, services.payment(10_000)));
        }
        let mut answers = Vec::new();
        for step in steps {
            if together {
                answers.extend(store.apply_all(step).await);
            } else {
                for transition in step {
                    answers.push(store.apply(transition).await);
                }
            }
        }
        // The namesakes.
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(refused, if together { 3 } else { 1 }, "{answers:?}");
    }
}

/// Every statement of the workers and of the journal, and lookups.
async fn every_errand(store: &Arc<PgStore>, services: &Services, owner: IntegratorId) {
    services.apply(services.withdrawal_intent(owner, 10)).await;
    let late = Timestamp::from_micros(i64::MAX / 2);
    for follow_up in FollowUpStore::claim(&**store, late, PATIENCE, 5).await.unwrap() {
        store.postpone(follow_up, Some(late)).await.unwrap();
    }
    assert!(!store.open_movements().await.unwrap().is_empty());
    let call = |body: &str| Callback {
        id: services.id(),
        received_at: services.now(),
        reference: Some(services.id()),
        body: body.to_owned(),
    };
    let waiting = CallbackState::Waiting(services.now());
    let ended = CallbackState::Ended(CallbackEnd::Unreadable);
    let (first, last) = (call(&services.id().to_string()), call("last"));
    assert!(store.keep(first.clone(), waiting).await.unwrap());
    assert!(!store.keep(Callback { id: services.id(), ..first.clone() }, waiting).await.unwrap());
    assert!(store.keep(last, ended).await.unwrap());
    for claimed in CallbackStore::claim(&**store, late, PATIENCE, 5).await.unwrap() {
        store.put(&claimed, CallbackState::Ended(CallbackEnd::Learnt)).await.unwrap();
    }
    store.look_up(first.id).await.unwrap();
    assert!(CallbackStore::forget(&**store, late, 1).await.unwrap() > 0);
    let waits = call(&services.id().to_string());
    assert!(store.keep(waits, waiting).await.unwrap());
    assert!(store.keep(call("ended"), ended).await.unwrap());

    let id = services.id();
    assert_eq!(ChargeStore::find(&**store, owner, ChargeId(id)).await.unwrap(), None);
    assert_eq!(WithdrawalStore::find(&**store, owner, WithdrawalId(id)).await.unwrap(), None);
    assert!(store.wallet(owner).await.unwrap().entries > 0);

    let journal = AuditLog::new(store.clone(), services.clock.clone());
    let operator = Operator::parse("Ana").unwrap();
    journal.record(&operator, Action::FeesSet, "loja", "why").await.unwrap();
    assert!(!AuditLogStore::list(&**store, 0, 5).await.unwrap().is_empty());
    assert!(!store.about("loja", 5).await.unwrap().is_empty());
}

/// Every lookup by a name: ours, the provider's, and the end-to-end id.
async fn by_names(store: &Arc<PgStore>, services: &Services, owner: IntegratorId) {
    let name = ExternalId::parse("nobody's").unwrap();
    assert_eq!(ChargeStore::find_by_external_id(&**store, owner, &name).await.unwrap(), None);
    assert_eq!(WithdrawalStore::find_by_external_id(&**store, owner, &name).await.unwrap(), None);
    assert_eq!(RefundStore::find_by_external_id(&**store, owner, &name).await.unwrap(), None);
    for pix_id in ["nobody's", "E12345678202611211200000abcdefgh"] {
        assert_eq!(ChargeStore::find_by_pix_id(&**store, owner, pix_id).await.unwrap(), None);
        assert_eq!(WithdrawalStore::find_by_pix_id(&**store, owner, pix_id).await.unwrap(), None);
        assert_eq!(RefundStore::find_by_pix_id(&**store, owner, pix_id).await.unwrap(), None);
    }
    let id = services.id();
    assert_eq!(store.receipts(owner, ChargeId(id)).await.unwrap(), []);
    assert_eq!(store.list_of_charge(owner, ChargeId(id)).await.unwrap(), []);
    let handle = key(&id.to_string());
    assert_eq!(store.find_handle(owner, ResourceKind::Withdrawal, &handle).await.unwrap(), None);
    assert!(store.find_twins(owner, id).await.unwrap().is_empty());
    assert_eq!(store.locate(id).await.unwrap(), None);
    let reference = ids::timeless(ids::bound(id, id)).unwrap();
    assert_eq!(store.locate(reference).await.unwrap(), None);
}

/// What is read to answer, and by the workers beside what is claimed.
async fn every_read(store: &Arc<PgStore>, services: &Services, owner: IntegratorId) {
    let query = ListQuery { limit: 5, ..ListQuery::default() };
    let older = ListQuery { cursor: Some(Cursor::OlderThan(services.id())), ..query.clone() };
    let newer = ListQuery { cursor: Some(Cursor::NewerThan(services.id())), ..query.clone() };
    let narrow = ListQuery {
        states: vec!["paid", "pending"],
        external_id: Some(ExternalId::parse("nobody's").unwrap()),
        created_from: Some(services.now()),
        created_to: Some(services.now()),
        least_id: Some(services.id()),
        end_id: Some(services.id()),
        ..query.clone()
    };
    for query in [query, older, newer, narrow] {
        ChargeStore::list(&**store, owner, &query).await.unwrap();
        WithdrawalStore::list(&**store, owner, &query).await.unwrap();
        SplitStore::list(&**store, owner, &query).await.unwrap();
    }
    store.wallet(owner).await.unwrap();
    store.book(owner).await.unwrap();
    let policy = store.policy(owner).await.unwrap();
    let windows = Windows::at(services.now()).narrowed_to(&policy);
    store.sent(owner, &windows).await.unwrap();
    store.sent_to(owner, &windows, &payee().key).await.unwrap();
    store.current(owner).await.unwrap();
    store.version(owner, 0).await.unwrap();
    IntegratorStore::find(&**store, owner).await.unwrap();
    ApiKeyStore::find(&**store, "nobody's").await.unwrap();
    let charge = services.charge(owner, 100).await;
    EvidenceStore::list(&**store, charge.resource()).await.unwrap();
    store.heads(None, 5).await.unwrap();
    store.unsealed(owner, 5).await.unwrap();
    store.backlog().await.unwrap();
    store.endpoints(owner).await.unwrap();
    let paying = services.credit_intent(&charge, services.payment(100));
    let key = EventKey { resource: charge.resource(), sequence: paying.charge().unwrap().version };
    services.apply(paying).await;
    store.event(key).await.unwrap();
    store.load(vec![key]).await.unwrap();
    store.attempts(key).await.unwrap();
}

/// Fills the tables with copies of one row each.
fn fill(server: &PgServer, database: &str) {
    let copy = |table: &str, changes: &str, order: &str| {
        format!(
            "INSERT INTO {table} SELECT (jsonb_populate_record(NULL::{table}, \
             to_jsonb(r) || jsonb_build_object({changes}))).* FROM (SELECT * FROM {table} ORDER BY {order} LIMIT 1) r, generate_series(1, {ROWS}) n;"
        )
    };
    let script = [
        "SET auto_explain.log_min_duration = -1;".to_owned(),
        copy("integrators", "'id', gen_random_uuid()", "id"),
        "INSERT INTO wallets SELECT id, 0, 0, 0, 0 FROM integrators ON CONFLICT DO NOTHING;".to_owned(),
        copy("charges", "'id', gen_random_uuid(), 'external_id', 'x' || n, 'provider_id', 'p' || n", "id"),
        copy("charge_follow_ups", "'id', gen_random_uuid()", "id"),
        copy(
            "withdrawals",
            "'id', gen_random_uuid(), 'external_id', 'x' || n, 'provider_id', 'p' || n, 'end_to_end_id', 'e' || n",
            "id",
        ),
        copy(
            "withdrawals",
            "'id', gen_random_uuid(), 'external_id', 'open' || n, 'provider_id', NULL, 'end_to_end_id', NULL",
            "follow_up_at",
        ),
        copy(
            "refunds",
            "'id', gen_random_uuid(), 'external_id', 'x' || n, 'provider_id', 'p' || n, 'return_id', 'r' || n",
            "id",
        ),
        copy("postings", "'entry', n + 1000000", "entry"),
        copy("events", "'resource_id', gen_random_uuid()", "sequence"),
        copy("receipts", "'receipt_key', 'x' || n, 'number', n + 1000", "number"),
        copy("splits", "'id', gen_random_uuid(), 'charge_id', gen_random_uuid()", "id"),
        copy("handles", "'key', 'x' || n", "key"),
        copy("findings", "'number', n + 1000, 'resource_id', gen_random_uuid()", "number"),
        copy("evidence", "'id', gen_random_uuid()", "id"),
        "INSERT INTO twins SELECT integrator_id, id, id, '', 0 FROM withdrawals;".to_owned(),
        copy("callbacks", "'id', gen_random_uuid(), 'digest', gen_random_uuid()", "due_at"),
        copy("callbacks", "'id', gen_random_uuid()", "due_at NULLS FIRST"),
        copy("audit_log", "'number', n + 1000, 'subject', 'x' || n", "number"),
        "ANALYZE;".to_owned(),
    ];
    server.psql(database, &script.concat()).unwrap();
}

/// Tables whose key is the integrator.
const OF_ONE_ROW: [&str; 2] = ["integrators", "wallets"];

/// What is wrong with the plans in a log: scans of whole tables and of whole indexes, and all rows of an integrator of which
/// some are taken.
fn whole_scans(log: &str) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    for (place, line) in lines.iter().enumerate() {
        let scan = line.trim_start_matches("->").trim_start();
        let on_table = TABLES
            .iter()
            .any(|table| scan.contains(&format!(" on {table} ")) || scan.contains(&format!(" on {table}_")));
        if !on_table || !scan.contains("Scan") || scan.starts_with("CTE Scan") {
            continue;
        }
        // Those are told with their condition one or two lines below.
        let told = lines.get(place..lines.len().min(place + 3)).unwrap_or_default();
        let condition = told.iter().find(|line| line.starts_with("Index Cond:"));
        let of_owner = condition.is_some_and(|condition| {
            condition.matches(" = ").count() == 1 && condition.contains("integrator_id = ")
        });
        let is_one = OF_ONE_ROW.iter().any(|table| scan.contains(&format!(" on {table}")));
        let filtered = told.iter().any(|line| line.starts_with("Filter:"));
        let by_key = scan.contains("Index") && condition.is_some() && !(of_owner && filtered && !is_one);
        // The first rows in the order of an index.
        let limited = place
            .checked_sub(1)
            .and_then(|above| lines.get(above))
            .is_some_and(|line| line.contains("Limit"));
        let first = scan.contains("Index") && limited && !filtered;
        // What is due is an index of its own: all of it is asked for.
        let due = ["on withdrawals_due ", "using withdrawals_due ", "on refunds_due ", "using refunds_due "];
        let due = scan.contains("Index Scan") && due.iter().any(|index| scan.contains(index));
        if !by_key && !first && !due && !scan.starts_with("Bitmap Heap Scan") {
            wrong.insert((*scan).to_owned());
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_statement_finds_its_rows_by_key() {
    let explained = Options::default()
        .with("session_preload_libraries", "auto_explain")
        .with("auto_explain.log_min_duration", "0")
        .with("auto_explain.log_nested_statements", "on");
    let server = PgServer::start(explained).unwrap();
    let database = database(&server).await;
    let mut seen = server.log().len();
    let mut owners = Vec::new();
    for filled in [false, true] {
        if filled {
            fill(&server, &database);
            // The rows have to be such as the schema wants; their sums needn't be.
            assert_eq!(server.psql(&database, "SELECT count(*) > 9999 FROM postings").unwrap(), "t");
            seen = server.log().len();
        }
        // A plan is made when a connection first runs a statement.
        let store = open(&server.url(&database), options()).await;
        let services = services(&store, u64::from(filled));
        let owner = services.funded(100_000).await;
        let from = if filled { server.log().len() } else { seen };
        every_shape(&store, &services, owner).await;
        every_errand(&store, &services, owner).await;
        // On full tables they are the first one's: of an owner with few, all may well be read.
        owners.push(owner);
        by_names(&store, &services, owners[0]).await;
        services.apply(named(&services, owner, "last")).await;
        let log = server.log();
        let log = log.get(from..).unwrap();
        let plans = log.matches("Query Text: WITH in_").count();
        assert!(plans > 12, "{plans} plans");
        let ours: String =
            log.split("LOG:  duration").filter(|plan| OURS.iter().any(|part| plan.contains(part))).collect();
        for part in OURS {
            assert!(ours.contains(part), "{part}");
        }
        println!("{plans} plans looked at on {} tables", if filled { "full" } else { "empty" });
        let by_key = ours.matches("Index Cond:").count();
        assert!(by_key > 50, "{by_key} scans by key");
        assert_eq!(whole_scans(&ours), BTreeSet::new());
        assert_eq!(kept_apart(&ours), BTreeSet::new());
    }
}

/// What a plan of ours keeps apart before it is read, though it is read once: the columns of arrays, and rows.
fn kept_apart(log: &str) -> BTreeSet<&str> {
    let statements = log.split("Query Text: ").filter(|plan| plan.starts_with("WITH"));
    let of_one = statements.flat_map(|plan| plan.lines().skip(1)).map(str::trim);
    let once = ["owners", "wallets", "postings", "events", "told", "deliveries", "findings", "evidence"];
    let kept = |line: &&str| {
        let name = line.strip_prefix("CTE in_");
        line.contains("Function Scan on unnest") || name.is_some_and(|name| once.contains(&name))
    };
    of_one.filter(kept).collect()
}

/// Preparing costs a way to the server and back more, and a plan: as much as many a statement itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_asked_again_is_not_prepared_again() {
    let server = PgServer::start(Options::default().with("log_min_duration_statement", "0")).unwrap();
    let database = database(&server).await;
    let one = PgOptions { money_connections: 1, read_connections: 1, worker_connections: 1, ..options() };
    let store = open(&server.url(&database), one).await;
    let services = services(&store, 0);
    for again in [false, true] {
        let from = server.log().len();
        let owner = services.funded(100_000).await;
        every_shape(&store, &services, owner).await;
        every_errand(&store, &services, owner).await;
        by_names(&store, &services, owner).await;
        every_read(&store, &services, owner).await;
        let log = server.log();
        let prepared = log.get(from..).unwrap().lines().filter_map(|line| line.split_once(" ms  parse "));
        let prepared: Vec<&str> = prepared.map(|(_, statement)| statement).collect();
        if again {
            assert_eq!(prepared, Vec::<&str>::new());
        } else {
            assert!(prepared.len() > 50, "{} statements", prepared.len());
        }
    }
}

/// One way to the server and back: no statement before it or after it, and no transaction that has to be opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transition_is_one_statement() {
    let server = PgServer::start(Options::default().with("log_min_duration_statement", "0")).unwrap();
    let database = database(&server).await;
    let one = PgOptions { money_connections: 1, ..options() };
    let store = open(&server.url(&database), one).await;
    let services = services(&store, 0);
    let owner = services.funded(100_000).await;
    let recipients = [services.integrator().await, services.integrator().await];
    let opening = services.charge_intent(owner);
    let paying = services.credit_intent(opening.charge().unwrap(), services.payment(10_000));
    let refunding = services.refund_intent(paying.charge().unwrap(), 10);
    let shared = sharing(&services, owner, &recipients);
    let giving = with_parts(services.credit_intent(shared.charge().unwrap(), services.payment(10_000)), None);
    let holding = services.withdrawal_intent(owner, 10);
    let releasing = releasing(&services, holding.withdrawal().unwrap());
    for transition in [opening, paying, refunding, shared, giving, holding, releasing] {
        let from = server.log().len();
        store.apply(transition).await.unwrap();
        let log = server.log();
        let log = log.get(from..).unwrap();
        assert_eq!(log.matches(" ms  execute ").count(), 1, "{log}");
        assert_eq!(log.matches(" ms  statement: ").count(), 0, "{log}");
        assert!(!log.contains("BEGIN"), "{log}");
    }
}

#[test]
fn what_is_kept_apart_is_seen() {
    let plan = "Query Text: WITH in_told(ord) AS MATERIALIZED\n\t  CTE in_told\n\t    ->  Function Scan on unnest  (cost=0)\n";
    assert_eq!(kept_apart(plan), ["CTE in_told", "->  Function Scan on unnest  (cost=0)"].into());
    // Read more than once; and a statement that looks something up.
    assert_eq!(kept_apart("Query Text: WITH in_money(ord)\n\t  CTE in_money\n"), BTreeSet::new());
    assert_eq!(kept_apart("Query Text: SELECT\n\t  ->  Function Scan on unnest wanted\n"), BTreeSet::new());
}

#[test]
fn a_scan_of_a_whole_table_is_seen() {
    let plan = "\t  ->  Seq Scan on charges t  (cost=0.00..1.01 rows=1 width=1)\n\t  Filter: (id = 1)\n";
    assert_eq!(whole_scans(plan).len(), 1);
    let plan =
        "\t  ->  Index Scan using charges_pkey on charges t  (cost=0.00..1.01)\n\t  Filter: (id = 1)\n";
    assert_eq!(whole_scans(plan).len(), 1);
    let plan =
        "\t  ->  Index Scan using charges_pkey on charges t  (cost=0)\n\t        Index Cond: (id = 1)\n";
    assert_eq!(whole_scans(plan).len(), 0);
    let plan = "\t  ->  Index Scan using refunds_by_charge on refunds t  (cost=0)\n\t        \
                Index Cond: (integrator_id = n.integrator_id)\n\t        Filter: (external_id = n.external_id)\n";
    assert_eq!(whole_scans(plan).len(), 1);
    let plan = plan.replace("n.integrator_id)\n", "n.integrator_id) AND (id = n.id))\n");
    assert_eq!(whole_scans(&plan).len(), 0);
    let plan = "Limit  (cost=0)\n\t  ->  Index Scan Backward using audit_log_pkey on audit_log  (cost=0)\n";
    assert_eq!(whole_scans(plan).len(), 0);
    let plan = format!("{plan}\t        Filter: (detail = 'x')\n");
    assert_eq!(whole_scans(&plan).len(), 1);
}
