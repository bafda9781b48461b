//! The console as a browser meets it, over the reference store.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::http::{Method, StatusCode, header};
use actix_web::{App, test};
use async_trait::async_trait;
use pix_conformance::builders::{name, withdrawal_command};
use pix_conformance::{Answer, Services, StoreSet};
use pix_console::{
    Acts, Console, ConsoleConfig, ConsolePorts, FAILURES_WINDOW, IDLE_LIMIT, MAX_FAILURES, Mount,
    NoRandomness, Node, OperatorToken, Operators, Random, Refusal, Totals, Watch,
};
use pix_domain::audit_log::Operator;
use pix_domain::charges::service::CreateCharge;
use pix_domain::credentials::{Integrator, IntegratorStatus};
use pix_domain::decisions::{Decided, Decision, DecisionService};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::party::Document;
use pix_domain::postbacks::delivery::EndpointId;
use pix_domain::provider::Party;
use pix_domain::text::{PersonName, PostbackUrl};
use pix_domain::time::Timestamp;
use pix_domain::withdrawals::Withdrawal;
use pix_memory::MemoryStore;

const HOST: &str = "127.0.0.1:9464";
const ORIGIN: &str = "http://127.0.0.1:9464";
const HOSTILE: &str = "<script>alert('x')</script>\"&";

/// Tokens of ana and bia.
fn token(who: &str) -> OperatorToken {
    OperatorToken::of([who.as_bytes()[0]; 32])
}

/// What is known of the node: nothing much.
struct Lookout {
    uncertain: Mutex<Vec<ResourceRef>>,
}

#[async_trait]
impl Watch for Lookout {
    async fn node(&self) -> Node {
        Node {
            version: "0",
            is_ready: true,
            is_stopping: false,
            database: Ok(()),
            workers: vec![("reconciler", true)],
            breaker: None,
            answered: Some((60, Duration::from_mins(1))),
        }
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        Ok(Totals { held_cents: 4_000, ..Totals::default() })
    }

    async fn uncertain(&self, _limit: u32) -> Result<Vec<ResourceRef>, StoreError> {
        Ok(self.uncertain.lock().unwrap().clone())
    }

    fn advice(&self, _code: &str) -> &'static str {
        "look at it"
    }
}

/// Writes down what it is asked for, and decides for real.
struct Desk {
    done: Mutex<Vec<String>>,
    decisions: DecisionService,
}

impl Desk {
    fn note(&self, operator: &Operator, what: &str) {
        self.done.lock().unwrap().push(format!("{}: {what}", operator.as_str()));
    }
}

#[async_trait]
impl Acts for Desk {
    async fn suspend(&self, operator: &Operator, _: IntegratorId, suspended: bool) -> Result<(), Refusal> {
        self.note(operator, if suspended { "suspend" } else { "resume" });
        Ok(())
    }

    async fn revoke(&self, operator: &Operator, public_id: &str) -> Result<(), Refusal> {
        self.note(operator, &format!("revoke {public_id}"));
        Ok(())
    }

    async fn enable(&self, operator: &Operator, _: IntegratorId, _: EndpointId) -> Result<(), Refusal> {
        self.note(operator, "enable");
        Err(Refusal(format!("there is no such endpoint {HOSTILE}")))
    }

    async fn replay(
        &self,
        operator: &Operator,
        _: IntegratorId,
        since: Option<Timestamp>,
    ) -> Result<u64, Refusal> {
        self.note(operator, &format!("replay {:?}", since.map(Timestamp::micros)));
        Ok(7)
    }

