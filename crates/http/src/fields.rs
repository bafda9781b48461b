//! Taking values out of the fields of a body: one reader for both generations.
//!
//! [`Mode::Strict`] (v1) wants the type that is documented. [`Mode::Liberal`] (v2) takes what clients of the family
//! send: whole numbers for texts, empty texts for nothing, empty arrays for empty objects. Problems are collected, so
//! that a caller learns all of them at once.

use std::collections::BTreeMap;

use pix_domain::invalid::Invalid;
use pix_domain::metadata::Metadata;
use pix_domain::money::Amount;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::body::{self, RawFields};
use crate::error::{ApiError, FieldError};

/// The code of a field that has another type than documented.
const INVALID_TYPE: &str = "invalid_type";

/// How closely types are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// v1.
    Strict,
    /// v2.
    Liberal,
}

/// What was wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<FieldError>);

impl Problems {
    /// Notes a problem; `message` is a sentence, or goes on after the field's name when it begins with "must".
    pub(crate) fn add(&mut self, field: &str, code: &'static str, message: &str) {
        self.0.push(FieldError { field: field.to_owned(), code, message: sentence(field, message) });
    }

    /// The error, when there was any problem.
    pub(crate) fn check(self) -> Result<(), ApiError> {
        if self.0.is_empty() { Ok(()) } else { Err(ApiError::invalid(self.0)) }
    }

    /// The error, for a value that is missing because of a problem noted before.
    pub(crate) fn into_error(self) -> ApiError {
        ApiError::invalid(self.0)
    }
}

/// A message of the domain as a sentence: it names its subject, or begins with "must".
pub(crate) fn sentence(field: &str, message: &str) -> String {
    if message.starts_with("must ") { format!("{field} {message}") } else { message.to_owned() }
}

/// A text field.
enum Text {
    Absent,
    /// There, and not a text; a problem has been noted.
    Wrong,
    Given(String),
}

/// The fields of an object of a body.
pub(crate) struct Form<'a> {
    mode: Mode,
    within: String,
    fields: RawFields<'a>,
    /// It was there and no object: its fields are not missing, they can't be looked at.
    wrong: bool,
}

impl<'a> Form<'a> {
    /// The fields of a body.
    pub(crate) fn parse(text: &'a str, mode: Mode) -> Result<Self, ApiError> {
        Ok(Self { mode, within: String::new(), fields: body::object(text)?, wrong: false })
    }

    /// How closely types are looked at.
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// What this is called in errors: nothing for a body, `payer`, `split.0`.
    pub(crate) fn name(&self) -> &str {
        &self.within
    }

