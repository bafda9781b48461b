//! Free text and identifiers that callers choose: what characters and how many of them are let in.
//!
//! One rule ([`clean`]) serves every free text, so that no name can hide, reorder or break what is shown
//! around it in a log, on a receipt or on the payment page. Nothing here knows where a text goes.

use std::borrow::Cow;
use std::fmt;

use crate::invalid::Invalid;

/// Most characters of an external id.
pub const EXTERNAL_ID_MAX_CHARS: usize = 120;
/// Most characters of a description.
pub const DESCRIPTION_MAX_CHARS: usize = 140;
/// Most characters of a question to the payer (`solicitacaoPagador` of BCB's API Pix).
pub const PAYER_QUESTION_MAX_CHARS: usize = 140;
/// Most characters of a person's name (`devedor.nome` of BCB's API Pix).
pub const PERSON_NAME_MAX_CHARS: usize = 200;
/// Most characters of an e-mail address (RFC 5321 §4.5.3.1.3, less the angle brackets).
pub const EMAIL_MAX_CHARS: usize = 254;
/// Most characters of a postback URL.
pub const POSTBACK_URL_MAX_CHARS: usize = 2048;
/// Most characters of an idempotency key.
pub const IDEMPOTENCY_KEY_MAX_CHARS: usize = 255;
/// Most characters of a label of a domain name (RFC 1035 §2.3.4).
pub(crate) const DOMAIN_LABEL_MAX_CHARS: usize = 63;

const UTF8_MAX_BYTES_PER_CHAR: usize = 4;

/// Trims a free text and refuses what can't be shown safely: control characters, line and paragraph
/// separators, direction changes and invisible characters. `what` names the text in the refusal.
///
/// An empty text is fine here: whether something has to be there is the type's business.
pub fn clean(text: &str, max_chars: usize, what: &str) -> Result<String, Invalid> {
    let text = text.trim();
    check(text, max_chars, what)?;
    Ok(text.to_owned())
}

fn check(text: &str, max_chars: usize, what: &str) -> Result<(), Invalid> {
    // What nearly all of them are is seen without looking at each character by itself: every record that is read has several.
    if text.len() <= max_chars && is_plain(text) {
        return Ok(());
    }
    // Bytes first: an absurdly long text is refused without being walked.
    if text.len() > max_chars.saturating_mul(UTF8_MAX_BYTES_PER_CHAR) || text.chars().count() > max_chars {
        return Err(Invalid::too_long(what, max_chars));
    }
    if text.chars().any(is_unsafe) { Err(Invalid::characters(what)) } else { Ok(()) }
}

/// Whether it has nothing but visible ASCII characters and spaces.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, b| plain & matches!(b, b' '..=b'~'))
}

/// Characters that change how the text around them is read, or can't be seen at all.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control() // NUL, C0, DEL, C1
        || matches!(c,
            '\u{AD}' | '\u{61C}' | '\u{180E}' // soft hyphen, Arabic letter mark, Mongolian separator
            | '\u{200B}'..='\u{200F}' // zero width, direction marks
            | '\u{2028}'..='\u{202E}' // line and paragraph separators, direction embeddings
            | '\u{2060}'..='\u{206F}' // word joiner, invisible operators, direction isolates
            | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' // byte order mark, annotations
            | '\u{E0000}'..='\u{E007F}') // tags
}

/// A text of elsewhere as it can be shown among others: U+FFFD stands where it has a character that [`clean`] refuses.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_unsafe) {
        Cow::Owned(text.chars().map(|c| if is_unsafe(c) { char::REPLACEMENT_CHARACTER } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// `clean`, and something has to be left.
fn clean_required(text: &str, max_chars: usize, what: &str) -> Result<String, Invalid> {
    let text = clean(text, max_chars, what)?;
    if text.is_empty() { Err(Invalid::required(what)) } else { Ok(text) }
}

macro_rules! text_type {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Reads a text that may be left out: an empty one is none.
            pub fn parse_optional(text: &str) -> Result<Option<Self>, Invalid> {
                match Self::parse(text) {
                    Err(invalid) if invalid.code == Invalid::REQUIRED => Ok(None),
                    parsed => parsed.map(Some),
                }
            }
        }
    };
}

/// `Debug` that tells the type and no more, for what may be personal.
macro_rules! redacted_debug {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    };
}

text_type! {
    /// The integrator's own name for a charge, withdrawal or refund: 1 to 120 visible characters, spaces only
    /// between them, upper and lower case told apart. Kept exactly as sent.
    #[derive(Debug)]
    ExternalId
}

