//! The document of the interface: every answer of this suite is held against it, and it against what is served.
//!
//! The schemas leave room for fields that will come. Here they don't: an answer with a field that isn't told of fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::support::{Answer, Gateway, Request};

/// Schemas that are part of another one that is answered, which has more fields.
const PARTS: [&str; 1] = ["V2Transaction"];

/// The header fields that the document tells of, in lower case.
const TOLD_FIELDS: [&str; 8] = [
    "retry-after",
    "www-authenticate",
    "location",
    "link",
    "idempotency-replayed",
    "ratelimit",
    "ratelimit-policy",
    "x-request-id",
];

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_str(pix_http::openapi_document()).unwrap())
}

/// The components, in which no object may have other fields than those that are told of.
fn closed() -> &'static Value {
    static CLOSED: OnceLock<Value> = OnceLock::new();
    CLOSED.get_or_init(|| {
        let mut components = document()["components"].clone();
        for (name, schema) in components["schemas"].as_object_mut().unwrap() {
            if !PARTS.contains(&name.as_str()) {
                close(schema.as_object_mut().unwrap());
            }
        }
        components
    })
}

fn close(schema: &mut Map<String, Value>) {
    if schema.contains_key("properties") && !schema.contains_key("additionalProperties") {
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

/// What is wrong with a value, by the schema at `schema`, which may refer to components.
fn wrong(schema: &Value, value: &Value) -> Vec<String> {
    static KNOWN: OnceLock<Mutex<HashMap<String, Arc<Validator>>>> = OnceLock::new();
    let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap();
    let validator = known.entry(schema.to_string()).or_insert_with(|| {
        let root = json!({"allOf": [schema], "components": closed()});
        Arc::new(jsonschema::options().should_validate_formats(true).build(&root).unwrap())
    });
    let validator = Arc::clone(validator);
    drop(known);
    validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect()
}

/// The operation that a request is for, if it is one that is told of.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap_or_default();
    let paths = document()["paths"].as_object().unwrap();
    let fits = |pattern: &str| {
        let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), path.split('/').collect());
        pattern.len() == path.len()
            && pattern.iter().zip(&path).all(|(pattern, part)| pattern.starts_with('{') || pattern == part)
    };
    let method = if method == "HEAD" { "get".to_owned() } else { method.to_ascii_lowercase() };
    let fitting = paths.iter().filter(|(pattern, _)| fits(pattern)).map(|(_, item)| item);
    // A word in a path goes before a name; what the word has no method for is of the record with that name.
    paths.get(path).into_iter().chain(fitting).find_map(|item| item.get(&method))
}

fn resolved(value: &'static Value) -> &'static Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => document().pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// Fails when an answer isn't one that the document tells of.
pub fn holds(method: &str, path: &str, answer: &Answer) {
    let Some(operation) = operation(method, path) else { return };
    let id = &operation["operationId"];
    let told = operation["responses"].get(answer.status.to_string());
    let told =
        resolved(told.unwrap_or_else(|| panic!("{id} doesn't tell of {}: {}", answer.status, answer.body)));
    for name in TOLD_FIELDS {
        let Some(value) = answer.header(name) else { continue };
        let fields = told["headers"].as_object().unwrap();
        let field = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, field) = field.unwrap_or_else(|| panic!("{id} {} doesn't tell of {name}", answer.status));
        let value = value.parse::<u64>().map_or_else(|_text| json!(value), |number| json!(number));
        let schema = &resolved(field)["schema"];
        if schema["type"] == "string" && value.is_number() {
            continue;
        }
        let wrong = wrong(schema, &value);
        assert!(wrong.is_empty(), "{id} {} {name}: {wrong:?}", answer.status);
    }
    let Some(contents) = told.get("content").filter(|_| method != "HEAD") else {
        assert_eq!(answer.body, "", "{id} {}", answer.status);
        return;
    };
    let media_type = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    let content = contents.get(media_type);
    let content = content.unwrap_or_else(|| panic!("{id} {} doesn't tell of {media_type}", answer.status));
    if media_type.ends_with("json") {
        let wrong = wrong(&content["schema"], &answer.json());
        assert!(wrong.is_empty(), "{id} {}: {wrong:?} in {}", answer.status, answer.body);
    }
}

#[test]
fn an_answer_that_is_not_as_told_is_found() {
    let balance = || json!({"available": 1.5, "held": 0, "owed": 0, "currency": "BRL"});
    let schema = json!({"$ref": "#/components/schemas/Balance"});
    assert_eq!(wrong(&schema, &balance()), Vec::<String>::new());
    for (name, value) in
        [("more", json!(1)), ("held", json!("0")), ("owed", json!(-1)), ("currency", json!("USD"))]
    {
        let mut other = balance();
        other[name] = value;
        assert!(!wrong(&schema, &other).is_empty(), "{other}");
    }
    let mut less = balance();
    less.as_object_mut().unwrap().remove("owed");
    assert!(!wrong(&schema, &less).is_empty());
    assert_eq!(operation("GET", "/api/v1/charges/a%2Fb?x=1").unwrap()["operationId"], "getCharge");
    assert_eq!(operation("PUT", "/api/v1/charges"), None);
    assert_eq!(operation("POST", "/api/v1/withdrawals/quote").unwrap()["operationId"], "quoteWithdrawal");
    assert_eq!(operation("GET", "/api/v1/withdrawals/quote").unwrap()["operationId"], "getWithdrawal");
}

