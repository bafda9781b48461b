//! A gateway on a free port, and a client that speaks plain HTTP/1.1, so that tests see every byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pix_conformance::{FakeProvider, Services, StoreSet, builders};
use pix_domain::callbacks::CallbackService;
use pix_domain::charges::service::ChargeService;
use pix_domain::charges::store::ChargeStore;
use pix_domain::charges::{Charge, Receipt};
use pix_domain::credentials::service::Authenticator;
use pix_domain::credentials::{
    AccessTokens, ApiKey, Claims, HashError, IntegratorStatus, KeyChange, PlainSecret, SecretHash,
    SecretHasher, TokenError,
};
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId};
use pix_domain::list::ListQuery;
use pix_domain::postbacks::relay::{PostbackPorts, Prepared, Relay};
use pix_domain::postbacks::secrets::{PostbackSecrets, SecretMaker};
use pix_domain::postbacks::send::{Parcel, PostbackSecret, PostbackSender, PostbackUrls, Reply, UrlRefusal};
use pix_domain::postbacks::service::PostbackService;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, PaymentOrder, ProviderError, RefundOrder, Removal,
    SettlementProvider, Ticket,
};
use pix_domain::refunds::service::RefundService;
use pix_domain::splits::service::SplitService;
use pix_domain::text::{ExternalId, PostbackUrl};
use pix_domain::time::Timestamp;
use pix_domain::transactions::TransactionService;
use pix_domain::wallet::statement::StatementService;
use pix_domain::withdrawals::service::WithdrawalService;
use pix_http::{HttpConfig, Stopping};
use pix_memory::MemoryStore;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::document;

pub const CALLBACK_SECRET: &str = "an-unguessable-segment";
pub const BASE: &str = "https://pix.example";

/// How long a test waits for an answer before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// The provider of the suite, and a gate before payments that a test can close.
#[derive(Default)]
pub struct GatedProvider {
    pub fake: Arc<FakeProvider>,
    pub gate: Option<Gate>,
}

/// Counts who has come to it, and lets through as many as it is told.
pub struct Gate {
    pub reached: Semaphore,
    pub open: Semaphore,
}

#[async_trait]
impl SettlementProvider for GatedProvider {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        self.fake.create_charge(order).await
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        if let Some(gate) = &self.gate {
            gate.reached.add_permits(1);
            gate.open.acquire().await.unwrap().forget();
        }
        self.fake.send_payment(order).await
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        self.fake.refund(order).await
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        self.fake.consult_charge(inquiry).await
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.fake.consult_payment(inquiry).await
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.fake.consult_refund(inquiry).await
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        self.fake.remove_charge(inquiry).await
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        self.fake.balance().await
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        self.fake.not_found_is_proof_after()
    }
}

/// Counts how often one charge is read.
struct CountedCharges {
    inner: Arc<dyn ChargeStore>,
    finds: Arc<AtomicUsize>,
}

