//! The document as a collection for Postman (format 2.1): a folder for each tag, a request for each operation, and variables
//! that are filled as one goes.

use std::sync::LazyLock;

use serde_json::{Value, json};
use utoipa::openapi::path::Operation;

use super::page::{text, value_of};
use super::{MODEL, tagged};

static COLLECTION: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", write()));

/// The format of collections.
const FORMAT: &str = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json";

/// What is kept of an answer for the requests after it: the operation, the variable, and where in the answer it is.
const KEPT: [(&str, &str, &str); 7] = [
    ("createToken", "token", "access_token"),
    ("createCharge", "charge", "uuid"),
    ("createWithdrawal", "withdrawal", "uuid"),
    ("createRefund", "refund", "uuid"),
    ("listSplits", "split", "data?.[0]?.uuid"),
    ("listEvents", "event", "data?.[0]?.id"),
    ("listFailingEndpoints", "endpoint", "data?.[0]?.id"),
];

/// The requests of the document, as a collection for Postman.
pub fn collection() -> &'static str {
    &COLLECTION
}

fn write() -> Value {
    let folders = MODEL.tags.iter().flatten().filter_map(|tag| {
        let served = tagged(&MODEL, &tag.name).into_iter().filter(|(_, path, _)| path.starts_with('/'));
        let requests: Vec<Value> =
            served.map(|(method, path, operation)| item(method, path, operation)).collect();
        let folder = json!({"name": tag.name, "description": tag.description, "item": requests});
        (!requests.is_empty()).then_some(folder)
    });
    let variable = |key: &str, value: &str| json!({"key": key, "value": value});
    let filled = KEPT.iter().map(|(_, name, _)| variable(name, ""));
    // The payment page names a charge by its uuid alone.
    let given = [
        ("baseUrl", "http://127.0.0.1:8080"),
        ("publicId", ""),
        ("secret", ""),
        ("uuid", "{{charge}}"),
        ("error", "validation"),
    ];
    json!({
        "info": {
            "name": MODEL.info.title,
            "description": MODEL.info.description,
            "version": MODEL.info.version,
            "schema": FORMAT,
        },
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}", "type": "string"}]},
        "variable": given.into_iter().map(|(key, value)| variable(key, value)).chain(filled).collect::<Vec<_>>(),
        "item": folders.collect::<Vec<_>>(),
    })
}

fn item(method: &str, path: &str, operation: &Operation) -> Value {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let parameters: Vec<Value> = operation.parameters.iter().flatten().map(value_of).collect();
    let within = |place: &'static str| parameters.iter().filter(move |one| text(one, "/in") == place);
    let described = |parameter: &Value, value: &str, disabled: bool| {
        json!({
            "key": text(parameter, "/name"),
            "value": value,
            "description": text(parameter, "/description"),
            "disabled": disabled,
        })
    };
    let segments: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|segment| {
            segment
                .strip_prefix('{')
                .map_or(segment.to_owned(), |name| format!(":{}", name.trim_end_matches('}')))
        })
        .collect();
    let variables: Vec<Value> = within("path")
        .map(|parameter| described(parameter, &format!("{{{{{}}}}}", text(parameter, "/name")), false))
        .collect();
    let body = operation.request_body.as_ref().map(value_of).unwrap_or_default();
    let mut headers: Vec<Value> = within("header").map(|parameter| described(parameter, "", true)).collect();
    let url = json!({
        "raw": format!("{{{{baseUrl}}}}/{}", segments.join("/")),
        "host": ["{{baseUrl}}"],
        "path": segments,
        "variable": variables,
        "query": within("query").map(|parameter| described(parameter, "", true)).collect::<Vec<_>>(),
    });
    let (mut sent, mut auth) = (Value::Null, Value::Null);
    if let Some(example) = example(&body) {
        headers.push(json!({"key": "Content-Type", "value": "application/json"}));
        let language = json!({"raw": {"language": "json"}});
        sent = json!({"mode": "raw", "raw": format!("{example:#}"), "options": language});
    }
    if id == "createToken" {
        let field = |key: &str, value: &str| json!({"key": key, "value": value, "type": "string"});
        let basic = [field("username", "{{publicId}}"), field("password", "{{secret}}")];
        auth = json!({"type": "basic", "basic": basic});
        sent = Value::Null;
    } else if operation.security.is_none() {
        auth = json!({"type": "noauth"});
    }
    let scripts = KEPT.iter().filter(|(of, _, _)| *of == id).map(|(_, name, place)| {
        let line = format!(
            "pm.response.code < 300 && pm.collectionVariables.set(\"{name}\", pm.response.json().{place});"
        );
        json!({"listen": "test", "script": {"type": "text/javascript", "exec": [line]}})
    });
    let request = json!({
        "method": method,
        "description": operation.description,
        "url": url,
        "header": headers,
        "body": sent,
        "auth": auth,
    });
    json!({
        "name": operation.summary,
        "request": request,
        "event": scripts.collect::<Vec<_>>(),
        "response": [],
    })
}

/// The first example of a body.
fn example(body: &Value) -> Option<&Value> {
    let content = body.pointer("/content/application~1json")?;
    let first = content.get("examples").and_then(Value::as_object).and_then(|all| all.values().next());
    first.and_then(|example| example.get("value")).or_else(|| content.get("example"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(value: &Value) -> Vec<&Value> {
        let items = value["item"].as_array().unwrap();
        items.iter().flat_map(|folder| folder["item"].as_array().unwrap()).collect()
    }

    #[test]
    fn every_operation_is_a_request_and_what_it_needs_is_a_variable() {
        let collection = write();
        let requests = requests(&collection);
        let operations: usize = MODEL
            .tags
            .iter()
            .flatten()
            .map(|tag| tagged(&MODEL, &tag.name).iter().filter(|(_, path, _)| path.starts_with('/')).count())
            .sum();
        assert_eq!(requests.len(), operations);
        let variables: Vec<&str> = collection["variable"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["key"].as_str().unwrap())
            .collect();
        for request in requests {
            let url = &request["request"]["url"];
            for part in
                url["path"].as_array().unwrap().iter().filter_map(|part| part.as_str()?.strip_prefix(':'))
            {
                assert!(variables.contains(&part), "{part}");
                assert!(url["variable"].as_array().unwrap().iter().any(|one| one["key"] == part), "{part}");
            }
        }
    }

    #[test]
    fn what_is_kept_is_of_operations_that_are_there() {
        let text = collection();
        for (_, name, place) in KEPT {
            assert!(text.contains(&format!("set(\\\"{name}\\\", pm.response.json().{place})")), "{name}");
        }
    }
}
