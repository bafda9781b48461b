//! The sender against receivers of every kind: what it sends, what it makes of the answer, and where it does not go.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

mod receiver;
mod tls;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pix_domain::postbacks::send::{
    MAX_ANSWER_BYTES, MAX_EXCERPT_BYTES, Parcel, PostbackSecret, PostbackSender, Reply,
};
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;
use pix_notifications::guard::{ADDRESS_NOT_PUBLIC, NO_PUBLIC_ADDRESS, SCHEME_NOT_ALLOWED};
use pix_notifications::{
    GuardedResolver, HttpSender, Lookup, PrivateAddresses, SenderConfig, Trust, UrlGuard,
};
use tokio::net::TcpListener;

use receiver::{Act, Receiver, Request, answer};

const LOOPBACK: UrlGuard = UrlGuard { allow_http: true, allow_private: PrivateAddresses::Loopback };
const PUBLIC: UrlGuard = UrlGuard { allow_http: true, allow_private: PrivateAddresses::Never };
/// The shortest there is.
const IMPATIENT: Duration = Duration::from_secs(1);
const BODY: &str = r#"{"event":"cashin.confirmed","name":"Conceição"}"#;
/// Sun, 06 Nov 1994 08:49:37 GMT.
const SENT_AT: Timestamp = Timestamp::from_micros(784_111_777_500_000);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn config() -> SenderConfig {
    SenderConfig { trust: Trust::Nobody, ..SenderConfig::default() }
}

fn parcel(url: &str) -> Parcel {
    Parcel {
        url: PostbackUrl::parse(url).unwrap(),
        message_id: "0199-1".to_owned(),
        event: "cashin.confirmed".to_owned(),
        body: BODY.to_owned(),
        sent_at: SENT_AT,
        secrets: vec![PostbackSecret::new(SECRET.to_owned())],
    }
}

/// What becomes of a parcel to a receiver that does this, and what that receiver saw.
async fn send(act: Act) -> (Reply, Receiver) {
    let receiver = Receiver::start(vec![act]).await;
    let sender = HttpSender::new(LOOPBACK, SenderConfig { total_timeout: IMPATIENT, ..config() }).unwrap();
    let reply = sender.send(parcel(&receiver.url("/hook"))).await;
    (reply, receiver)
}

fn answered(status: u16, excerpt: &str) -> Reply {
    Reply::Answered { status, retry_after: None, excerpt: excerpt.to_owned() }
}

fn refusal_code(reply: &Reply) -> &'static str {
    let Reply::Forbidden(refusal) = reply else { panic!("{reply:?}") };
    refusal.code
}

/// Answers one after the other, the last for ever, and how many were asked for.
struct Script {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let read = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self {
            answers: Mutex::new(answers.iter().map(read).collect()),
            asked: Mutex::new(Vec::new()),
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Lookup for Script {
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        answer.ok_or_else(|| io::Error::other("no such name"))
    }
}

#[tokio::test]
async fn the_request_is_what_receivers_expect() {
    let (reply, receiver) = send(answer(200, "", "ok")).await;
    assert_eq!(reply, answered(200, "ok"));
    let requests = receiver.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.line, "POST /hook HTTP/1.1");
    assert_eq!(request.body, BODY.as_bytes());
    for (name, value) in [
        ("host", receiver.address.to_string().as_str()),
        ("content-type", "application/json"),
        ("content-length", "49"),
        ("user-agent", "pix-gateway"),
        ("webhook-id", "0199-1"),
        ("webhook-timestamp", "784111777"),
        // Computed with Python's hmac, hashlib and base64.
        ("webhook-signature", "v1,tlz3ZgpFtbCABg9km1CdAquyIR2qdLotd+QR0oSa0ME="),
        ("x-webhook-signature", "7aa6fcd587be44d22ab762114048e7734973957d0b964ff0b677d9cb8d2987f6"),
        ("x-webhook-timestamp", "784111777"),
        ("x-webhook-event", "cashin.confirmed"),
    ] {
        assert_eq!(request.value(name), value, "{name}");
    }
    for absent in ["x-webhook-signature-next", "referer", "accept-encoding", "transfer-encoding", "expect"] {
        assert_eq!(request.values(absent), [""; 0], "{absent}");
    }
}

