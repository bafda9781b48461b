//! The receivers of `docs/API.md` ("Verifying a signature"), as they stand there, judge requests of ours as they came over
//! the wire. Python and Node.js are needed; PHP, Go and Ruby are asked where they are installed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

#[expect(dead_code, reason = "these receivers are all well-behaved")]
#[path = "sending/receiver.rs"]
mod receiver;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::send::{Parcel, PostbackSecret, PostbackSender, Reply};
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;
use pix_notifications::{HttpSender, MasterKey, PrivateAddresses, SenderConfig, Trust, UrlGuard};
use serde_json::{Value, json};
use uuid::Uuid;

use receiver::{Receiver, Request, answer};

const BODY: &str = r#"{"event":"cashin.confirmed","amount":15.50,"name":"Conceição \"Zé\" 🍞","n":null}"#;

/// A language of the document: how its blocks are marked, the program that runs it, whether that has to be there, the
/// file that the block is put into, and the file that asks it about each of a list of requests, if it is another one.
struct Language {
    mark: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    required: bool,
    file: &'static str,
    asks: (&'static str, &'static str),
}

const LANGUAGES: [Language; 5] = [
    Language {
        mark: "python",
        program: "python3",
        arguments: &["-I", "receiver.py"],
        required: true,
        file: "receiver.py",
        asks: (
            "receiver.py",
            "import json, sys\n\
             print(json.dumps([is_ours(base64.b64decode(one['body']), one['headers'], one['secret'])\n\
                 for one in json.load(sys.stdin)]))\n",
        ),
    },
    Language {
        mark: "js",
        program: "node",
        arguments: &["asks.mjs"],
        required: true,
        file: "receiver.mjs",
        asks: (
            "asks.mjs",
            "import { readFileSync } from \"node:fs\";\nimport { isOurs } from \"./receiver.mjs\";\n\
             const ask = (one) => isOurs(Buffer.from(one.body, \"base64\"), one.headers, one.secret);\n\
             process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, \"utf8\")).map(ask)));\n",
        ),
    },
    Language {
        mark: "php",
        program: "php",
        arguments: &["-n", "asks.php"],
        required: false,
        file: "receiver.php",
        asks: (
            "asks.php",
            "<?php\nrequire 'receiver.php';\n\
             $ask = fn($one) => is_ours(base64_decode($one['body']), $one['headers'], $one['secret']);\n\
             echo json_encode(array_map($ask, json_decode(file_get_contents('php://stdin'), true)));\n",
        ),
    },
    Language {
        mark: "go",
        program: "go",
        arguments: &["run", "receiver.go", "asks.go"],
        required: false,
        file: "receiver.go",
        asks: (
            "asks.go",
            "package main\n\nimport (\n\t\"encoding/json\"\n\t\"fmt\"\n\t\"net/http\"\n\t\"os\"\n)\n\n\
             type request struct {\n\tSecret  string\n\tHeaders map[string]string\n\tBody    []byte\n}\n\n\
             func main() {\n\tvar requests []request\n\tif err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {\n\
             \t\tpanic(err)\n\t}\n\tverdicts := []bool{}\n\tfor _, one := range requests {\n\theaders := http.Header{}\n\
             \t\tfor name, value := range one.Headers {\n\t\t\theaders.Set(name, value)\n\t\t}\n\
             \t\tverdicts = append(verdicts, isOurs(one.Body, headers, one.Secret))\n\t}\n\
             \ttold, _ := json.Marshal(verdicts)\n\tfmt.Println(string(told))\n}\n",
        ),
    },
    Language {
        mark: "ruby",
        program: "ruby",
        arguments: &["asks.rb"],
        required: false,
        file: "receiver.rb",
        asks: (
            "asks.rb",
            "require \"json\"\nrequire_relative \"receiver\"\n\
             puts JSON.generate(JSON.parse($stdin.read).map { |one|\n\
             \x20 ours?(one[\"body\"].unpack1(\"m\"), one[\"headers\"], one[\"secret\"])\n})\n",
        ),
    },
];

impl Language {
    /// Its block, which is the first of its mark below the heading.
    fn block(&self) -> String {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/API.md");
        let document = std::fs::read_to_string(document).unwrap();
        let (_, section) = document.split_once("\n### Verifying a signature\n").unwrap();
        let (section, _) = section.split_once("\n### ").unwrap();
        let fence = format!("\n```{}\n", self.mark);
        let (_, block) = section.split_once(&fence).unwrap_or_else(|| panic!("no {} there", self.mark));
        block.split_once("```").unwrap().0.to_owned()
    }

    fn is_there(&self) -> bool {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&folders).any(|folder| folder.join(self.program).is_file());
        assert!(found || !self.required, "{} is needed to run the receivers of docs/API.md", self.program);
        found
    }

    /// Whether its receiver takes each request for one of ours.
    fn takes(&self, requests: &str) -> Vec<bool> {
        let folder = tempfile::tempdir().unwrap();
        let (name, text) = self.asks;
        if name != self.file {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let text = if name == self.file { text } else { "" };
        std::fs::write(folder.path().join(self.file), self.block() + text).unwrap();
        let mut command = Command::new(self.program);
        command.args(self.arguments).current_dir(folder.path());
        // Two files and nothing of a network.
        command.env("GO111MODULE", "off").env("GOFLAGS", "").env_remove("NODE_PATH").env_remove("RUBYOPT");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        process.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{} ended with {}", self.program, output.status);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn secret(number: u32) -> PostbackSecret {
    let key = MasterKey::parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    key.secret(IntegratorId(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff)), number)
}