impl ExternalId {
    /// Reads an external id.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::check(text)?;
        Ok(Self(text.to_owned()))
    }

    fn check(text: &str) -> Result<(), Invalid> {
        const WHAT: &str = "external_id";
        if text.is_empty() {
            return Err(Invalid::required(WHAT));
        }
        check(text, EXTERNAL_ID_MAX_CHARS, WHAT)?;
        if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
            return Err(Invalid::format("external_id must not begin or end with a blank"));
        }
        if !text.is_ascii() && text.chars().any(|c| c.is_whitespace() && c != ' ') {
            return Err(Invalid::characters(WHAT));
        }
        Ok(())
    }
}

/// As [`ExternalId::parse`], of a text that is kept.
impl TryFrom<String> for ExternalId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::check(&text)?;
        Ok(Self(text))
    }
}

impl fmt::Display for ExternalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_type! {
    /// What a withdrawal or refund is for, in the integrator's words; at most 140 characters.
    Description
}
redacted_debug!(Description);

impl Description {
    /// Reads a description.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        clean_required(text, DESCRIPTION_MAX_CHARS, "description").map(Self)
    }
}

text_type! {
    /// What the payer is shown or asked when paying (`solicitacaoPagador`); at most 140 characters.
    PayerQuestion
}
redacted_debug!(PayerQuestion);

impl PayerQuestion {
    /// Reads a question to the payer.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        clean_required(text, PAYER_QUESTION_MAX_CHARS, "payerQuestion").map(Self)
    }
}

text_type! {
    /// The name of a payer or payee, a person or a company; at most 200 characters.
    PersonName
}
redacted_debug!(PersonName);

impl PersonName {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        clean_required(text, PERSON_NAME_MAX_CHARS, "name").map(Self)
    }
}

/// As [`PersonName::parse`], of a text that is kept when nothing has to go.
impl TryFrom<String> for PersonName {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        if text.is_empty() || text.trim().len() != text.len() {
            return Self::parse(&text);
        }
        check(&text, PERSON_NAME_MAX_CHARS, "name")?;
        Ok(Self(text))
    }
}

text_type! {
    /// A payer's e-mail address, only ever shown back: the form is checked leniently and the case kept. An
    /// address that is a PIX key is a [`PixKey`](crate::party::PixKey).
    Email
}
redacted_debug!(Email);

impl Email {
    /// Reads an e-mail address.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let text = clean_required(text, EMAIL_MAX_CHARS, "email")?;
        match text.split_once('@') {
            Some((local, domain)) if is_sane_local_part(local) && is_sane_domain(domain) => Ok(Self(text)),
            _ => Err(Invalid::format("email must be an e-mail address, such as name@example.com")),
        }
    }
}

fn is_sane_local_part(local: &str) -> bool {
    !local.is_empty() && !local.contains(|c: char| c.is_whitespace() || r#"@"(),:;<>[\]"#.contains(c))
}

fn is_sane_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=DOMAIN_LABEL_MAX_CHARS).contains(&label.chars().count())
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

text_type! {
    /// Where an integrator's postbacks go: an absolute http or https URL without user info, kept byte for byte.
    ///
    /// Whether the address may be called at all is decided on every attempt, by whoever calls it. `Debug` shows
    /// scheme and host only: paths and queries of postback URLs carry secrets.
    PostbackUrl
}

impl PostbackUrl {
    /// Reads a postback URL.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        const WHAT: &str = "postbackUrl";
        if text.is_empty() {
            return Err(Invalid::required(WHAT));
        }
        check(text, POSTBACK_URL_MAX_CHARS, WHAT)?;
        if text.contains(char::is_whitespace) {
            return Err(Invalid::new(Invalid::INVALID_CHARACTERS, "postbackUrl must not contain blanks"));
        }
        let Some((_, authority)) = scheme_and_authority(text) else {
            return Err(Invalid::format("postbackUrl must start with http:// or https://"));
        };
        // `\` counts too: some URL readers take it for `/` and so find another host than we did.
        if authority.contains(['@', '\\']) {
            return Err(Invalid::format("postbackUrl must not contain user information"));
        }
        if !is_host_and_port(authority) {
            return Err(Invalid::format("postbackUrl must name a host, such as https://example.com/pix"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &str {
        let length =
            scheme_and_authority(&self.0).map_or(0, |(scheme, authority)| scheme.len() + authority.len());
        self.0.get(..length).unwrap_or_default()
    }

    /// All of it before a query or fragment.
    pub fn without_query(&self) -> &str {
        self.0.split(['?', '#']).next().unwrap_or_default()
    }
}

impl fmt::Debug for PostbackUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority) = scheme_and_authority(&self.0).unwrap_or_default();
        write!(f, "PostbackUrl({scheme}{authority}/…)")
    }
}

