//! Texts within HTML.

/// A text within HTML, in an attribute too.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

/// A text with `code` and **strong** words within HTML.
pub(crate) fn line(text: &str) -> String {
    let escaped = escaped(text);
    let between = |text: &str, mark: &str, tag: &str, others: &dyn Fn(&str) -> String| -> String {
        let pieces = text.split(mark).enumerate();
        pieces
            .map(
                |(place, piece)| {
                    if place % 2 == 1 { format!("<{tag}>{piece}</{tag}>") } else { others(piece) }
                },
            )
            .collect()
    };
    between(&escaped, "`", "code", &|plain| between(plain, "**", "strong", &str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        assert_eq!(escaped("a & <b> \"c\" 'd'"), "a &amp; &lt;b&gt; &quot;c&quot; &#39;d&#39;");
        assert_eq!(escaped("Conceição 🍞"), "Conceição 🍞");
    }
}
