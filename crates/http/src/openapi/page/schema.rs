//! Schemas, for people.

use std::fmt::Write;

use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use super::{description, escaped, line, prose, value_of};

/// Keywords whose value is shown as it is, and the words before it.
const BOUNDS: [(&str, &str); 11] = [
    ("format", "format"),
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("multipleOf", "a multiple of"),
    ("minLength", "characters, at least"),
    ("maxLength", "characters, at most"),
    ("minItems", "items, at least"),
    ("maxItems", "items, at most"),
    ("pattern", "fits"),
    ("default", "default"),
    ("example", "such as"),
];

/// Of which kind a schema is, in a few words.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = schema.pointer("/$ref").and_then(Value::as_str) {
        let name = escaped(name.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for (keyword, word) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let Some(schemas) = schema.get(keyword).and_then(Value::as_array) {
            return schemas.iter().map(kind).collect::<Vec<_>>().join(word);
        }
    }
    let named = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        Some(Value::String(one)) => one.clone(),
        _ => "anything".to_owned(),
    };
    match schema.get("items") {
        Some(items) if named.starts_with("array") => format!("{} of {}", escaped(&named), kind(items)),
        _ => escaped(&named),
    }
}

/// What a value must be like.
pub(super) fn facts(schema: &Value) -> String {
    let code = |value: &Value| {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("<code>{}</code>", escaped(&shown))
    };
    let mut facts: Vec<String> = BOUNDS
        .iter()
        .filter_map(|(keyword, words)| Some(format!("{words} {}", code(schema.get(keyword)?))))
        .collect();
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        facts.push(format!("one of {}", values.iter().map(code).collect::<Vec<_>>().join(" ")));
    }
    if let Some(example) = schema.pointer("/examples/0") {
        facts.push(format!("such as {}", code(example)));
    }
    if facts.is_empty() { String::new() } else { format!(" <small>{}</small>", facts.join("; ")) }
}

/// A schema of its own.
pub(super) fn write(html: &mut String, name: &str, schema: &RefOr<Schema>) {
    let value = value_of(schema);
    let name = escaped(name);
    let _ = writeln!(
        html,
        "<article id=\"schema-{name}\"><h3><a href=\"#schema-{name}\">{name}</a> <small>{}</small></h3>{}{}",
        kind(&value),
        prose(description(&value)),
        facts(&value)
    );
    write_fields(html, schema);
    html.push_str("</article>\n");
}

/// The fields of an object, in the order in which they are written.
fn write_fields(html: &mut String, schema: &RefOr<Schema>) {
    let objects: Vec<&utoipa::openapi::Object> = match schema {
        RefOr::T(Schema::Object(object)) => vec![object],
        RefOr::T(Schema::AllOf(all)) => {
            let objects = all.items.iter().filter_map(|item| match item {
                RefOr::T(Schema::Object(object)) => Some(object),
                _ => None,
            });
            objects.collect()
        }
        _ => Vec::new(),
    };
    for object in objects.into_iter().filter(|object| !object.properties.is_empty()) {
        html.push_str("<table><thead><tr><th>Field</th><th>Type</th><th></th></tr></thead><tbody>\n");
        for (name, property) in &object.properties {
            let value = value_of(property);
            let required = if object.required.contains(name) { " <em>required</em>" } else { "" };
            let _ = writeln!(
                html,
                "<tr><td><code>{}</code>{required}</td><td>{}</td><td>{}{}</td></tr>",
                escaped(name),
                kind(&value),
                line(description(&value)),
                facts(&value)
            );
        }
        html.push_str("</tbody></table>\n");
    }
}

#[cfg(test)]
mod tests {
    use utoipa::openapi::Ref;
    use utoipa::openapi::schema::{SchemaType, Type};

    use super::*;

    #[test]
    fn a_schema_is_told_in_a_few_words() {
        let or_null =
            serde_json::json!({"oneOf": [{"type": "null"}, value_of(&Ref::from_schema_name("Charge"))]});
        assert_eq!(kind(&or_null), "null or <a href=\"#schema-Charge\">Charge</a>");
        let several = value_of(&SchemaType::from_iter([Type::String, Type::Null]));
        assert_eq!(kind(&serde_json::json!({"type": several})), "string or null");
        assert_eq!(
            kind(&serde_json::json!({"type": "array", "items": {"type": "string"}})),
            "array of string"
        );
    }
}