/// A request that was signed with these, so many seconds ago, as it came to a receiver.
async fn captured(secrets: &[PostbackSecret], seconds_ago: i64) -> Request {
    let receiver = Receiver::start(vec![answer(204, "", "")]).await;
    let guard = UrlGuard { allow_http: true, allow_private: PrivateAddresses::Loopback };
    let sender =
        HttpSender::new(guard, SenderConfig { trust: Trust::Nobody, ..SenderConfig::default() }).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the receivers compare with their own clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let sent_at = i64::try_from(now.as_micros()).unwrap() - seconds_ago * 1_000_000;
    let reply = sender.send(Parcel {
        url: PostbackUrl::parse(&receiver.url("/hook")).unwrap(),
        message_id: "evt_c019c000000007000800000000000000a_2".to_owned(),
        event: "cashin.confirmed".to_owned(),
        body: BODY.to_owned(),
        sent_at: Timestamp::from_micros(sent_at),
        secrets: secrets.to_vec(),
    });
    assert!(matches!(reply.await, Reply::Answered { status: 204, .. }));
    receiver.requests().pop().unwrap()
}

/// What a receiver that knows this secret has before it.
fn exhibit(request: &Request, known: &PostbackSecret) -> Value {
    let headers: serde_json::Map<_, _> =
        request.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({ "secret": known.expose(), "headers": headers, "body": STANDARD.encode(&request.body) })
}

fn with(exhibit: &Value, header: &str, value: &str) -> Value {
    let mut exhibit = exhibit.clone();
    exhibit["headers"][header] = json!(value);
    exhibit
}

fn without(exhibit: &Value, header: &str) -> Value {
    let mut exhibit = exhibit.clone();
    exhibit["headers"].as_object_mut().unwrap().remove(header).unwrap();
    exhibit
}

/// Requests, each with what it is and whether it is to be taken.
async fn exhibits() -> Vec<(&'static str, bool, Value)> {
    let now = captured(&[secret(1)], 0).await;
    let sound = exhibit(&now, &secret(1));
    let mut body = sound.clone();
    body["body"] = json!(STANDARD.encode(BODY.replace("15.50", "15.51")));
    let mut empty = sound.clone();
    empty["body"] = json!("");
    let header = |name: &str| sound["headers"][name].as_str().unwrap().to_owned();
    let (signature, sent) = (header("webhook-signature"), header("webhook-timestamp"));
    let changing = captured(&[secret(1), secret(2)], 0).await;
    vec![
        ("as it was sent", true, sound.clone()),
        ("within the tolerance", true, exhibit(&captured(&[secret(1)], 240).await, &secret(1))),
        ("of a clock that is a little ahead", true, exhibit(&captured(&[secret(1)], -240).await, &secret(1))),
        ("the old secret, while it is changed", true, exhibit(&changing, &secret(1))),
        ("the new secret, while it is changed", true, exhibit(&changing, &secret(2))),
        ("another secret, while it is changed", false, exhibit(&changing, &secret(3))),
        ("an hour old", false, exhibit(&captured(&[secret(1)], 3_600).await, &secret(1))),
        ("an hour ahead", false, exhibit(&captured(&[secret(1)], -3_600).await, &secret(1))),
        ("another secret", false, exhibit(&now, &secret(2))),
        ("another body", false, body),
        ("no body", false, empty),
        ("another id", false, with(&sound, "webhook-id", "evt_c019c000000007000800000000000000b_2")),
        (
            "another moment",
            false,
            with(&sound, "webhook-timestamp", &(sent.parse::<i64>().unwrap() + 1).to_string()),
        ),
        ("a moment that is none", false, with(&sound, "webhook-timestamp", "now")),
        ("a moment with more behind it", false, with(&sound, "webhook-timestamp", &format!("{sent}.0"))),
        ("a moment beyond all time", false, with(&sound, "webhook-timestamp", &"9".repeat(400))),
        ("an empty moment", false, with(&sound, "webhook-timestamp", "")),
        (
            "a scheme that nobody knows",
            false,
            with(&sound, "webhook-signature", &signature.replace("v1,", "v2,")),
        ),
        (
            "a signature without its scheme",
            false,
            with(&sound, "webhook-signature", &signature.replace("v1,", "")),
        ),
        ("a signature cut short", false, with(&sound, "webhook-signature", &signature[..20])),
        ("an empty signature", false, with(&sound, "webhook-signature", "")),
        ("no signature", false, without(&sound, "webhook-signature")),
        ("no moment", false, without(&sound, "webhook-timestamp")),
        ("no id", false, without(&sound, "webhook-id")),
    ]
}

#[tokio::test]
async fn the_receivers_of_the_document_take_what_is_ours_and_nothing_else() {
    let exhibits = exhibits().await;
    let requests = json!(exhibits.iter().map(|(_, _, request)| request).collect::<Vec<_>>()).to_string();
    for language in LANGUAGES.iter().filter(|language| language.is_there()) {
        let taken = language.takes(&requests);
        assert_eq!(taken.len(), exhibits.len(), "{}", language.mark);
        for ((what, ours, _), taken) in exhibits.iter().zip(taken) {
            assert_eq!(taken, *ours, "{}: {what}", language.mark);
        }
    }
}

#[test]
fn every_language_of_the_document_has_its_receiver() {
    for language in &LANGUAGES {
        assert!(language.block().contains("webhook-signature"), "{}", language.mark);
    }
}
