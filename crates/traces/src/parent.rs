//! `traceparent`: where in a trace something is.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The only version there is; what a later one has more is behind these characters.
const VERSION_CHARS: usize = 55;

/// One step of a trace, as it is told to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    pub(crate) sampled: bool,
}

impl TraceParent {
    /// Reads a field's value: version, trace, the caller's span and flags, in lower-case hexadecimal. `None` for any other
    /// text.
    pub fn parse(text: &str) -> Option<Self> {
        let (known, rest) = text.split_at_checked(VERSION_CHARS)?;
        let lower_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b'-');
        let mut parts = known.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let shape = (version.len(), trace.len(), span.len(), flags.len());
        let later = version != "00" && rest.starts_with('-');
        let fits = shape == (2, 32, 16, 2) && known.bytes().all(lower_hex) && version != "ff";
        if !fits || !(rest.is_empty() || later) {
            return None;
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace_id, span_id, sampled })
    }

    /// The id of the whole trace, as it is written.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The id of this step, as it is written.
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span_id)
    }
}

/// As the field's value has it.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

/// A number that is most likely nobody else's, and not 0; nothing rests on its being a secret.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_in_form_is_read_as_it_is_written() {
        let given = TraceParent::parse(GIVEN).unwrap();
        assert_eq!(given.to_string(), GIVEN);
        assert_eq!(given.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(given.span_id(), "00f067aa0ba902b7");
        let later =
            TraceParent::parse("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02-more").unwrap();
        assert_eq!(later, TraceParent { sampled: false, ..given });
    }

    #[test]
    fn what_is_out_of_form_is_not_read() {
        for text in [
            "",
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902bç-1",
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }
}
