//! The page that shows the document: one piece of HTML without scripts, and without anything from elsewhere. It is written
//! from the same model as the document, once.

mod schema;

use std::fmt::Write;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, RefOr};

use super::{MODEL, tagged};
use crate::html::{escaped, line};

const STYLE: &str = include_str!("page/style.css");

static HTML: LazyLock<String> = LazyLock::new(|| write(&MODEL));

/// The page.
pub(crate) fn html() -> &'static str {
    &HTML
}

/// What the page may load: its own style, by its digest, and nothing else (Content Security Policy, level 3).
pub(crate) fn policy() -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// What descriptions are written in: paragraphs, with `code` and **strong** words.
fn prose(text: &str) -> String {
    let paragraphs = text
        .split("\n\n")
        .filter(|paragraph| !paragraph.is_empty())
        .map(|paragraph| format!("<p>{}</p>", line(paragraph)));
    paragraphs.collect()
}

/// The form of a value that JSON gives it.
pub(super) fn value_of(anything: &impl Serialize) -> Value {
    serde_json::to_value(anything).unwrap_or_default()
}

/// The text at `pointer`, or none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What is said of a schema, or of the one that it is when it isn't `null`.
fn description(schema: &Value) -> &str {
    let within = ["/description", "/oneOf/0/description", "/oneOf/1/description"];
    within.into_iter().map(|pointer| text(schema, pointer)).find(|text| !text.is_empty()).unwrap_or_default()
}

fn write(model: &OpenApi) -> String {
    let about = model.info.description.as_deref().unwrap_or_default();
    let (title, version) = (escaped(&model.info.title), escaped(&model.info.version));
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} {version}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<header><h1>{title} <small>{version}</small></h1>\n{}\
         <p><a href=\"openapi.json\" download>The OpenAPI document</a></p></header>\n",
        prose(about)
    );
    contents(&mut html, model);
    html.push_str("<main>\n");
    for tag in model.tags.iter().flatten() {
        let description = tag.description.as_deref().unwrap_or_default();
        let _ =
            writeln!(html, "<section id=\"tag-{0}\"><h2>{0}</h2>{1}", escaped(&tag.name), prose(description));
        for (method, path, operation) in tagged(model, &tag.name) {
            write_operation(&mut html, model, method, path, operation);
        }
        html.push_str("</section>\n");
    }
    html.push_str("<section id=\"schemas\"><h2>Schemas</h2>\n");
    for (name, schema) in model.components.iter().flat_map(|components| &components.schemas) {
        schema::write(&mut html, name, schema);
    }
    html.push_str("</section>\n</main>\n</body>\n</html>\n");
    html
}

fn contents(html: &mut String, model: &OpenApi) {
    html.push_str("<nav aria-label=\"Contents\">\n");
    for tag in model.tags.iter().flatten() {
        let _ = writeln!(html, "<h2><a href=\"#tag-{0}\">{0}</a></h2><ul>", escaped(&tag.name));
        for (method, path, operation) in tagged(model, &tag.name) {
            let id = operation.operation_id.as_deref().unwrap_or_default();
            let _ = writeln!(
                html,
                "<li><a href=\"#{}\"><b>{}</b> {}</a></li>",
                escaped(id),
                escaped(method),
                escaped(path)
            );
        }
        html.push_str("</ul>\n");
    }
    html.push_str("<h2><a href=\"#schemas\">Schemas</a></h2>\n</nav>\n");
}