    fn path(&self, name: &str) -> String {
        if self.within.is_empty() { name.to_owned() } else { format!("{}.{name}", self.within) }
    }

    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.fields.get(name).copied()
    }

    /// The text of an optional field, `null` when there is nothing: for v2 that is PHP's `false` too.
    fn json(&self, name: &str) -> &'a str {
        let text = self.raw(name).map_or("null", RawValue::get);
        if self.mode == Mode::Liberal && text == "false" { "null" } else { text }
    }

    /// Whether the field says anything.
    pub(crate) fn gives(&self, name: &str) -> bool {
        let text = self.json(name);
        text != "null" && !(self.mode == Mode::Liberal && text == "\"\"")
    }

    /// Whether the field is there at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// The fields of an object within this one. An absent object has none.
    pub(crate) fn child(&self, name: &str, problems: &mut Problems) -> Result<Self, ApiError> {
        let of = |fields, wrong| Self { mode: self.mode, within: self.path(name), fields, wrong };
        let text = self.json(name);
        if text.starts_with('{') {
            return Ok(of(body::object(text)?, false));
        }
        let absent =
            text == "null" || (self.mode == Mode::Liberal && (text == "\"\"" || is_empty_array(text)));
        if !absent {
            problems.add(&self.path(name), INVALID_TYPE, "must be an object");
        }
        Ok(of(RawFields::new(), !absent))
    }

    /// The objects of a list that may be left out, but for those that are none. A list of more than `most` is not looked
    /// into: `too_many` is what is told of it.
    pub(crate) fn objects(
        &self,
        name: &str,
        most: usize,
        too_many: &str,
        problems: &mut Problems,
    ) -> Result<Vec<Self>, ApiError> {
        if !self.gives(name) {
            return Ok(Vec::new());
        }
        let path = self.path(name);
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(self.json(name)) else {
            problems.add(&path, INVALID_TYPE, "must be an array of objects");
            return Ok(Vec::new());
        };
        if items.len() > most {
            problems.add(&path, Invalid::INVALID_FORMAT, too_many);
            return Ok(Vec::new());
        }
        let mut objects = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().map(RawValue::get).enumerate() {
            let within = format!("{path}.{index}");
            if item.starts_with('{') {
                objects.push(Self { mode: self.mode, within, fields: body::object(item)?, wrong: false });
            } else {
                problems.add(&within, INVALID_TYPE, "must be an object");
            }
        }
        Ok(objects)
    }

    fn text(&self, name: &str, problems: &mut Problems) -> Text {
        let text = self.json(name);
        match text.chars().next() {
            Some('n') | None => Text::Absent,
            Some('"') => match serde_json::from_str::<String>(text) {
                Ok(decoded) if decoded.is_empty() && self.mode == Mode::Liberal => Text::Absent,
                Ok(decoded) => Text::Given(decoded),
                Err(_lone_surrogate) => {
                    problems.add(
                        &self.path(name),
                        Invalid::INVALID_CHARACTERS,
                        "must be well-formed Unicode",
                    );
                    Text::Wrong
                }
            },
            Some(_) if self.mode == Mode::Liberal && is_integer(text) => Text::Given(text.to_owned()),
            Some(_) => {
                problems.add(&self.path(name), INVALID_TYPE, "must be a string");
                Text::Wrong
            }
        }
    }

    fn parsed<T>(&self, name: &str, parsed: Result<T, Invalid>, problems: &mut Problems) -> Option<T> {
        parsed.map_err(|invalid| problems.add(&self.path(name), invalid.code, &invalid.message)).ok()
    }

    /// A text that may be left out.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<Option<T>, Invalid>,
        problems: &mut Problems,
    ) -> Option<T> {
        match self.text(name, problems) {
            Text::Absent | Text::Wrong => None,
            Text::Given(text) => self.parsed(name, parse(&text), problems).flatten(),
        }
    }

    /// A text that has to be there.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Invalid>,
        problems: &mut Problems,
    ) -> Option<T> {
        match self.text(name, problems) {
            Text::Absent if self.wrong => None,
            Text::Absent => {
                let path = self.path(name);
                problems.add(&path, Invalid::REQUIRED, &format!("{path} is required"));
                None
            }
            Text::Wrong => None,
            Text::Given(text) => self.parsed(name, parse(&text), problems),
        }
    }

    /// A list of texts that may be left out. Of those that are wrong the first one is told.
    pub(crate) fn texts<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Invalid>,
        problems: &mut Problems,
    ) -> Vec<T> {
        let text = self.json(name);
        if text == "null" {
            return Vec::new();
        }
        let Ok(texts) = serde_json::from_str::<Vec<String>>(text) else {
            problems.add(&self.path(name), INVALID_TYPE, "must be an array of strings");
            return Vec::new();
        };
        // A list that lost what was in it must not stand for everything.
        if texts.is_empty() {
            problems.add(&self.path(name), Invalid::INVALID_FORMAT, "must not be empty");
        }
        let parsed = texts.iter().map(|text| parse(text)).collect();
        self.parsed(name, parsed, problems).unwrap_or_default()
    }

    /// Pairs of texts that may be left out. Of those that are wrong in the same way one is told: there may be very many. v2
    /// has no such field.
    pub(crate) fn pairs(&self, name: &'static str, problems: &mut Problems) -> Result<Metadata, ApiError> {
        let mut pairs = Metadata::default();
        if self.mode == Mode::Liberal {
            return Ok(pairs);
        }
        let child = self.child(name, problems)?;
        let (mut no_text, mut refused) = (Problems::default(), BTreeMap::new());
        for key in child.fields.keys() {
            let value = match child.text(key, &mut no_text) {
                Text::Given(value) => value,
                Text::Wrong => continue,
                Text::Absent => String::new(),
            };
            if let Err(invalid) = pairs.insert(key, &value) {
                refused.insert(invalid.message, invalid.code);
            }
        }
        problems.0.extend(no_text.0.into_iter().take(1));
        for (message, code) in refused {
            problems.add(name, code, &message);
        }
        Ok(pairs)
    }

    /// An amount that is there: the digits of a JSON number, or of a string, read as centavos.
    pub(crate) fn amount(&self, name: &str, problems: &mut Problems) -> Option<Amount> {
        self.digits(name, Amount::parse, problems)
    }

    /// A number that is there: the digits of a JSON number, or of a string, as they are.
    pub(crate) fn digits<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Invalid>,
        problems: &mut Problems,
    ) -> Option<T> {
        let Some(raw) = self.raw(name) else {
            let path = self.path(name);
            problems.add(&path, Invalid::REQUIRED, &format!("{path} is required"));
            return None;
        };
        let text = raw.get();
        let parsed = match text.chars().next() {
            Some('"') => parse(&serde_json::from_str::<String>(text).unwrap_or_default()),
            _ => parse(text),
        };
        self.parsed(name, parsed, problems)
    }

    /// A whole number within bounds that may be left out. v2 takes it as a text too.
    pub(crate) fn whole_number(
        &self,
        name: &str,
        bounds: std::ops::RangeInclusive<u64>,
        problems: &mut Problems,
    ) -> Option<u64> {
        let text = self.json(name);
        let digits = match self.mode {
            Mode::Strict => text,
            Mode::Liberal => text.trim_matches('"'),
        };
        if text == "null" || digits.is_empty() {
            return None;
        }
        // JSON Schema goes by the value: 60.0 is a whole number.
        let digits = match digits.split_once('.') {
            Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => whole,
            _ => digits,
        };
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse::<u64>().ok().filter(|number| plain && bounds.contains(number));
        if number.is_none() {
            let message = format!("must be a whole number from {} to {}", bounds.start(), bounds.end());
            problems.add(&self.path(name), Invalid::INVALID_FORMAT, &message);
        }
        number
    }
}