#[tokio::test]
async fn every_status_is_an_answer() {
    for status in [200, 201, 204, 400, 401, 404, 410, 418, 500, 503, 599] {
        let body = if status == 204 { "" } else { "não\n" };
        let (reply, receiver) = send(answer(status, "", body)).await;
        assert_eq!(reply, answered(status, body.replace('\n', " ").as_str()));
        assert_eq!(receiver.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_never_followed() {
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = Receiver::start(vec![answer(200, "", "stolen")]).await;
        let location = format!("location: {}\r\n", elsewhere.url("/stolen"));
        let (reply, receiver) = send(answer(status, &location, "")).await;
        assert_eq!(reply, answered(status, ""));
        assert_eq!((receiver.requests().len(), receiver.connections()), (1, 1), "{status}");
        assert_eq!(elsewhere.connections(), 0, "{status}");

        let (reply, receiver) = send(answer(status, "location: /again\r\n", "")).await;
        assert_eq!(reply, answered(status, ""));
        assert_eq!(receiver.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_receiver_may_say_how_long_it_wants_to_be_left_alone() {
    for value in ["120", "Sun, 06 Nov 1994 08:51:37 GMT"] {
        for status in [429, 503] {
            let (reply, _) = send(answer(status, &format!("retry-after: {value}\r\n"), "")).await;
            let retry_after = Some(Duration::from_mins(2));
            assert_eq!(reply, Reply::Answered { status, retry_after, excerpt: String::new() });
        }
    }
    let (reply, _) = send(answer(429, "retry-after: 99999999999999999999\r\n", "")).await;
    let retry_after = Some(pix_notifications::MAX_RETRY_AFTER);
    assert_eq!(reply, Reply::Answered { status: 429, retry_after, excerpt: String::new() });
}

#[tokio::test]
async fn the_whole_attempt_is_bounded_in_time_whatever_the_receiver_drips() {
    for act in [
        Act::Hang,
        Act::Drip("HTTP/1.1 200 OK\r\nx-slow: "),
        Act::Drip("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"),
        Act::Drip("HTTP/1.1 200 OK\r\n\r\n"),
    ] {
        let started = Instant::now();
        let (reply, receiver) = send(act).await;
        assert_eq!(reply, Reply::Failed("timeout"));
        assert_eq!(receiver.requests().len(), 1);
        let took = started.elapsed();
        assert!((IMPATIENT..IMPATIENT * 5).contains(&took), "{took:?}");
    }
}

#[tokio::test]
async fn of_a_huge_answer_hardly_anything_is_taken() {
    let (reply, receiver) = send(Act::Flood(10 * 1024 * 1024)).await;
    assert_eq!(reply, answered(200, &"x".repeat(MAX_EXCERPT_BYTES)));
    let taken = receiver.flooded().await.expect("the answer was taken whole");
    assert!(taken < 8 * 1024 * 1024, "the buffers of the system aside, {taken} bytes were taken");
}

#[tokio::test]
async fn an_answer_as_long_as_may_be_read_is_whole() {
    let body = "y".repeat(MAX_ANSWER_BYTES);
    let (reply, _) = send(answer(500, "", &body)).await;
    assert_eq!(reply, answered(500, &body[..MAX_EXCERPT_BYTES]));
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let (reply, _) = send(Act::Answer(chunks.into())).await;
    assert_eq!(reply, answered(200, "ok"));
}

#[tokio::test]
async fn a_compressed_answer_stays_compressed() {
    let (reply, _) = send(answer(200, "content-encoding: gzip\r\n", "\u{1f}\u{8b}bomb")).await;
    let Reply::Answered { excerpt, .. } = reply else { panic!("{reply:?}") };
    assert!(excerpt.ends_with("bomb"), "{excerpt}");
}

#[tokio::test]
async fn a_connection_that_ends_early_is_closed() {
    for bytes in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nok",
    ] {
        let (reply, receiver) = send(Act::AnswerAndClose(bytes.into())).await;
        assert_eq!(reply, Reply::Failed("closed"), "{bytes:?}");
        assert_eq!(receiver.requests().len(), 1, "{bytes:?}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_malformed() {
    let many_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    let long_header = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(1_000_000));
    for bytes in [
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "220 smtp.example.com ESMTP\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nok\r\n",
        "\0\0\0\0\r\n\r\n",
        &many_headers,
        &long_header,
    ] {
        let (reply, receiver) = send(Act::AnswerAndClose(bytes.into())).await;
        let shown: String = bytes.chars().take(60).collect();
        assert_eq!(reply, Reply::Failed("malformed"), "{shown:?}");
        assert_eq!(receiver.requests().len(), 1, "{shown:?}");
    }
}

#[tokio::test]
async fn what_can_not_be_reached_says_why() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let sender = |lookup| HttpSender::with_lookup(LOOPBACK, config(), lookup).unwrap();
    let reply = sender(Script::new(&[])).send(parcel(&format!("http://{address}/"))).await;
    assert_eq!(reply, Reply::Failed("connect"));
    let reply = sender(Script::new(&[])).send(parcel(&format!("https://{address}/"))).await;
    assert_eq!(reply, Reply::Failed("connect"));
    for lookup in [Script::new(&[]), Script::new(&[&[]])] {
        let reply = sender(lookup).send(parcel("http://hook.example.com/")).await;
        assert_eq!(reply, Reply::Failed("dns"));
    }
}

#[tokio::test]
async fn a_name_server_that_never_answers_costs_no_more_than_reaching_may() {
    struct Silent;
    #[async_trait]
    impl Lookup for Silent {
        async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            std::future::pending().await
        }
    }
    let config = SenderConfig { connect_timeout: Duration::from_millis(100), ..config() };
    let sender = HttpSender::with_lookup(LOOPBACK, config, Arc::new(Silent)).unwrap();
    let started = Instant::now();
    assert_eq!(sender.send(parcel("http://hook.example.com/")).await, Reply::Failed("timeout"));
    assert!(started.elapsed() < config.total_timeout / 2);
}

#[tokio::test]
async fn tls_that_is_none_is_called_so() {
    let sender = HttpSender::new(LOOPBACK, config()).unwrap();
    for greeting in ["", "HTTP/1.1 400 Bad Request\r\n\r\n", "\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{28}"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Read first: unread bytes would make the end a reset.
            let mut hello = [0; 16 * 1024];
            let read = tokio::io::AsyncReadExt::read(&mut stream, &mut hello).await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, greeting.as_bytes()).await.unwrap();
            (read, hello[0])
        });
        assert_eq!(sender.send(parcel(&url)).await, Reply::Failed("tls"), "{greeting:?}");
        let (read, first) = serving.await.unwrap();
        // RFC 8446 §5.1: a handshake record. Nothing was said unencrypted.
        assert!(read > 0 && first == 22, "{greeting:?}");
    }
}