/// `https://` and `host:port` of a URL (RFC 3986 §3.2: the authority ends at `/`, `?`, `#` or the end).
fn scheme_and_authority(url: &str) -> Option<(&str, &str)> {
    ["http://", "https://"].into_iter().find_map(|expected| {
        let (scheme, rest) = url.split_at_checked(expected.len())?;
        let authority = rest.split(['/', '?', '#']).next()?;
        scheme.eq_ignore_ascii_case(expected).then_some((scheme, authority))
    })
}

fn is_host_and_port(authority: &str) -> bool {
    let (host_is_fine, after_host) = if let Some(rest) = authority.strip_prefix('[') {
        let Some((address, after)) = rest.split_once(']') else { return false };
        (address.parse::<std::net::Ipv6Addr>().is_ok(), after)
    } else {
        let (host, after) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
        let fine = host.contains(char::is_alphanumeric)
            && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '_'));
        (fine, after)
    };
    let port_is_fine = match after_host.strip_prefix(':') {
        None => after_host.is_empty(),
        Some(port) => port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0),
    };
    host_is_fine && port_is_fine
}

text_type! {
    /// The `Idempotency-Key` of a request: 1 to 255 visible ASCII characters. A quoted string of RFC 8941
    /// §3.3.3, as draft-ietf-httpapi-idempotency-key-header asks for, is the same key as the bare text.
    #[derive(Debug)]
    IdempotencyKey
}

impl IdempotencyKey {
    /// Reads the value of an `Idempotency-Key` header.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        const WHAT: &str = "Idempotency-Key";
        // Each of its characters may come escaped, and two quotes stand around them.
        if text.len() > IDEMPOTENCY_KEY_MAX_CHARS * 2 + 2 {
            return Err(Invalid::too_long(WHAT, IDEMPOTENCY_KEY_MAX_CHARS));
        }
        let key = match text.strip_prefix('"') {
            None => text.to_owned(),
            Some(rest) => unquote(rest).ok_or_else(|| {
                Invalid::format("Idempotency-Key must be plain text or one well-formed quoted string")
            })?,
        };
        if key.is_empty() {
            return Err(Invalid::required(WHAT));
        }
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Invalid::new(
                Invalid::INVALID_CHARACTERS,
                "Idempotency-Key must consist of visible ASCII characters",
            ));
        }
        if key.len() > IDEMPOTENCY_KEY_MAX_CHARS {
            return Err(Invalid::too_long(WHAT, IDEMPOTENCY_KEY_MAX_CHARS));
        }
        Ok(Self(key))
    }
}

