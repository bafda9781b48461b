//! Why a text was refused: the one error of every value type that is parsed from what a caller sent.
//!
//! It must never carry the refused value: documents, keys, names and addresses are personal data, and the
//! message of an [`Invalid`] is shown to operators and written to logs.

/// Why a text can't be a value of some type: a stable machine code and a sentence for a person (never the
/// value itself: it may be personal data).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// One of the constants of this type; public, so it never changes.
    pub code: &'static str,
    /// What was expected, in words.
    pub message: String,
}

impl Invalid {
    /// Nothing was given where something has to be.
    pub const REQUIRED: &'static str = "required";
    /// The text hasn't the form of such a value.
    pub const INVALID_FORMAT: &'static str = "invalid_format";
    /// The text holds control, invisible or direction-changing characters.
    pub const INVALID_CHARACTERS: &'static str = "invalid_characters";
    /// The text is longer than allowed.
    pub const TOO_LONG: &'static str = "too_long";
    /// The text is none of the allowed words.
    pub const UNKNOWN_VALUE: &'static str = "unknown_value";
    /// The form is right, but the check digits are not those of the number.
    pub const CHECK_DIGITS: &'static str = "check_digits";

    /// A refusal with this code and sentence.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn required(what: &str) -> Self {
        Self::new(Self::REQUIRED, format!("{what} is required"))
    }

    pub(crate) fn format(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_FORMAT, message)
    }

    pub(crate) fn too_long(what: &str, max_chars: usize) -> Self {
        Self::new(Self::TOO_LONG, format!("{what} must have at most {max_chars} characters"))
    }

    pub(crate) fn characters(what: &str) -> Self {
        Self::new(
            Self::INVALID_CHARACTERS,
            format!("{what} must not contain control, invisible or direction-changing characters"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_is_what_is_displayed() {
        let invalid = Invalid::too_long("description", 140);
        assert_eq!(invalid.code, "too_long");
        assert_eq!(invalid.to_string(), "description must have at most 140 characters");
    }
}