#[tokio::test]
async fn the_query_is_sent_byte_for_byte_but_for_what_every_client_must_change() {
    let receiver = Receiver::start(vec![answer(200, "", ""); 20]).await;
    let sender = HttpSender::new(LOOPBACK, config()).unwrap();
    for (given, sent) in [
        ("?a=%20b&c=d+e&x=%2F", "/?a=%20b&c=d+e&x=%2F"),
        ("/x?a=%20b&c=d+e&x=%2F", "/x?a=%20b&c=d+e&x=%2F"),
        ("/x?%e7%C3%a3%zz%", "/x?%e7%C3%a3%zz%"),
        ("/x?", "/x?"),
        ("/x?a==&&;?/../%2e%2E\\", "/x?a==&&;?/../%2e%2E\\"),
        ("/x?-._~!$()*+,;=:@[]{}|^`", "/x?-._~!$()*+,;=:@[]{}|^`"),
        ("/x?a=1#top?b=2", "/x?a=1"),
        ("/%2F%41//b;c=d:@!$&()*+,=|[]", "/%2F%41//b;c=d:@!$&()*+,=|[]"),
        ("/'", "/'"),
        ("", "/"),
        // Changed.
        ("/x?'\"<>ção", "/x?%27%22%3C%3E%C3%A7%C3%A3o"),
        ("/\"<>`{}^ção", "/%22%3C%3E%60%7B%7D^%C3%A7%C3%A3o"),
        ("/a/./b/../c/%2e%2E/d\\e", "/a/d/e"),
    ] {
        let reply = sender.send(parcel(&receiver.url(given))).await;
        assert_eq!(reply, answered(200, ""), "{given}");
        let line = receiver.requests().pop().unwrap().line;
        assert_eq!(line, format!("POST {sent} HTTP/1.1"), "{given}");
    }
}