#[async_trait]
impl ChargeStore for CountedCharges {
    async fn find(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Option<Charge>, StoreError> {
        self.finds.fetch_add(1, Ordering::Relaxed);
        self.inner.find(integrator_id, id).await
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Charge>, StoreError> {
        self.inner.find_by_external_id(integrator_id, external_id).await
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Charge>, StoreError> {
        self.inner.find_by_pix_id(integrator_id, pix_id).await
    }

    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Charge>, StoreError> {
        self.inner.list(integrator_id, query).await
    }

    async fn receipts(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Vec<Receipt>, StoreError> {
        self.inner.receipts(integrator_id, id).await
    }
}

/// Secrets "hashed" by a word before them.
struct PlainHasher;

/// The secret `slow` is hashed when there is a permit.
pub static SLOW_HASHES: Semaphore = Semaphore::const_new(0);

#[async_trait]
impl SecretHasher for PlainHasher {
    fn generate(&self) -> PlainSecret {
        PlainSecret("generated".into())
    }

    fn generate_public_id(&self) -> String {
        "generated".into()
    }

    fn is_malformed(&self, secret: &PlainSecret) -> bool {
        secret.0.starts_with("malformed")
    }

    async fn hash(&self, secret: PlainSecret, _beside: Option<SecretHash>) -> Result<SecretHash, HashError> {
        Ok(SecretHash(format!("hash:{}", secret.0)))
    }

    async fn verify(&self, secret: PlainSecret, hashes: Vec<SecretHash>) -> Result<Option<usize>, HashError> {
        if secret.0 == "overload" {
            return Err(HashError::Overloaded);
        }
        assert!(secret.0 != "panic", "told to panic");
        if secret.0 == "slow" {
            SLOW_HASHES.acquire().await.expect("it is never closed").forget();
        }
        Ok(hashes.iter().position(|hash| hash.0 == format!("hash:{}", secret.0)))
    }
}

/// Tokens that say what they are.
struct PlainTokens;

impl AccessTokens for PlainTokens {
    fn issue(&self, claims: &Claims) -> Result<String, HashError> {
        let (id, expires) = (claims.integrator_id, claims.expires_at.micros());
        Ok(format!("plain.{id}.{}.{}.{expires}", claims.key_public_id, claims.secret_number))
    }

    fn open(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError> {
        let parts: Vec<&str> = token.split('.').collect();
        let ["plain", id, key, secret, expires] = parts[..] else { return Err(TokenError::Invalid) };
        let expires_at =
            Timestamp::from_micros(expires.parse().map_err(|_not_a_number| TokenError::Invalid)?);
        if expires_at <= now {
            return Err(TokenError::Expired);
        }
        let integrator_id = IntegratorId(Uuid::try_parse(id).map_err(|_not_a_uuid| TokenError::Invalid)?);
        let secret_number = secret.parse().map_err(|_not_a_number| TokenError::Invalid)?;
        Ok(Claims { integrator_id, key_public_id: key.into(), secret_number, issued_at: now, expires_at })
    }
}

/// Secrets that say whose they are.
struct PlainSecrets;

impl SecretMaker for PlainSecrets {
    fn current_key(&self) -> String {
        "first".into()
    }

    fn secret(&self, key_id: &str, integrator_id: IntegratorId, number: u32) -> Option<PostbackSecret> {
        (key_id == "first").then(|| PostbackSecret::new(format!("whsec_{integrator_id}_{number}")))
    }
}

/// Lets every URL pass but those of one private host.
struct PublicUrls;

impl PostbackUrls for PublicUrls {
    fn check(&self, url: &PostbackUrl) -> Result<(), UrlRefusal> {
        if url.origin().ends_with("//10.0.0.1") {
            let message = "postbacks go to public addresses only".to_owned();
            return Err(UrlRefusal { code: "address_not_public", message });
        }
        Ok(())
    }
}

/// A receiver that answers as told, and keeps what it gets.
#[derive(Default)]
pub struct FakeReceiver {
    pub parcels: Mutex<Vec<Parcel>>,
    /// What it answers from now on; 200 with an empty body until somebody says otherwise.
    pub reply: Mutex<Option<Reply>>,
    /// While it is true, nothing is answered.
    pub stalls: tokio::sync::watch::Sender<bool>,
}

impl FakeReceiver {
    pub fn answers(&self, status: u16, excerpt: &str) {
        let excerpt = excerpt.to_owned();
        *self.reply.lock().unwrap() = Some(Reply::Answered { status, retry_after: None, excerpt });
    }

    pub fn fails(&self, code: &'static str) {
        *self.reply.lock().unwrap() = Some(Reply::Failed(code));
    }

    /// What came since this was asked before, as names of events and bodies.
    pub fn received(&self) -> Vec<(String, Value)> {
        let parcels = std::mem::take(&mut *self.parcels.lock().unwrap());
        let opened = |parcel: Parcel| (parcel.event, serde_json::from_str(&parcel.body).unwrap());
        parcels.into_iter().map(opened).collect()
    }
}

#[async_trait]
impl PostbackSender for FakeReceiver {
    async fn send(&self, parcel: Parcel) -> Reply {
        self.parcels.lock().unwrap().push(parcel);
        self.stalls.subscribe().wait_for(|stalls| !stalls).await.unwrap();
        let reply = self.reply.lock().unwrap().clone();
        reply.unwrap_or(Reply::Answered { status: 200, retry_after: None, excerpt: String::new() })
    }
}

/// A running gateway.
pub struct Gateway {
    pub address: SocketAddr,
    pub provider: Arc<GatedProvider>,
    pub services: Services,
    pub receiver: Arc<FakeReceiver>,
    /// How often one charge was read.
    pub charges_read: Arc<AtomicUsize>,
    stopping: Stopping,
    relay: Relay,
    handle: actix_web::dev::ServerHandle,
}

/// An integrator with a token.
#[derive(Clone)]
pub struct Tenant {
    pub id: IntegratorId,
    pub public_id: String,
    pub token: String,
}

impl Gateway {
    pub async fn start() -> Self {
        Self::with(|_config| {}, None).await
    }

    pub async fn with(change: impl FnOnce(&mut HttpConfig), gate: Option<Gate>) -> Self {
        let stores = StoreSet::of(Arc::new(MemoryStore::new()));
        let mut services = Services::over(stores, 7);
        let provider = Arc::new(GatedProvider { fake: services.provider.clone(), gate });
        services.ports.provider = provider.clone();
        let charges_read = Arc::new(AtomicUsize::new(0));
        let (inner, finds) = (services.ports.stores.charges.clone(), charges_read.clone());
        services.ports.stores.charges = Arc::new(CountedCharges { inner, finds });
        let mut config = HttpConfig::new(BASE, CALLBACK_SECRET);
        config.workers = Some(1);
        change(&mut config);
        let ports = services.ports.clone();
        let receiver = Arc::new(FakeReceiver::default());
        let stores = services.stores.postbacks.clone();
        let postbacks = PostbackPorts {
            secrets: PostbackSecrets::new(
                stores.secrets.clone(),
                Arc::new(PlainSecrets),
                ports.clock.clone(),
            ),
            stores,
            sender: receiver.clone(),
            urls: Arc::new(PublicUrls),
            bodies: Arc::new(pix_http::Bodies),
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
        };
        let behind = pix_http::Services {
            authenticator: Authenticator::new(
                services.stores.keys.clone(),
                services.stores.integrators.clone(),
                Arc::new(PlainHasher),
                Arc::new(PlainTokens),
                services.clock.clone(),
                Duration::from_hours(1),
            ),
            charges: ChargeService::new(ports.clone()),
            withdrawals: WithdrawalService::new(ports.clone()),
            refunds: RefundService::new(ports.clone()),
            splits: SplitService::new(ports.clone()),
            transactions: TransactionService::new(ports.clone()),
            callbacks: CallbackService::new(ports.clone()),
            postbacks: PostbackService::new(postbacks.clone()),
            integrators: ports.stores.integrators.clone(),
            wallets: ports.stores.wallets.clone(),
            statement: StatementService::new(ports.clone()),
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
            runtime: tokio::runtime::Handle::current(),
        };
        let stopping = config.stopping.clone();
        let listener = pix_http::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Box::pin(pix_http::serve(config, listener, behind)).await.unwrap();
        let handle = server.handle();
        tokio::spawn(server);
        let relay = Relay::new(postbacks);
        Self { address, provider, services, receiver, charges_read, stopping, relay, handle }
    }

    /// A new integrator with that much money, and a token.
    pub async fn tenant(&self, funds_cents: i64) -> Tenant {
        let id = if funds_cents == 0 {
            self.services.integrator().await
        } else {
            self.services.funded(funds_cents).await
        };
        let public_id = format!("key-{}", id.0.simple());
        let hash = SecretHash("hash:secret".into());
        let key = ApiKey::new(&public_id, id, hash, self.services.now());
        self.services.stores.keys.create(key).await.unwrap();
        let token = self.token(id, &public_id, Duration::from_hours(1));
        Tenant { id, public_id, token }
    }

    pub fn token(&self, id: IntegratorId, public_id: &str, ttl: Duration) -> String {
        format!("plain.{id}.{public_id}.1.{}", self.services.now().plus(ttl).micros())
    }

    /// The token of nobody in particular: an integrator with a lot of money.
    pub async fn rich(&self) -> Tenant {
        self.tenant(10_000_000).await
    }

    /// Changes what a tenant's key is good for.
    pub async fn change(&self, tenant: &Tenant, change: KeyChange) {
        assert!(self.services.stores.keys.change(&tenant.public_id, change).await.unwrap());
    }

    pub async fn suspend(&self, tenant: &Tenant) {
        let suspended = IntegratorStatus::Suspended;
        assert!(self.services.stores.integrators.set_status(tenant.id, suspended).await.unwrap());
    }

    /// A PIX comes in for the charge with that public id.
    pub async fn pay(&self, tenant: &Tenant, uuid: &str, cents: i64) -> Charge {
        let id = ChargeId(Uuid::try_parse(uuid).unwrap());
        let charge = self.services.charges.get(tenant.id, id).await.unwrap();
        self.services.pay(&charge, builders::payment(self.services.id(), cents, self.services.now())).await
    }

    /// Delivers what is due until nothing is; how many attempts that took.
    pub async fn deliver(&self) -> usize {
        let mut attempts = 0;
        loop {
            let taken = self.relay.take(None, 100, 100, Vec::new()).await.unwrap().deliveries;
            if taken.is_empty() {
                return attempts;
            }
            let (prepared, unsigned) = self.relay.prepare(taken).await.unwrap();
            assert_eq!(unsigned, None);
            for one in prepared {
                let report = match one {
                    Prepared::Tell(report) => *report,
                    Prepared::Send(ready) => {
                        attempts += 1;
                        self.relay.attempt(*ready).await.expect("a fresh lease")
                    }
                };
                assert_eq!(self.relay.tell(vec![report]).await.unwrap(), 1);
            }
        }
    }

    /// Sends a request and reads the answer to its end.
    pub async fn send(&self, request: Request<'_>) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&request.bytes()).await.unwrap();
        let mut bytes = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
        let answer = Answer::parse(&bytes);
        document::holds(request.method, request.path, &answer);
        answer
    }

    pub async fn post(&self, tenant: &Tenant, path: &str, body: &Value) -> Answer {
        self.send(Request::post(path, &body.to_string()).token(tenant)).await
    }

    pub async fn get(&self, tenant: &Tenant, path: &str) -> Answer {
        self.send(Request::new("GET", path).token(tenant)).await
    }

    /// Waits until the provider was asked so often about a record, and that was seen to.
    pub async fn until_asked(&self, reference: Uuid, times: u32) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.provider.fake.consults(reference) < times {
            assert!(tokio::time::Instant::now() < deadline, "never asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Looks at a resource until its `status` is this: what a callback leads to comes after its answer.
    pub async fn until_status(&self, tenant: &Tenant, path: &str, status: &str) -> Answer {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let answer = self.get(tenant, path).await.expect(200);
            if answer.text("status") == status {
                return answer;
            }
            assert!(tokio::time::Instant::now() < deadline, "never {status}: {}", answer.body);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn stop(self) {
        self.stopping.begin();
        self.handle.stop(true).await;
    }
}

/// A request to be written.
pub struct Request<'a> {
    method: &'a str,
    path: &'a str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl<'a> Request<'a> {
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Self { method, path, headers: Vec::new(), body: Vec::new() }
    }

    pub fn post(path: &'a str, body: &str) -> Self {
        Self { body: body.as_bytes().to_vec(), ..Self::new("POST", path) }
            .header("Content-Type", "application/json")
    }

    pub fn raw(path: &'a str, body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..Self::new("POST", path) }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn token(self, tenant: &Tenant) -> Self {
        let value = format!("Bearer {}", tenant.token);
        self.header("Authorization", &value)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: pix.example\r\nConnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.extend([name.as_str(), ": ", value, "\r\n"]);
        }
        if !self.body.is_empty() || self.method == "POST" {
            head.extend(["Content-Length: ", &self.body.len().to_string(), "\r\n"]);
        }
        head.push_str("\r\n");
        [head.into_bytes(), self.body.clone()].concat()
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The body as text, whatever it is.
    pub body: String,
    /// Its very bytes.
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
        let (head, body) = (std::str::from_utf8(&bytes[..end]).unwrap(), &bytes[end + 4..]);
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self { status, headers, body: String::from_utf8_lossy(body).into_owned(), bytes: body.to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub fn text(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_else(|| panic!("no {name}: {}", self.body)).to_owned()
    }

    pub fn code(&self) -> String {
        self.text("code")
    }

    /// Asserts the status, showing the body when it is another.
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    /// The body without the request id, which differs with each.
    pub fn without_request_id(&self) -> Value {
        let mut body = self.json();
        body.as_object_mut().unwrap().remove("requestId");
        body
    }
}

/// A charge in v1.
pub fn charge_body() -> Value {
    json!({
        "amount": 15.5,
        "payer": {"name": "Ana Souza", "document": "529.982.247-25", "email": "ana@example.com"},
        "external_id": "order:1",
        "postbackUrl": "https://loja.example/pix?token=1",
        "payerQuestion": "Tudo certo?"
    })
}

/// A withdrawal, in either generation.
pub fn withdrawal_body() -> Value {
    json!({
        "amount": "10.00",
        "creditParty": {"name": "Bruno", "keyType": "email", "key": "Bruno@Example.com", "taxId": "52998224725"},
        "external_id": "payout-1",
        "description": "semana 1"
    })
}

/// What the provider knows the withdrawal or refund with that uuid by.
pub fn reference(uuid: &str) -> String {
    pix_domain::provider::Reference::of(Uuid::try_parse(uuid).expect("a uuid")).to_string()
}