    async fn redeliver(&self, operator: &Operator, _: IntegratorId, event: &str) -> Result<(), Refusal> {
        self.note(operator, &format!("redeliver {event}"));
        Ok(())
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, Refusal> {
        self.decisions.decide(&decision).await.map_err(|error| Refusal(error.to_string()))
    }
}

/// Each id is another.
#[derive(Default)]
struct Counting(AtomicU8);

impl Random for Counting {
    fn bytes(&self) -> Result<[u8; 32], NoRandomness> {
        Ok([self.0.fetch_add(1, Ordering::Relaxed); 32])
    }
}

struct Bed {
    services: Services,
    lookout: Arc<Lookout>,
    desk: Arc<Desk>,
    mount: Mount,
}

/// What was answered.
struct Answered {
    status: StatusCode,
    location: String,
    cookie: String,
    policy: String,
    body: String,
}

impl Bed {
    fn new() -> Self {
        let services = Services::over(StoreSet::of(Arc::new(MemoryStore::new())), 0);
        let lookout = Arc::new(Lookout { uncertain: Mutex::default() });
        let decisions = DecisionService::new(services.ports.clone());
        let desk = Arc::new(Desk { done: Mutex::default(), decisions });
        let entries = ["ana", "bia"].map(|who| format!("{who}:{}", token(who).digest()));
        let config = ConsoleConfig {
            operators: Operators::parse(&entries.join(",")).unwrap(),
            ..ConsoleConfig::default()
        };
        let ports = ConsolePorts {
            stores: services.stores.domain.clone(),
            events: services.stores.postbacks.events.clone(),
            deliveries: services.stores.postbacks.deliveries.clone(),
            keys: services.stores.keys.clone(),
            books: services.stores.books.clone(),
            clock: services.clock.clone(),
            random: Arc::new(Counting::default()),
            watch: lookout.clone(),
            acts: desk.clone(),
        };
        let mount = Mount::default();
        mount.open(Some(Console::new(config, ports)));
        Self { services, lookout, desk, mount }
    }

    async fn call(&self, request: test::TestRequest) -> Answered {
        call(&self.mount, request).await
    }

    async fn get(&self, path: &str, cookie: &str) -> Answered {
        let request = test::TestRequest::get().uri(path).insert_header((header::HOST, HOST));
        self.call(request.insert_header((header::COOKIE, cookie))).await
    }

    async fn post(&self, path: &str, cookie: &str, fields: &[(&str, &str)]) -> Answered {
        self.call(
            form(path, fields)
                .insert_header((header::ORIGIN, ORIGIN))
                .insert_header((header::COOKIE, cookie)),
        )
        .await
    }

    /// Signs in; the cookie.
    async fn sign_in(&self, who: &str) -> String {
        let answer = self.post("/console/sign-in", "", &[("token", token(who).expose())]).await;
        assert_eq!((answer.status, answer.location.as_str()), (StatusCode::SEE_OTHER, "/console"));
        answer.cookie.split(';').next().unwrap().to_owned()
    }

    /// The token that the forms of a session have.
    async fn csrf(&self, cookie: &str) -> String {
        let page = self.get("/console/integrators", cookie).await.body;
        page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }

    /// Looks for something, as the form on each page does.
    async fn search(&self, sought: &str, cookie: &str) -> Answered {
        let csrf = self.csrf(cookie).await;
        self.post("/console/search", cookie, &[("q", sought), ("csrf", &csrf)]).await
    }

    /// A withdrawal that nobody knows about.
    async fn lost(&self) -> Withdrawal {
        let owner = self.services.funded(10_000).await;
        self.services.provider.answers_next(Answer::LostRequest);
        let made =
            self.services.withdrawals.create(withdrawal_command(owner, 4_000)).await.unwrap().into_inner();
        self.lookout.uncertain.lock().unwrap().push(made.resource());
        made
    }

    async fn integrator(&self, called: &str) -> IntegratorId {
        let id = IntegratorId(self.services.id());
        let integrator = Integrator {
            id,
            name: called.to_owned(),
            status: IntegratorStatus::Active,
            postback_scope: None,
            split_postback: None,
            created_at: self.services.now(),
        };
        self.services.stores.integrators.create(integrator).await.unwrap();
        id
    }