#[tokio::test]
async fn a_connection_serves_again_and_its_name_is_not_looked_up_meanwhile() {
    let receiver = Receiver::start(vec![answer(200, "", "a"), answer(200, "", "b")]).await;
    let lookup = Script::new(&[&["127.0.0.1"]]);
    let sender = HttpSender::with_lookup(LOOPBACK, config(), lookup.clone()).unwrap();
    let url = format!("http://hook.example.com:{}/", receiver.address.port());
    assert_eq!(sender.send(parcel(&url)).await, answered(200, "a"));
    assert_eq!(sender.send(parcel(&url)).await, answered(200, "b"));
    assert_eq!((receiver.requests().len(), receiver.connections()), (2, 1));
    assert_eq!(lookup.asked(), ["hook.example.com"]);
}

#[tokio::test]
async fn an_address_that_is_not_public_is_never_connected_to() {
    let receiver = Receiver::start(vec![]).await;
    let port = receiver.address.port();
    let sender = HttpSender::with_lookup(PUBLIC, config(), Script::new(&[&["127.0.0.1"]])).unwrap();
    for url in [format!("http://127.0.0.1:{port}/"), format!("http://[::ffff:127.0.0.1]:{port}/")] {
        assert_eq!(refusal_code(&sender.send(parcel(&url)).await), ADDRESS_NOT_PUBLIC);
    }
    let strict = HttpSender::new(UrlGuard::default(), config()).unwrap();
    assert_eq!(refusal_code(&strict.send(parcel(&receiver.url("/"))).await), SCHEME_NOT_ALLOWED);
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_name_that_becomes_private_after_it_was_checked_is_refused() {
    let lookup = Script::new(&[&["93.184.216.34"], &["127.0.0.1"]]);
    // Whoever checks first and connects later is told that all is well…
    let resolver = GuardedResolver::new(PUBLIC, lookup.clone());
    assert_eq!(resolver.addresses("rebind.example.com").await.unwrap().len(), 1);
    // …but what is connected to is asked for, and judged, when it is connected to.
    let sender = HttpSender::with_lookup(PUBLIC, config(), lookup.clone()).unwrap();
    for scheme in ["http", "https"] {
        let reply = sender.send(parcel(&format!("{scheme}://rebind.example.com:8443/"))).await;
        assert_eq!(refusal_code(&reply), NO_PUBLIC_ADDRESS);
    }
    assert_eq!(lookup.asked().len(), 3);
}

#[tokio::test]
async fn what_is_connected_to_is_the_very_address_that_was_judged() {
    let receiver = Receiver::start(vec![answer(200, "", "first")]).await;
    // Asked a second time, the name would mean an address that is refused.
    let lookup = Script::new(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let sender = HttpSender::with_lookup(LOOPBACK, config(), lookup.clone()).unwrap();
    let url = |path| format!("http://rebind.example.com:{}{path}", receiver.address.port());
    assert_eq!(sender.send(parcel(&url("/"))).await, answered(200, "first"));
    assert_eq!((lookup.asked().len(), receiver.connections()), (1, 1));
    // The receiver closes after its script; the next attempt looks the name up anew.
    assert_eq!(sender.send(parcel(&url("/"))).await, Reply::Failed("closed"));
    assert_eq!(refusal_code(&sender.send(parcel(&url("/"))).await), NO_PUBLIC_ADDRESS);
}

#[tokio::test]
async fn of_a_mixed_answer_only_what_is_allowed_is_tried() {
    let receiver = Receiver::start(vec![answer(200, "", "here")]).await;
    let url = format!("http://mixed.example.com:{}/", receiver.address.port());
    let mixed: &[&str] = &["10.255.255.1", "169.254.169.254", "0.0.0.0", "127.0.0.1", "fd00::1"];
    let sender = HttpSender::with_lookup(LOOPBACK, config(), Script::new(&[mixed])).unwrap();
    assert_eq!(sender.send(parcel(&url)).await, answered(200, "here"));
    let private: &[&str] = &["10.255.255.1", "169.254.169.254", "0.0.0.0", "fd00::1"];
    let sender = HttpSender::with_lookup(LOOPBACK, config(), Script::new(&[private])).unwrap();
    let reply = sender.send(parcel(&url)).await;
    assert_eq!(refusal_code(&reply), NO_PUBLIC_ADDRESS);
    let told = format!("{reply:?}");
    assert!(!told.contains("10.255") && !told.contains("169.254"), "{told}");
}

#[tokio::test]
async fn what_can_not_be_signed_is_not_sent() {
    let receiver = Receiver::start(vec![]).await;
    let sender = HttpSender::new(LOOPBACK, config()).unwrap();
    let unsigned = Parcel { secrets: vec![], ..parcel(&receiver.url("/")) };
    assert_eq!(sender.send(unsigned).await, Reply::Failed("unsendable"));
    let smuggled = Parcel { event: "a\r\nx-evil: 1".to_owned(), ..parcel(&receiver.url("/")) };
    assert_eq!(sender.send(smuggled).await, Reply::Failed("unsendable"));
    assert_eq!(receiver.connections(), 0);
}

/// Runs itself again with proxies in the environment: a process can't change its own safely.
#[tokio::test]
async fn the_proxy_of_the_environment_is_not_asked() {
    const RECEIVER: &str = "PIX_TEST_RECEIVER";
    const NAME: &str = "the_proxy_of_the_environment_is_not_asked";
    if let Ok(url) = std::env::var(RECEIVER) {
        let sender = HttpSender::new(LOOPBACK, config()).unwrap();
        assert_eq!(sender.send(parcel(&url)).await, answered(200, "receiver"));
        // A client that is built without our settings does ask it, so the environment is effective.
        let common = reqwest::Client::builder().tls_certs_only([]).build().unwrap();
        let text = common.post(&url).body("x").send().await.unwrap().text().await.unwrap();
        assert_eq!(text, "proxy");
        return;
    }
    let receiver = Receiver::start(vec![answer(200, "", "receiver")]).await;
    let proxy = Receiver::start(vec![answer(200, "", "proxy")]).await;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME]).env(RECEIVER, receiver.url("/"));
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, proxy.url(""));
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
    let lines = |requests: Vec<Request>| requests.into_iter().map(|request| request.line).collect::<Vec<_>>();
    assert_eq!(lines(receiver.requests()), ["POST / HTTP/1.1"]);
    assert_eq!(lines(proxy.requests()), [format!("POST {} HTTP/1.1", receiver.url("/"))]);
}

#[test]
fn nothing_personal_or_secret_is_shown() {
    let shown = format!("{:?}", parcel("https://example.com/s3cret?token=s3cret"));
    assert!(!shown.contains("s3cret") && !shown.contains("whsec_") && !shown.contains("Conce"), "{shown}");
}