fn is_integer(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}

fn is_empty_array(text: &str) -> bool {
    text.starts_with('[') && serde_json::from_str::<Vec<IgnoredAny>>(text).is_ok_and(|items| items.is_empty())
}

#[cfg(test)]
mod tests {
    use pix_domain::text::{Description, ExternalId};

    use super::*;

    fn amount(json: &str) -> Result<i64, String> {
        let body = format!("{{\"amount\":{json}}}");
        let form = Form::parse(&body, Mode::Strict).map_err(|error| error.to_string())?;
        let mut problems = Problems::default();
        let amount = form.amount("amount", &mut problems);
        problems.check().map_err(|error| error.to_string())?;
        Ok(amount.unwrap().cents().get())
    }

    #[test]
    fn an_amount_is_the_digits_that_were_sent() {
        for (json, cents) in [
            ("19.99", 1999),
            ("\"19.99\"", 1999),
            ("15", 1500),
            ("10.5", 1050),
            ("9999999999.99", 999_999_999_999),
            ("1.0E7", 1_000_000_000),
            ("\"1.0E7\"", 1_000_000_000),
        ] {
            assert_eq!(amount(json), Ok(cents), "{json}");
        }
    }

    #[test]
    fn every_other_amount_is_refused() {
        for json in [
            "-1",
            "0",
            "-0",
            "0.001",
            "10.555",
            "1e10",
            "1E-3",
            "1e400",
            "1e10000000",
            "\"\"",
            "\" 1\"",
            "\"1,00\"",
            "null",
            "[]",
            "{}",
            "true",
            "\"NaN\"",
            "12345678901",
            "\"\\ud800\"",
            "\"1e10\"",
            "{\"$gt\":0}",
            "\"١٢\"",
        ] {
            assert_eq!(amount(json), Err("invalid_amount".into()), "{json}");
        }
        assert_eq!(amount(&"9".repeat(60_000)), Err("invalid_amount".into()));
        for json in ["1_000", "NaN", "0x10", "1,00", "01", "+1", ".5"] {
            assert_eq!(amount(json), Err("malformed_request".into()), "{json}");
        }
    }

    fn external_id(json: &str, mode: Mode) -> Result<Option<String>, String> {
        let body = format!("{{\"external_id\":{json}}}");
        let form = Form::parse(&body, mode).unwrap();
        let mut problems = Problems::default();
        let id = form.optional("external_id", ExternalId::parse_optional, &mut problems);
        match problems.0.first() {
            Some(problem) => Err(problem.message.clone()),
            None => Ok(id.map(|id| id.as_str().to_owned())),
        }
    }

    #[test]
    fn v2_takes_numbers_for_texts_and_v1_does_not() {
        assert_eq!(external_id("42", Mode::Liberal), Ok(Some("42".into())));
        assert_eq!(external_id("42", Mode::Strict), Err("external_id must be a string".into()));
        assert_eq!(external_id("-5", Mode::Liberal), Ok(Some("-5".into())));
        assert_eq!(external_id("\"\"", Mode::Liberal), Ok(None));
        assert_eq!(external_id("false", Mode::Liberal), Ok(None));
        assert_eq!(external_id("false", Mode::Strict), Err("external_id must be a string".into()));
        assert_eq!(external_id("null", Mode::Strict), Ok(None));
        for json in ["1.5", "true", "{}", "[]"] {
            assert!(external_id(json, Mode::Liberal).is_err(), "{json}");
        }
    }