/// The content of a quoted string whose opening quote was taken off.
fn unquote(rest: &str) -> Option<String> {
    let mut content = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(content),
            '\\' => content.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => content.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code<T: fmt::Debug>(result: Result<T, Invalid>) -> &'static str {
        result.unwrap_err().code
    }

    #[test]
    fn clean_trims_and_keeps_what_people_write() {
        assert_eq!(clean("  Pão de açúcar 🍞 №1 \n", 140, "x").unwrap(), "Pão de açúcar 🍞 №1");
        assert_eq!(clean("   ", 140, "x").unwrap(), "");
    }

    #[test]
    fn clean_refuses_every_class_of_unsafe_character() {
        for c in [
            '\0',
            '\t',
            '\n',
            '\r',
            '\u{1B}',
            '\u{7F}',
            '\u{85}',
            '\u{9F}',
            '\u{AD}',
            '\u{61C}',
            '\u{180E}',
            '\u{200B}',
            '\u{200C}',
            '\u{200D}',
            '\u{200E}',
            '\u{200F}',
            '\u{2028}',
            '\u{2029}',
            '\u{202A}',
            '\u{202B}',
            '\u{202C}',
            '\u{202D}',
            '\u{202E}',
            '\u{2060}',
            '\u{2066}',
            '\u{2067}',
            '\u{2068}',
            '\u{2069}',
            '\u{FEFF}',
            '\u{FFFA}',
            '\u{E0041}',
        ] {
            assert_eq!(
                code(clean(&format!("a{c}b"), 140, "x")),
                "invalid_characters",
                "{}",
                c.escape_unicode()
            );
        }
    }

    #[test]
    fn what_is_shown_among_others_has_no_unsafe_character() {
        assert!(matches!(visible("Padaria São João, 1ª via"), Cow::Borrowed("Padaria São João, 1ª via")));
        assert_eq!(
            visible("ok\n  2  ana\u{1b}[31m\u{202e}x\0"),
            "ok\u{fffd}  2  ana\u{fffd}[31m\u{fffd}x\u{fffd}"
        );
    }

    #[test]
    fn clean_counts_characters_and_bounds_bytes() {
        assert!(clean(&"🍞".repeat(140), 140, "x").is_ok());
        assert_eq!(code(clean(&"é".repeat(141), 140, "x")), "too_long");
        assert_eq!(code(clean(&"a".repeat(1_000_000), 140, "x")), "too_long");
    }

    #[test]
    fn external_id_keeps_any_visible_text_exactly() {
        for text in ["a", "order:42", "Pedido nº 7/É", "  x".trim(), "a b", &"x".repeat(120)] {
            assert_eq!(ExternalId::parse(text).unwrap().as_str(), text);
        }
        assert_ne!(ExternalId::parse("abc").unwrap(), ExternalId::parse("ABC").unwrap());
    }

    #[test]
    fn external_id_refuses_blanks_around_and_odd_ones_within() {
        for (text, expected) in [
            ("", "required"),
            (" a", "invalid_format"),
            ("a ", "invalid_format"),
            (" ", "invalid_format"),
            ("a\u{A0}", "invalid_format"),
            ("a\u{A0}b", "invalid_characters"),
            ("a\nb", "invalid_characters"),
            ("a\u{200B}", "invalid_characters"),
        ] {
            assert_eq!(code(ExternalId::parse(text)), expected, "{text:?}");
        }
        assert_eq!(code(ExternalId::parse(&"x".repeat(121))), "too_long");
    }

    #[test]
    fn optional_text_is_absent_when_empty() {
        assert_eq!(ExternalId::parse_optional("").unwrap(), None);
        assert_eq!(Description::parse_optional("  ").unwrap(), None);
        assert_eq!(PersonName::parse_optional(" Ana ").unwrap().unwrap().as_str(), "Ana");
        assert_eq!(code(PayerQuestion::parse_optional("a\0b")), "invalid_characters");
        assert_eq!(code(PersonName::parse(" ")), "required");
    }

    #[test]
    fn debug_shows_nothing_personal() {
        let shown = format!(
            "{:?} {:?} {:?} {:?} {:?}",
            PersonName::parse("Maria").unwrap(),
            Email::parse("Maria@example.com").unwrap(),
            Description::parse("Maria").unwrap(),
            PayerQuestion::parse("Maria").unwrap(),
            PostbackUrl::parse("https://example.com:8443/Maria?token=Maria").unwrap(),
        );
        assert!(!shown.contains("Maria"), "{shown}");
        assert!(shown.ends_with("PostbackUrl(https://example.com:8443/…)"), "{shown}");
    }

    #[test]
    fn email_is_lenient_but_sane() {
        for text in ["a@b.co", "Maria.Silva+pix@Example.COM.br", "joão@exemplo.com", "x@localhost"] {
            assert_eq!(Email::parse(text).unwrap().as_str(), text);
        }
        let long_label = format!("a@{}.com", "b".repeat(64));
        for text in [
            "a",
            "@b.co",
            "a@",
            "a@b@c.co",
            "a b@c.co",
            "a@b..co",
            "a@.co",
            "a@b.co.",
            "a@-b.co",
            "a@b-.co",
            "a@b_c.co",
            "<a@b.co>",
            "a,b@c.co",
            "a@b.co,c",
            &long_label,
        ] {
            assert_eq!(code(Email::parse(text)), "invalid_format", "{text:?}");
        }
        assert_eq!(code(Email::parse(&format!("{}@b.co", "a".repeat(250)))), "too_long");
    }

    #[test]
    fn postback_url_is_kept_byte_for_byte() {
        for text in [
            "https://example.com",
            "HTTP://Example.com:8080/PIX?a=%20b&c=d@e&x=\\#top",
            "https://192.0.2.1/x",
            "https://[2001:db8::1]:8443/x",
            "https://loja.exemplo.com.br?u=ção",
            "http://my_host/x",
        ] {
            assert_eq!(PostbackUrl::parse(text).unwrap().as_str(), text);
        }
        let longest = format!("https://example.com/{}", "a".repeat(2048 - 20));
        assert!(PostbackUrl::parse(&longest).is_ok());
        assert_eq!(code(PostbackUrl::parse(&format!("{longest}a"))), "too_long");
    }

    #[test]
    fn postback_url_without_a_plain_host_is_refused() {
        for text in [
            "example.com",
            "ftp://example.com",
            "https:/example.com",
            "https://",
            "https:///path",
            "https://?a",
            "https://#a",
            "https://:443/",
            "https://user@example.com/",
            "https://user:pw@example.com/",
            "https://@example.com/",
            "https://example.com\\@evil.com/",
            "https://example.com:0/",
            "https://example.com:/",
            "https://example.com:65536/",
            "https://example.com:+80/",
            "https://example.com:80:80/",
            "https://[::1",
            "https://[::1]x/",
            "https://[x]/",
            "https://../",
            "https://exa%6Dple.com/",
            "hé://x",
            "javascript:alert(1)//https://a",
        ] {
            assert_eq!(code(PostbackUrl::parse(text)), "invalid_format", "{text:?}");
        }
        for text in
            [" https://a.co", "https://a.co/ ", "https://a.co/a b", "https://a.co/\n", "https://a\u{202E}.co"]
        {
            assert_eq!(code(PostbackUrl::parse(text)), "invalid_characters", "{text:?}");
        }
        assert_eq!(code(PostbackUrl::parse("")), "required");
    }

    #[test]
    fn idempotency_key_is_the_same_quoted_and_bare() {
        for (text, key) in [
            ("abc", "abc"),
            (r#""abc""#, "abc"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#"a"b\c"#, r#"a"b\c"#),
            ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        ] {
            assert_eq!(IdempotencyKey::parse(text).unwrap().as_str(), key);
        }
        let longest = "k".repeat(255);
        assert_eq!(IdempotencyKey::parse(&format!("\"{longest}\"")).unwrap().as_str(), longest);
    }

    #[test]
    fn idempotency_key_must_be_visible_ascii() {
        for (text, expected) in [
            ("", "required"),
            (r#""""#, "required"),
            (r#"""#, "invalid_format"),
            (r#""abc"#, "invalid_format"),
            (r#""a"b""#, "invalid_format"),
            (r#""a\b""#, "invalid_format"),
            (r#""abc";p=1"#, "invalid_format"),
            ("a b", "invalid_characters"),
            (r#""a b""#, "invalid_characters"),
            ("ção", "invalid_characters"),
            ("a\u{7F}", "invalid_characters"),
        ] {
            assert_eq!(code(IdempotencyKey::parse(text)), expected, "{text:?}");
        }
        assert_eq!(code(IdempotencyKey::parse(&"k".repeat(256))), "too_long");
        assert_eq!(code(IdempotencyKey::parse(&"k".repeat(100_000))), "too_long");
    }

    #[test]
    fn a_text_that_is_kept_is_read_as_any_other() {
        for text in
            ["", " ", "Ana", " Ana ", "Ana\u{A0}", "a b", "á", "a\0", &"x".repeat(121), &"x".repeat(201)]
        {
            assert_eq!(PersonName::try_from(text.to_owned()), PersonName::parse(text), "{text:?}");
            assert_eq!(ExternalId::try_from(text.to_owned()), ExternalId::parse(text), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_idempotent_and_never_panics(text in any::<String>()) {
            if let Ok(parsed) = PersonName::parse(&text) {
                prop_assert_eq!(PersonName::parse(parsed.as_str()), Ok(parsed.clone()));
                prop_assert!(!parsed.as_str().chars().any(char::is_control));
            }
            if let Ok(parsed) = ExternalId::parse(&text) {
                prop_assert_eq!(parsed.as_str(), text.as_str());
            }
            prop_assert_eq!(PersonName::try_from(text.clone()), PersonName::parse(&text));
            prop_assert_eq!(ExternalId::try_from(text.clone()), ExternalId::parse(&text));
            let _ = Email::parse(&text).is_ok();
            let _ = PostbackUrl::parse(&format!("https://{text}")).is_ok();
            let _ = IdempotencyKey::parse(&text).is_ok();
        }

        #[test]
        fn quoting_an_idempotency_key_changes_nothing(key in "[!-~]{1,255}") {
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            let parsed = IdempotencyKey::parse(&quoted).unwrap();
            prop_assert_eq!(parsed.as_str(), key.as_str());
        }
    }
}
