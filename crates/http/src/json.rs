//! Writing JSON objects field by field, in order.
//!
//! Amounts are written as the digits of their centavos, never through a float; what a provider answered passes
//! through as the text it is.

use pix_domain::money::Cents;
use pix_domain::provider::ProviderBody;

use crate::body;

/// The longest body of a provider whose other fields are passed on.
const MAX_PASSED_ON_BYTES: usize = 64 * 1024;

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Centavos that may be less than nothing, in reais: `-15.5`.
pub(crate) fn signed(cents: i64) -> String {
    let reais = Cents::new(cents.saturating_abs()).unwrap_or_default().plain();
    if cents < 0 { format!("-{reais}") } else { reais }
}

/// A JSON array of JSON texts.
pub(crate) fn array(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

/// An object being written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object {
    text: String,
    names: Vec<&'static str>,
}

impl Object {
    /// An object without fields.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A field whose value is JSON text already.
    pub(crate) fn raw(mut self, name: &'static str, json: &str) -> Self {
        self.names.push(name);
        self.push(name, json);
        self
    }

    fn push(&mut self, name: &str, json: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.text.push_str(&quoted(name));
        self.text.push(':');
        self.text.push_str(json);
    }

    /// A text.
    pub(crate) fn text(self, name: &'static str, text: &str) -> Self {
        self.raw(name, &quoted(text))
    }

    /// A text under a name that isn't known beforehand. It must not be there already.
    pub(crate) fn named(mut self, name: &str, text: &str) -> Self {
        self.push(name, &quoted(text));
        self
    }

    /// A text, or `null`.
    pub(crate) fn maybe(self, name: &'static str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self.raw(name, "null"),
        }
    }

    /// An amount in reais: `15`, `15.5`, `15.55`.
    pub(crate) fn money(self, name: &'static str, cents: Cents) -> Self {
        self.raw(name, &cents.plain())
    }

    /// An amount, or `null`.
    pub(crate) fn maybe_money(self, name: &'static str, cents: Option<Cents>) -> Self {
        match cents {
            Some(cents) => self.money(name, cents),
            None => self.raw(name, "null"),
        }
    }

    /// A whole number.
    pub(crate) fn number(self, name: &'static str, number: u64) -> Self {
        self.raw(name, &number.to_string())
    }

    /// An object.
    pub(crate) fn object(self, name: &'static str, object: Self) -> Self {
        self.raw(name, &object.end())
    }

    /// The fields of another object after these.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        if let Some(fields) = other.text.strip_prefix('{') {
            self.text.push(if self.text.is_empty() { '{' } else { ',' });
            self.text.push_str(fields);
            self.names.extend(&other.names);
        }
        self
    }

    /// The provider's fields, but for those that are here already. A body that is none or too long adds nothing.
    pub(crate) fn passing_on(mut self, provider: Option<&ProviderBody>) -> Self {
        let Some(ProviderBody(text)) = provider.filter(|body| body.0.len() <= MAX_PASSED_ON_BYTES) else {
            return self;
        };
        let Ok(fields) = body::object(text) else { return self };
        for (name, value) in fields {
            if !self.names.iter().any(|ours| *ours == name) {
                self.push(&name, value.get());
            }
        }
        self
    }

    /// The JSON text.
    pub(crate) fn end(mut self) -> String {
        if self.text.is_empty() {
            self.text.push('{');
        }
        self.text.push('}');
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_texts_are_escaped() {
        let object = Object::new()
            .text("b", "\"\n\u{1}é")
            .money("a", Cents::new(1550).unwrap())
            .maybe("n", None)
            .object("o", Object::new());
        assert_eq!(object.end(), r#"{"b":"\"\n\u0001é","a":15.5,"n":null,"o":{}}"#);
        assert_eq!(array(["1".to_owned(), "2".to_owned()]), "[1,2]");
    }

    #[test]
    fn the_providers_fields_pass_on_untouched_but_never_replace_ours() {
        let body = ProviderBody(r#"{"amount":1e2,"x":1.10,"y":{"z":[1, 2]}}"#.into());
        let ours = Object::new().money("amount", Cents::new(100).unwrap());
        assert_eq!(ours.passing_on(Some(&body)).end(), r#"{"amount":1,"x":1.10,"y":{"z":[1, 2]}}"#);
    }

    #[test]
    fn a_body_of_the_provider_that_is_no_object_adds_nothing() {
        let too_long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_PASSED_ON_BYTES));
        for text in ["", "[1]", "{", "{\"a\":1,\"a\":2}", &too_long] {
            let body = ProviderBody(text.to_owned());
            assert_eq!(Object::new().text("a", "b").passing_on(Some(&body)).end(), r#"{"a":"b"}"#);
        }
    }

    #[test]
    fn two_objects_are_joined() {
        let joined = Object::new().text("a", "1").and(&Object::new().text("b", "2")).and(&Object::new());
        assert_eq!(joined.end(), r#"{"a":"1","b":"2"}"#);
        assert_eq!(Object::new().and(&Object::new().text("b", "2")).end(), r#"{"b":"2"}"#);
    }
}