    #[test]
    fn a_list_of_texts_is_told_of_once_however_much_of_it_is_wrong() {
        let texts = |json: &str| {
            let body = format!("{{\"types\":{json}}}");
            let mut problems = Problems::default();
            let texts =
                Form::parse(&body, Mode::Strict).unwrap().texts("types", Description::parse, &mut problems);
            (texts.len(), problems.0.len())
        };
        assert_eq!(texts("null"), (0, 0));
        assert_eq!(texts("[]"), (0, 1), "it may have lost what was in it");
        assert_eq!(texts(r#"["a","b"]"#), (2, 0));
        for json in [r#"["a","",""]"#, "[1]", r#"["a",null]"#, r#""a""#, "{}", "1", r#"["\ud800"]"#] {
            assert_eq!(texts(json), (0, 1), "{json}");
        }
    }

    #[test]
    fn what_is_no_object_in_a_list_of_objects_is_told_of_by_its_place() {
        let objects = |json: &str, mode| {
            let body = format!("{{\"split\":{json}}}");
            let mut problems = Problems::default();
            let form = Form::parse(&body, mode).unwrap();
            let objects = form.objects("split", 3, "must not be so long", &mut problems).unwrap();
            let names: Vec<_> = objects.iter().map(|object| object.name().to_owned()).collect();
            let told: Vec<_> = problems.0.into_iter().map(|problem| (problem.field, problem.code)).collect();
            (names, told)
        };
        let one = |field: &str, code| vec![(field.to_owned(), code)];
        for mode in [Mode::Strict, Mode::Liberal] {
            for json in ["null", "[]", " [ ] "] {
                assert_eq!(objects(json, mode), (vec![], vec![]), "{json}");
            }
            let (names, told) = objects("[{}, 1, {\"a\": 2}]", mode);
            assert_eq!(
                (&names[..], told),
                (&["split.0", "split.2"].map(str::to_owned)[..], one("split.1", INVALID_TYPE))
            );
            for json in ["{}", "1", "\"x\"", "true"] {
                assert_eq!(objects(json, mode), (vec![], one("split", INVALID_TYPE)), "{json}");
            }
            let too_many = one("split", Invalid::INVALID_FORMAT);
            assert_eq!(objects("[1,{},{},{}]", mode), (vec![], too_many));
        }
        for json in ["false", "\"\""] {
            assert_eq!(objects(json, Mode::Liberal), (vec![], vec![]), "{json}");
            assert_eq!(objects(json, Mode::Strict), (vec![], one("split", INVALID_TYPE)), "{json}");
        }
        let form = Form::parse("{\"split\":[{\"a\":1,\"a\":2}]}", Mode::Strict).unwrap();
        let error = form.objects("split", 3, "", &mut Problems::default()).err().unwrap();
        assert_eq!(error.to_string(), "malformed_request");
    }

    #[test]
    fn an_object_of_another_type_is_one_problem_and_not_one_for_each_field() {
        let mut problems = Problems::default();
        let form = Form::parse("{\"payer\":\"Ana\"}", Mode::Strict).unwrap();
        let payer = form.child("payer", &mut problems).unwrap();
        assert!(payer.required("name", Description::parse, &mut problems).is_none());
        assert_eq!(problems.0.len(), 1);
        assert_eq!(problems.0[0].message, "payer must be an object");
    }

    #[test]
    fn all_problems_are_told_each_with_its_field() {
        let mut problems = Problems::default();
        let form = Form::parse("{\"a\":1,\"payer\":{}}", Mode::Strict).unwrap();
        form.optional("a", Description::parse_optional, &mut problems);
        form.amount("amount", &mut problems);
        let payer = form.child("payer", &mut problems).unwrap();
        payer.required("name", Description::parse, &mut problems);
        let told: Vec<_> = problems.0.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
        assert_eq!(told, [("a", "invalid_type"), ("amount", "required"), ("payer.name", "required")]);
    }

    #[test]
    fn an_object_within_that_names_a_field_twice_is_malformed() {
        let form = Form::parse("{\"payer\":{\"name\":\"a\",\"name\":\"b\"}}", Mode::Liberal).unwrap();
        let error = form.child("payer", &mut Problems::default()).err().unwrap();
        assert_eq!(error.to_string(), "malformed_request");
    }

    #[test]
    fn whole_numbers_have_bounds() {
        let number = |json: &str, mode| {
            let body = format!("{{\"expiration\":{json}}}");
            let mut problems = Problems::default();
            let number =
                Form::parse(&body, mode).unwrap().whole_number("expiration", 60..=100, &mut problems);
            (number, problems.0.len())
        };
        assert_eq!(number("60", Mode::Strict), (Some(60), 0));
        assert_eq!(number("\"100\"", Mode::Liberal), (Some(100), 0));
        assert_eq!(number("\"100\"", Mode::Strict), (None, 1));
        assert_eq!(number("\"\"", Mode::Liberal), (None, 0));
        assert_eq!(number("null", Mode::Strict), (None, 0));
        assert_eq!(number("60.00", Mode::Strict), (Some(60), 0));
        for json in
            ["59", "101", "60.5", "\"60.\"", "59.0", "6e1", "-60", "\"+60\"", "[]", "99999999999999999999999"]
        {
            assert_eq!(number(json, Mode::Liberal), (None, 1), "{json}");
        }
    }
}