    fn done(&self) -> Vec<String> {
        self.desk.done.lock().unwrap().clone()
    }
}

async fn call(mount: &Mount, request: test::TestRequest) -> Answered {
    let app = test::init_service(App::new().configure(mount.clone().routes())).await;
    let answer = test::call_service(&app, request.to_request()).await;
    let field = |name| {
        answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let (location, cookie) = (field(header::LOCATION), field(header::SET_COOKIE));
    let (status, policy) = (answer.status(), field(header::CONTENT_SECURITY_POLICY));
    assert_eq!(field(header::X_FRAME_OPTIONS), "DENY");
    assert_eq!(field(header::CACHE_CONTROL), "no-store");
    assert_eq!(field(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
    assert_eq!(field(header::REFERRER_POLICY), "same-origin");
    let body = String::from_utf8(test::read_body(answer).await.to_vec()).unwrap();
    Answered { status, location, cookie, policy, body }
}

fn form(path: &str, fields: &[(&str, &str)]) -> test::TestRequest {
    test::TestRequest::post().uri(path).insert_header((header::HOST, HOST)).set_form(fields)
}

const PAGES: [&str; 8] = [
    "/console",
    "/console/search",
    "/console/uncertain",
    "/console/findings",
    "/console/postbacks",
    "/console/integrators",
    "/console/audit-log",
    "/console/nowhere",
];

#[actix_web::test]
async fn what_is_off_says_what_turns_it_on_and_what_starts_says_so() {
    let request = || test::TestRequest::get().uri("/console").insert_header((header::HOST, HOST));
    let mount = Mount::default();
    assert_eq!(call(&mount, request()).await.status, StatusCode::SERVICE_UNAVAILABLE);
    mount.open(None);
    let answer = call(&mount, request()).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.body.contains("PIX_CONSOLE_OPERATORS"), "{}", answer.body);
}

#[actix_web::test]
async fn who_is_not_signed_in_is_led_to_the_sign_in_and_does_nothing() {
    let bed = Bed::new();
    let owner = bed.integrator("Loja").await;
    for cookie in ["", "pix_console=", "pix_console=0000", "other=1"] {
        for page in PAGES {
            let answer = bed.get(page, cookie).await;
            assert_eq!(
                (answer.status, answer.location.as_str()),
                (StatusCode::SEE_OTHER, "/console/sign-in"),
                "{page}"
            );
        }
        let act = format!("/console/integrators/{owner}/suspend");
        let answer = bed.post(&act, cookie, &[("suspended", "yes"), ("csrf", "")]).await;
        assert_eq!(answer.location, "/console/sign-in");
    }
    assert_eq!(bed.done(), Vec::<String>::new());
}

#[actix_web::test]
async fn an_operator_signs_in_looks_around_and_signs_out() {
    let bed = Bed::new();
    let answer = bed.post("/console/sign-in", "", &[("token", token("ana").expose())]).await;
    for part in ["; Path=/console", "; HttpOnly", "; SameSite=Strict"] {
        assert!(answer.cookie.contains(part), "{}", answer.cookie);
    }
    let cookie = bed.sign_in("ana").await;
    for page in &PAGES[..7] {
        let answer = bed.get(page, &cookie).await;
        assert_eq!(answer.status, StatusCode::OK, "{page}");
        assert!(answer.body.contains("</ul></nav>") && answer.body.contains(">ana<form"), "{}", answer.body);
        assert!(answer.policy.starts_with("default-src 'none'; style-src 'sha256-"), "{}", answer.policy);
        assert!(!answer.body.contains("<script") && !answer.body.contains("style="), "{}", answer.body);
    }
    assert_eq!(bed.get("/console/nowhere", &cookie).await.status, StatusCode::NOT_FOUND);
    let csrf = bed.csrf(&cookie).await;
    let answer = bed.post("/console/sign-out", &cookie, &[("csrf", &csrf)]).await;
    assert!(
        answer.cookie.starts_with("pix_console=;") && answer.cookie.contains("Max-Age=0"),
        "{}",
        answer.cookie
    );
    assert_eq!(bed.get("/console", &cookie).await.location, "/console/sign-in");
}

#[actix_web::test]
async fn a_wrong_token_is_refused_and_many_of_them_close_the_door_for_a_while() {
    let bed = Bed::new();
    let nobodys = token("eva");
    for wrong in
        ["", "pixop_", nobodys.expose()].into_iter().cycle().take(usize::try_from(MAX_FAILURES).unwrap())
    {
        let answer = bed.post("/console/sign-in", "", &[("token", wrong)]).await;
        assert_eq!((answer.status, answer.cookie.as_str()), (StatusCode::FORBIDDEN, ""));
        assert!(wrong.is_empty() || wrong == "pixop_" || !answer.body.contains(wrong));
    }
    let answer = bed.post("/console/sign-in", "", &[("token", token("ana").expose())]).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    bed.services.wait(FAILURES_WINDOW);
    bed.sign_in("ana").await;
}

#[actix_web::test]
async fn who_signs_in_again_has_ended_the_session_of_before() {
    let bed = Bed::new();
    let (first, others) = (bed.sign_in("ana").await, bed.sign_in("ana").await);
    let again = bed.post("/console/sign-in", &first, &[("token", token("bia").expose())]).await;
    assert_eq!(again.status, StatusCode::SEE_OTHER);
    assert_eq!(bed.get("/console", &first).await.location, "/console/sign-in");
    assert_eq!(bed.get("/console", &others).await.status, StatusCode::OK, "of another browser");
    let wrong = bed.post("/console/sign-in", &others, &[("token", "pixop_")]).await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    assert_eq!(bed.get("/console", &others).await.status, StatusCode::OK);
}

#[actix_web::test]
async fn a_session_that_is_left_alone_ends_though_its_page_loads_itself_again() {
    let bed = Bed::new();
    let cookie = bed.sign_in("ana").await;
    assert!(bed.get("/console", &cookie).await.body.contains("url=?auto=1"));
    let half = IDLE_LIMIT / 2;
    bed.services.wait(half);
    assert_eq!(bed.get("/console?auto=1", &cookie).await.status, StatusCode::OK);
    bed.services.wait(half);
    assert_eq!(bed.get("/console?auto=1", &cookie).await.location, "/console/sign-in");
}

#[actix_web::test]
async fn a_form_of_another_session_or_site_does_nothing() {
    let bed = Bed::new();
    let owner = bed.integrator("Loja").await;
    let act = format!("/console/integrators/{owner}/suspend");
    let (ana, bia) = (bed.sign_in("ana").await, bed.sign_in("bia").await);
    let (hers, others) = (bed.csrf(&ana).await, bed.csrf(&bia).await);
    for csrf in ["", "0", &others] {
        let answer = bed.post(&act, &ana, &[("suspended", "yes"), ("csrf", csrf)]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{csrf}");
    }
    assert_eq!(bed.post(&act, &ana, &[("suspended", "yes")]).await.status, StatusCode::FORBIDDEN);
    let fields = [("suspended", "yes"), ("csrf", hers.as_str())];
    for origin in [
        None,
        Some("null"),
        Some("http://evil.example"),
        Some("http://127.0.0.1:9465"),
        Some("127.0.0.1:9464"),
    ] {
        let mut request = form(&act, &fields).insert_header((header::COOKIE, ana.as_str()));
        if let Some(origin) = origin {
            request = request.insert_header((header::ORIGIN, origin));
        }
        assert_eq!(bed.call(request).await.status, StatusCode::FORBIDDEN, "{origin:?}");
        let knock = form("/console/sign-in", &[("token", token("ana").expose())]);
        let knock = knock.insert_header((header::ORIGIN, origin.unwrap_or("null")));
        assert_eq!(bed.call(knock).await.status, StatusCode::FORBIDDEN, "{origin:?}");
    }
    let elsewhere = form(&act, &fields)
        .insert_header((header::COOKIE, ana.as_str()))
        .insert_header((header::ORIGIN, ORIGIN))
        .insert_header(("sec-fetch-site", "cross-site"));
    assert_eq!(bed.call(elsewhere).await.status, StatusCode::FORBIDDEN);
    let twice = [("suspended", "yes"), ("suspended", "no"), ("csrf", hers.as_str())];
    assert_eq!(bed.post(&act, &ana, &twice).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(bed.done(), Vec::<String>::new());
    assert_eq!(bed.post(&act, &ana, &fields).await.status, StatusCode::SEE_OTHER);
    assert_eq!(bed.done(), ["ana: suspend"]);
}

#[actix_web::test]
async fn a_name_that_others_lead_here_is_refused() {
    let bed = Bed::new();
    let cookie = bed.sign_in("ana").await;
    for host in ["evil.example", "evil.example:9464", ""] {
        let request = test::TestRequest::get().uri("/console").insert_header((header::HOST, host));
        let answer = bed.call(request.insert_header((header::COOKIE, cookie.as_str()))).await;
        assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
}

#[actix_web::test]
async fn what_others_wrote_is_text_and_people_are_masked() {
    let bed = Bed::new();
    let cookie = bed.sign_in("ana").await;
    let owner = bed.integrator(HOSTILE).await;
    let command = CreateCharge {
        external_id: Some(name(HOSTILE)),
        payer: Party {
            name: Some(PersonName::parse("Canaria <b>da</b> Silva").unwrap()),
            document: Some(Document::parse("52998224725").unwrap()),
        },
        postback_url: Some(PostbackUrl::parse("https://shop.example/<i>?token=canary").unwrap()),
        ..pix_conformance::builders::charge_command(owner)
    };
    let charge = bed.services.charges.create(command).await.unwrap().into_inner();
    bed.services.pay(&charge, bed.services.payment(10_000)).await;
    let mut pages = PAGES[..7].iter().map(|page| (*page).to_owned()).collect::<Vec<_>>();
    pages.push(format!("/console/transactions/{}", charge.id));
    pages.push(format!("/console/integrators/{owner}"));
    pages.push(format!("/console/postbacks/{owner}"));
    let mut seen = 0;
    for page in pages.iter().map(Some).chain([None]) {
        let answer = match page {
            Some(page) => bed.get(page, &cookie).await,
            None => bed.search(HOSTILE, &cookie).await,
        };
        let page = page.map_or("what was looked for", String::as_str);
        assert_eq!(answer.status, StatusCode::OK, "{page}");
        for hidden in ["<script", "<b>", "<i>", "anaria", "52998224725", "canary"] {
            assert!(!answer.body.contains(hidden), "{hidden} on {page}: {}", answer.body);
        }
        seen += answer.body.matches("&lt;script&gt;alert(&#39;x&#39;)").count();
    }
    assert!(seen > 8, "{seen}");
    let page = bed.get(&pages[7], &cookie).await.body;
    assert!(
        page.contains("C*** ") && page.contains("***.982.247-**") && page.contains("charge paid"),
        "{page}"
    );
}

#[actix_web::test]
async fn a_record_is_found_by_whatever_identifies_it_whosever_it_is() {
    let bed = Bed::new();
    let cookie = bed.sign_in("ana").await;
    bed.integrator("first").await;
    let owner = bed.integrator("second").await;
    let charge = bed.services.charge(owner, 10_000).await;
    let payment = bed.services.payment(10_000);
    let charge = bed.services.pay(&charge, payment.clone()).await;
    let id = charge.id.0;
    let provider_id = charge.ticket.as_ref().unwrap().provider_id.as_str().to_owned();
    let identifiers = [
        id.to_string(),
        id.simple().to_string(),
        charge.external_id.as_str().to_owned(),
        provider_id,
        payment.key.to_text(),
        format!("evt_c{}_2", id.simple()),
    ];
    for sought in identifiers {
        let page = bed.search(&sought, &cookie).await.body;
        assert!(
            page.contains(&format!("/console/transactions/{id}")) && page.contains("second"),
            "{sought}: {page}"
        );
    }
    for nothing in ["nothing", "evt_c_2", "00000000-0000-0000-0000-000000000000", &"x".repeat(500)] {
        let page = bed.search(nothing, &cookie).await;
        assert!(page.body.contains("Nothing has this identifier."), "{}", page.body);
    }
    // No address leads to what somebody looked for: addresses are written down in many places.
    let page = bed.get(&format!("/console/search?q={id}"), &cookie).await.body;
    assert!(!page.contains(&id.to_string()), "{page}");
}

#[actix_web::test]
async fn two_operators_decide_and_one_can_not() {
    let bed = Bed::new();
    let lost = bed.lost().await;
    let page = format!("/console/transactions/{}", lost.id);
    let act = format!("{page}/resolve");
    let (ana, bia) = (bed.sign_in("ana").await, bed.sign_in("bia").await);
    let (of_ana, of_bia) = (bed.csrf(&ana).await, bed.csrf(&bia).await);
    // The field of the form that says which proposal was shown.
    let seen = async |cookie: &str| {
        let shown = bed.get(&page, cookie).await.body;
        shown.split("name=\"seen\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let before = seen(&bia).await;
    assert_eq!(before, "");
    let decide_having_seen = async |cookie: &str, csrf: &str, reason: &str, seen: &str| {
        let fields = [("csrf", csrf), ("verdict", "failed"), ("reason", reason), ("seen", seen)];
        let answer = bed.post(&act, cookie, &fields).await;
        assert_eq!((answer.status, answer.location.as_str()), (StatusCode::SEE_OTHER, page.as_str()));
        bed.get(&page, cookie).await.body
    };
    let decide = async |cookie: &str, csrf: &str, reason: &str| {
        decide_having_seen(cookie, csrf, reason, &seen(cookie).await).await
    };
    let queue = bed.get("/console/uncertain", &ana).await.body;
    assert!(queue.contains(&lost.id.to_string()) && queue.contains("R$\u{a0}40.00"), "{queue}");
    let told = decide(&ana, &of_ana, "no").await;
    assert!(told.contains("3 to 150 characters"), "{told}");
    let told = decide(&ana, &of_ana, "the statement says so").await;
    assert!(told.contains("Proposed: it is failed.") && told.contains("You proposed it"), "{told}");
    let told = decide(&ana, &of_ana, "the statement says so").await;
    assert!(told.contains("a second operator has to confirm"), "{told}");
    assert_eq!(bed.services.withdrawal(&lost).await.state.name(), "uncertain");
    let offered = bed.get(&page, &bia).await.body;
    assert!(offered.contains("ana proposed: failed") && offered.contains(">Confirm</button>"), "{offered}");
    assert!(bed.get("/console/uncertain", &bia).await.body.contains("ana proposed: failed"));
    // She was told that a proposal moves nothing: it is none that her form could confirm.
    let told = decide_having_seen(&bia, &of_bia, "so does the bank", &before).await;
    assert!(told.contains("what is proposed has changed since you looked"), "{told}");
    assert_eq!(bed.services.withdrawal(&lost).await.state.name(), "uncertain");
    let told = decide(&bia, &of_bia, "so does the bank").await;
    assert!(
        told.contains("Decided by two operators: it is failed.") && !told.contains("Decide by hand"),
        "{told}"
    );
    assert_eq!(bed.services.withdrawal(&lost).await.state.name(), "failed");
    let log = bed.get("/console/audit-log", &bia).await.body;
    assert!(log.contains("resolve.failed_confirmed") && log.contains("the statement says so"), "{log}");
    for (verdict, seen) in [("perhaps", ""), ("failed", "x")] {
        let fields = [("csrf", of_bia.as_str()), ("verdict", verdict), ("reason", "xyz"), ("seen", seen)];
        assert_eq!(bed.post(&act, &bia, &fields).await.status, StatusCode::BAD_REQUEST);
    }
    let nothing = format!("/console/transactions/{}/resolve", bed.services.id());
    let fields = [("csrf", of_bia.as_str()), ("verdict", "failed"), ("reason", "xyz")];
    assert_eq!(bed.post(&nothing, &bia, &fields).await.status, StatusCode::NOT_FOUND);
}

#[actix_web::test]
async fn each_act_is_done_in_the_name_of_who_is_signed_in_and_told() {
    let bed = Bed::new();
    let owner = bed.integrator("Loja").await;
    let bia = bed.sign_in("bia").await;
    let csrf = bed.csrf(&bia).await;
    let postbacks = format!("/console/postbacks/{owner}");
    let integrator = format!("/console/integrators/{owner}");
    let endpoint = bed.services.id().to_string();
    let act = async |path: String, name: &str, value: &str, then: &str, says: &str| {
        let answer = bed.post(&path, &bia, &[("csrf", &csrf), (name, value)]).await;
        assert_eq!((answer.status, answer.location.as_str()), (StatusCode::SEE_OTHER, then), "{path}");
        let told = bed.get(then, &bia).await.body;
        assert!(told.contains(says), "{told}");
        assert!(!bed.get(then, &bia).await.body.contains(says), "it is said once");
    };
    act(format!("{integrator}/suspend"), "suspended", "yes", &integrator, "It is suspended.").await;
    act(format!("{integrator}/suspend"), "suspended", "no", &integrator, "It is active again.").await;
    act(format!("{postbacks}/replay"), "since", "1970-01-01T00:00:01Z", &postbacks, "7 postbacks").await;
    act(format!("{postbacks}/redeliver"), "event", "evt_c1_2", &postbacks, "evt_c1_2 is delivered").await;
    act(format!("{postbacks}/enable"), "endpoint", &endpoint, &postbacks, "no such endpoint &lt;script&gt;")
        .await;
    let expected = [
        "bia: suspend",
        "bia: resume",
        "bia: replay Some(1000000)",
        "bia: redeliver evt_c1_2",
        "bia: enable",
    ];
    assert_eq!(bed.done(), expected);
    for (path, name, value, status) in [
        (format!("{integrator}/suspend"), "suspended", "perhaps", StatusCode::BAD_REQUEST),
        (format!("{integrator}/revoke"), "key", "nobodys", StatusCode::NOT_FOUND),
        (format!("{postbacks}/replay"), "since", "yesterday", StatusCode::BAD_REQUEST),
        (format!("{postbacks}/enable"), "endpoint", "none", StatusCode::NOT_FOUND),
        (format!("/console/postbacks/{endpoint}/replay"), "since", "", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(bed.post(&path, &bia, &[("csrf", &csrf), (name, value)]).await.status, status, "{path}");
    }
    assert_eq!(bed.done().len(), expected.len());
}

#[actix_web::test]
async fn who_comes_by_another_method_is_told_which_there_are() {
    let bed = Bed::new();
    let ana = bed.sign_in("ana").await;
    let owner = bed.integrator("Loja").await;
    let asked = async |method: Method, path: &str| {
        let app = test::init_service(App::new().configure(bed.mount.clone().routes())).await;
        let request = test::TestRequest::default().method(method).uri(path);
        let request =
            request.insert_header((header::HOST, HOST)).insert_header((header::COOKIE, ana.as_str()));
        let answer = test::call_service(&app, request.to_request()).await;
        let allow = answer.headers().get(header::ALLOW).map(|allow| allow.to_str().unwrap().to_owned());
        (answer.status().as_u16(), allow.unwrap_or_default())
    };
    let suspend = format!("/console/integrators/{owner}/suspend");
    for (path, allow) in [
        ("/console", "GET, HEAD"),
        ("/console/search", "GET, HEAD, POST"),
        ("/console/audit-log", "GET, HEAD"),
        (suspend.as_str(), "POST"),
    ] {
        for method in [Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(asked(method, path).await, (405, allow.to_owned()), "{path}");
        }
        let head = if allow == "POST" { (405, allow.to_owned()) } else { (200, String::new()) };
        assert_eq!(asked(Method::HEAD, path).await, head, "{path}");
    }
    assert_eq!(asked(Method::PUT, "/console/nowhere").await.0, 404);
}

#[actix_web::test]
async fn a_page_that_loads_itself_again_has_no_field_to_type_in() {
    let bed = Bed::new();
    let ana = bed.sign_in("ana").await;
    let watched = bed.get("/console", &ana).await.body;
    assert!(watched.contains("http-equiv=\"refresh\"") && watched.contains("href=\"/console/search\""));
    assert!(!watched.contains("type=\"search\""), "{watched}");
    let paused = bed.get("/console?paused=1", &ana).await.body;
    assert!(!paused.contains("http-equiv=\"refresh\"") && paused.contains("type=\"search\""), "{paused}");
}
