//! `tracestate`: what the tracing systems of others have to say of a trace. It is passed on as it came, and never looked at.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The most list members there may be (§3.3.1.1 of the recommendation).
pub const MAX_STATE_MEMBERS: usize = 32;
/// The most characters that are passed on, all fields together: as many as §3.3.1.5 asks for.
pub const MAX_STATE_CHARS: usize = 512;

const MAX_KEY_CHARS: usize = 256;
const MAX_TENANT_CHARS: usize = 241;
const MAX_SYSTEM_CHARS: usize = 14;
const MAX_VALUE_CHARS: usize = 256;

/// A `tracestate` in form.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceState(Arc<str>);

impl TraceState {
    /// That of a request, whose fields, if there are several, make up one list. `None` when there is no member, and when any
    /// of it is out of form or too much: then all of it is left out.
    pub fn of<'a>(fields: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut keys = BTreeSet::new();
        let mut kept: Vec<&str> = Vec::new();
        let mut chars: usize = 0;
        for member in fields.into_iter().flat_map(|field| field.split(',')) {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=')?;
            chars = chars.saturating_add(member.len()).saturating_add(usize::from(!kept.is_empty()));
            let fits = is_key(key) && is_value(value) && keys.insert(key);
            if !fits || kept.len() == MAX_STATE_MEMBERS || chars > MAX_STATE_CHARS {
                return None;
            }
            kept.push(member);
        }
        (!kept.is_empty()).then(|| Self(kept.join(",").into()))
    }

    /// As one field's value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Redacted: nobody here knows what others write into it.
impl fmt::Debug for TraceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceState({} characters)", self.0.len())
    }
}

fn is_key(key: &str) -> bool {
    let begins = |text: &str, with: fn(&u8) -> bool| text.as_bytes().first().is_some_and(with);
    let goes_on = |text: &str| {
        text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'*' | b'/')
        })
    };
    match key.split_once('@') {
        None => key.len() <= MAX_KEY_CHARS && begins(key, u8::is_ascii_lowercase) && goes_on(key),
        Some((tenant, system)) => {
            let short = tenant.len() <= MAX_TENANT_CHARS && system.len() <= MAX_SYSTEM_CHARS;
            let digit_or_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            let begin = begins(tenant, digit_or_letter) && begins(system, u8::is_ascii_lowercase);
            short && begin && goes_on(tenant) && goes_on(system)
        }
    }
}

/// The blanks around it are gone.
fn is_value(value: &str) -> bool {
    let printable = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    (1..=MAX_VALUE_CHARS).contains(&value.len()) && value.bytes().all(printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> Option<String> {
        TraceState::of(fields.iter().copied()).map(|state| state.as_str().to_owned())
    }

    #[test]
    fn what_is_in_form_is_one_list() {
        for (fields, expected) in [
            (&["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"][..], "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
            (&["rojo=1", "congo=2"], "rojo=1,congo=2"),
            (&[" rojo=1 ,\t, congo=a b "], "rojo=1,congo=a b"),
            (&["1tenant@system=x:y;z"], "1tenant@system=x:y;z"),
            (&["a_-*/9=~"], "a_-*/9=~"),
        ] {
            assert_eq!(of(fields).as_deref(), Some(expected), "{fields:?}");
        }
        let longest = format!("{}={}", "k".repeat(255), "v".repeat(256));
        assert_eq!(of(&[&longest]).as_deref(), Some(longest.as_str()));
        let most = (0..32).map(|number| format!("k{number}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(of(&[&most]).as_deref(), Some(most.as_str()));
    }

    #[test]
    fn what_is_out_of_form_or_too_much_is_left_out_as_a_whole() {
        let many = (0..33).map(|number| format!("k{number}=v")).collect::<Vec<_>>().join(",");
        let long_key = format!("{}=v", "k".repeat(257));
        let long_value = format!("k={}", "v".repeat(257));
        let long = format!("a={},b={}", "v".repeat(256), "v".repeat(252));
        let long_system = format!("t@{}=v", "s".repeat(15));
        for text in [
            "",
            " , ",
            "rojo",
            "rojo=",
            "=1",
            "Rojo=1",
            "1rojo=1",
            "ro jo=1",
            "rojo =1",
            "rojo=1=2",
            "rojo=ç",
            "rojo=1,rojo=2",
            "a@b@c=1",
            "@b=1",
            "a@=1",
            "a@1b=1",
            "good=1,Bad=2",
            &many,
            &long_key,
            &long_value,
            &long,
            &long_system,
        ] {
            assert_eq!(of(&[text]), None, "{text}");
        }
        assert_eq!(of(&["rojo=1", "rojo=2"]), None, "twice over two fields");
        assert_eq!(of(&[]), None);
    }
}