#[test]
fn every_example_fits_its_schema() {
    let mut seen = 0;
    let mut look = |content: &Value, place: &str| {
        for (name, example) in content["examples"].as_object().into_iter().flatten() {
            let wrong = wrong(&content["schema"], &example["value"]);
            assert!(wrong.is_empty(), "{place}, {name}: {wrong:?}");
            seen += 1;
        }
    };
    for (path, item) in document()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let place = format!("{method} {path}");
            for content in operation["requestBody"]["content"].as_object().into_iter().flatten() {
                look(content.1, &place);
            }
            for (status, response) in operation["responses"].as_object().unwrap() {
                for content in response["content"].as_object().into_iter().flatten() {
                    look(content.1, &format!("{place} {status}"));
                }
            }
        }
    }
    for (name, response) in document()["components"]["responses"].as_object().unwrap() {
        for content in response["content"].as_object().unwrap() {
            look(content.1, name);
        }
    }
    assert!(seen > 50, "only {seen} examples");
}

#[test]
fn every_name_of_an_operation_is_there_once_and_everything_has_words() {
    let mut ids = Vec::new();
    let items = ["paths", "webhooks"].into_iter().flat_map(|kind| document()[kind].as_object().unwrap());
    for (path, item) in items {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(!ids.contains(&id), "{id}");
            ids.push(id);
            for words in ["summary", "description"] {
                assert!(
                    operation[words].as_str().is_some_and(|words| words.len() > 3),
                    "{method} {path}: {words}"
                );
            }
        }
    }
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        assert!(
            schema["description"].as_str().is_some_and(|words| words.len() > 3) || name == "Nothing",
            "{name}"
        );
    }
}

#[test]
fn every_reference_leads_to_something() {
    fn walk(value: &Value) -> usize {
        match value {
            Value::Object(fields) => {
                let own = fields.get("$ref").and_then(Value::as_str).map_or(0, |reference| {
                    let found = reference.strip_prefix('#').and_then(|pointer| document().pointer(pointer));
                    assert!(found.is_some(), "{reference}");
                    1
                });
                own + fields.values().map(walk).sum::<usize>()
            }
            Value::Array(items) => items.iter().map(walk).sum(),
            _ => 0,
        }
    }
    assert!(walk(document()) > 100);
}

#[test]
fn the_copies_beside_the_documents_are_as_the_code_says() {
    let copies =
        [("openapi.json", pix_http::openapi_document()), ("postman.json", pix_http::postman_collection())];
    for (name, said) in copies {
        let copy = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        let copy = std::fs::read_to_string(copy).unwrap_or_default();
        assert!(copy == said, "docs/{name} is out of date; refresh it: make openapi");
    }
}

#[tokio::test]
async fn anybody_may_read_the_document_and_keep_it_for_a_while() {
    let gateway = Gateway::start().await;
    for (path, media_type) in [("/openapi.json", "application/json"), ("/docs", "text/html; charset=utf-8")] {
        let answer = gateway.send(Request::new("GET", path)).await.expect(200);
        assert_eq!(answer.header("content-type"), Some(media_type));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let tag = answer.header("etag").unwrap().to_owned();
        let again = gateway.send(Request::new("GET", path).header("If-None-Match", &tag)).await.expect(304);
        assert_eq!((again.body.as_str(), again.header("etag")), ("", Some(tag.as_str())));
        let other =
            gateway.send(Request::new("GET", path).header("If-None-Match", "\"other\"")).await.expect(200);
        assert_eq!(other.body, answer.body);
        gateway.send(Request::new("HEAD", path)).await.expect(200);
        let refused = gateway.send(Request::post(path, "{}")).await.expect(405);
        assert_eq!(refused.header("allow"), Some("GET, HEAD"));
        assert_eq!(refused.header("cache-control"), Some("no-store"));
    }
    let document = gateway.send(Request::new("GET", "/openapi.json")).await;
    assert_eq!(document.body, pix_http::openapi_document());
    assert_eq!(
        document.header("content-security-policy"),
        Some("default-src 'none'; frame-ancestors 'none'")
    );
    let page = gateway.send(Request::new("GET", "/docs")).await;
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    Box::pin(gateway.stop()).await;
}

#[tokio::test]
async fn the_type_of_a_problem_leads_to_what_it_means() {
    let gateway = Gateway::start().await;
    let refused = gateway.send(Request::new("GET", "/api/v1/balance")).await.expect(401).json();
    let kind = refused["type"].as_str().unwrap();
    let (_, path) = kind.split_once("/errors/").unwrap();
    let path = format!("/errors/{path}");
    let english = gateway.send(Request::new("GET", &path)).await.expect(200);
    assert_eq!(english.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(english.header("content-language"), Some("en"));
    assert_eq!(english.header("vary"), Some("Accept-Language"));
    assert_eq!(english.header("cache-control"), Some("public, max-age=300"));
    assert!(english.body.contains("<td>with a new token</td>"), "{}", english.body);
    let asked = Request::new("GET", &path).header("Accept-Language", "pt-BR,en;q=0.5");
    let portuguese = gateway.send(asked).await.expect(200);
    assert_eq!(portuguese.header("content-language"), Some("pt-BR"));
    assert!(portuguese.body.contains("<h1>Token de acesso inválido</h1>"), "{}", portuguese.body);
    assert_ne!(english.header("etag"), portuguese.header("etag"));
    gateway.send(Request::new("HEAD", &path)).await.expect(200);
    gateway.send(Request::post(&path, "{}")).await.expect(405);
    for other in ["/errors/nothing", "/errors/invalid_token", "/errors", "/errors/invalid-token/more"] {
        gateway.send(Request::new("GET", other)).await.expect(404);
    }
    Box::pin(gateway.stop()).await;
}