fn write_operation(html: &mut String, model: &OpenApi, method: &str, path: &str, operation: &Operation) {
    let id = escaped(operation.operation_id.as_deref().unwrap_or_default());
    let summary = line(operation.summary.as_deref().unwrap_or_default());
    let _ = writeln!(
        html,
        "<article id=\"{id}\"><h3><a href=\"#{id}\">{summary}</a></h3>\n<p class=\"call\"><b>{}</b> <code>{}</code> \
         <small>{id}</small></p>\n{}",
        escaped(method),
        escaped(path),
        prose(operation.description.as_deref().unwrap_or_default())
    );
    write_parameters(html, operation);
    if let Some(RefOr::T(body)) = &operation.request_body {
        html.push_str("<h4>Body</h4>\n");
        html.push_str(&prose(body.description.as_deref().unwrap_or_default()));
        html.push_str("<ul>\n");
        for (media_type, content) in &body.content {
            write_content(html, media_type, &value_of(content));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("<h4>Answers</h4>\n<table><thead><tr><th>Status</th><th></th><th>Body</th><th>Header fields</th></tr></thead><tbody>\n");
    for (status, response) in &operation.responses.responses {
        write_answer(html, status, &resolved(model, response));
    }
    html.push_str("</tbody></table></article>\n");
}

fn write_parameters(html: &mut String, operation: &Operation) {
    let parameters: Vec<Value> = operation.parameters.iter().flatten().map(value_of).collect();
    if parameters.is_empty() {
        return;
    }
    html.push_str("<h4>Parameters</h4>\n<table><thead><tr><th>Name</th><th>In</th><th>Type</th><th></th></tr></thead><tbody>\n");
    for parameter in &parameters {
        let required = parameter.pointer("/required") == Some(&Value::Bool(true));
        let schema = parameter.get("schema").cloned().unwrap_or_default();
        let _ = writeln!(
            html,
            "<tr><td><code>{}</code>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>",
            escaped(text(parameter, "/name")),
            if required { " <em>required</em>" } else { "" },
            escaped(text(parameter, "/in")),
            schema::kind(&schema),
            line(text(parameter, "/description")),
            schema::facts(&schema)
        );
    }
    html.push_str("</tbody></table>\n");
}

fn write_content(html: &mut String, media_type: &str, content: &Value) {
    let schema = content.get("schema").cloned().unwrap_or_default();
    let _ = writeln!(html, "<li><code>{}</code>: {}", escaped(media_type), schema::kind(&schema));
    for (name, example) in content.get("examples").and_then(Value::as_object).into_iter().flatten() {
        let shown = example.get("value").map(|value| format!("{value:#}")).unwrap_or_default();
        let _ = writeln!(
            html,
            "<details><summary>Example: {}</summary><pre>{}</pre></details>",
            escaped(name),
            escaped(&shown)
        );
    }
    html.push_str("</li>\n");
}

/// What an answer is, where it is described under `components` too.
fn resolved(model: &OpenApi, response: &impl Serialize) -> Value {
    let response = value_of(response);
    let name = text(&response, "/$ref").rsplit('/').next().unwrap_or_default();
    let shared = model.components.as_ref().and_then(|components| components.responses.get(name));
    shared.map_or(response.clone(), value_of)
}

fn write_answer(html: &mut String, status: &str, answer: &Value) {
    let bodies = answer.get("content").and_then(Value::as_object).into_iter().flatten();
    let bodies: Vec<String> = bodies
        .map(|(media_type, content)| {
            let schema = content.get("schema").cloned().unwrap_or_default();
            format!("{}<br><small>{}</small>", schema::kind(&schema), escaped(media_type))
        })
        .collect();
    let fields = answer.get("headers").and_then(Value::as_object).into_iter().flatten();
    let fields: Vec<String> = fields.map(|(name, _)| format!("<code>{}</code>", escaped(name))).collect();
    let _ = writeln!(
        html,
        "<tr><td><b>{}</b></td><td>{}</td><td>{}</td><td>{}</td></tr>",
        escaped(status),
        line(text(answer, "/description")),
        bodies.join("<br>"),
        fields.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_operation_and_every_schema_and_every_link_leads_somewhere() {
        let html = html();
        let places: Vec<&str> =
            html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let document = value_of(&*MODEL);
        let items = ["/paths", "/webhooks"].map(|pointer| document.pointer(pointer).unwrap());
        for item in items.into_iter().flat_map(|items| items.as_object().unwrap().values()) {
            for operation in item.as_object().unwrap().values() {
                let id = text(operation, "/operationId");
                assert!(places.contains(&id), "no {id}");
            }
        }
        for link in html.split("href=\"#").skip(1) {
            let link = link.split('"').next().unwrap();
            assert_eq!(places.iter().filter(|place| **place == link).count(), 1, "#{link}");
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_runs() {
        let html = html();
        for forbidden in
            ["<script", "<link", "<img", "src=", " style=", " onload=", "url(", "@import", "http-equiv"]
        {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        assert!(policy().starts_with("default-src 'none'; style-src 'sha256-"));
    }

    #[test]
    fn what_is_said_is_text_and_not_markup() {
        assert_eq!(line("a <b> & `c<d` **e**"), "a &lt;b&gt; &amp; <code>c&lt;d</code> <strong>e</strong>");
        assert_eq!(prose("a\n\nb"), "<p>a</p><p>b</p>");
    }
}
