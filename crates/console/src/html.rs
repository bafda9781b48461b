//! HTML that is made of elements, so that a text of others can't become one: there is no way from a text to [`Markup`]
//! that doesn't escape it.

/// A piece of HTML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Markup(String);

/// Attributes of an element: names of ours, values of anybody.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Markup {
    /// Nothing.
    pub(crate) const fn none() -> Self {
        Self(String::new())
    }

    /// One after the other.
    pub(crate) fn all(pieces: impl IntoIterator<Item = Self>) -> Self {
        pieces.into_iter().fold(Self::none(), |mut all, piece| {
            all.0.push_str(&piece.0);
            all
        })
    }

    /// What is written to the browser.
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// A text, whoever wrote it.
pub(crate) fn text(text: impl AsRef<str>) -> Markup {
    Markup(escaped(text.as_ref()))
}

/// An element with what is in it.
pub(crate) fn el(
    name: &'static str,
    attributes: Attributes<'_>,
    children: impl IntoIterator<Item = Markup>,
) -> Markup {
    let inner = Markup::all(children).0;
    Markup(["<", name, &written(attributes), ">", &inner, "</", name, ">"].concat())
}

/// An element that has nothing in it and no end tag.
pub(crate) fn void(name: &'static str, attributes: Attributes<'_>) -> Markup {
    Markup(["<", name, &written(attributes), ">"].concat())
}

/// An element of a text of ours that is no HTML: the style.
pub(crate) fn raw(name: &'static str, inner: &'static str) -> Markup {
    Markup(["<", name, ">", inner, "</", name, ">"].concat())
}

/// A link to another page of the console.
pub(crate) fn link(href: &str, words: impl AsRef<str>) -> Markup {
    el("a", &[("href", href)], [text(words)])
}

/// A text that a machine made.
pub(crate) fn code(words: impl AsRef<str>) -> Markup {
    el("code", &[], [text(words)])
}

/// A paragraph.
pub(crate) fn p(words: impl AsRef<str>) -> Markup {
    el("p", &[], [text(words)])
}

/// A paragraph of ours, in which `…` is what is typed in somewhere.
pub(crate) fn prose(words: impl AsRef<str>) -> Markup {
    let pieces = words.as_ref().split('`').enumerate();
    el("p", &[], pieces.map(|(place, piece)| if place % 2 == 1 { code(piece) } else { text(piece) }))
}

/// What is known of one thing: names and values.
pub(crate) fn facts(facts: impl IntoIterator<Item = (&'static str, Markup)>) -> Markup {
    let rows = facts
        .into_iter()
        .map(|(name, value)| el("div", &[], [el("dt", &[], [text(name)]), el("dd", &[], [value])]));
    el("dl", &[("class", "facts")], rows)
}

/// A table, which scrolls by itself where it is wider than the page; `empty` in its place when it has no rows.
pub(crate) fn table(
    caption: &str,
    heads: &[&'static str],
    rows: impl IntoIterator<Item = Vec<Markup>>,
    empty: &str,
) -> Markup {
    let rows: Vec<Markup> = rows
        .into_iter()
        .map(|cells| el("tr", &[], cells.into_iter().map(|cell| el("td", &[], [cell]))))
        .collect();
    if rows.is_empty() {
        return el("p", &[("class", "hint")], [text(empty)]);
    }
    let heads = heads.iter().map(|head| el("th", &[("scope", "col")], [text(head)]));
    let table = el(
        "table",
        &[],
        [
            el("caption", &[("class", "unseen")], [text(caption)]),
            el("thead", &[], [el("tr", &[], heads)]),
            el("tbody", &[], rows),
        ],
    );
    el("div", &[("class", "scroll"), ("role", "region"), ("aria-label", caption), ("tabindex", "0")], [table])
}

/// A part of a page, under a heading.
pub(crate) fn section(heading: &str, inner: impl IntoIterator<Item = Markup>) -> Markup {
    let heading = el("h2", &[], [text(heading)]);
    el("section", &[], std::iter::once(heading).chain(inner))
}

/// A field of a form with its label.
pub(crate) fn field(label: &'static str, id: &'static str, attributes: Attributes<'_>) -> Markup {
    let own: Vec<_> = [("id", id), ("name", id)].into_iter().chain(attributes.iter().copied()).collect();
    Markup::all([el("label", &[("for", id)], [text(label)]), void("input", &own)])
}

/// A field that nobody sees.
pub(crate) fn hidden(name: &'static str, value: &str) -> Markup {
    void("input", &[("type", "hidden"), ("name", name), ("value", value)])
}

/// A button that sends its form.
pub(crate) fn button(words: &str) -> Markup {
    el("button", &[("type", "submit")], [text(words)])
}

fn written(attributes: Attributes<'_>) -> String {
    attributes
        .iter()
        .flat_map(|(name, value)| [" ", name, "=\"", &escaped(value), "\""].map(str::to_owned))
        .collect()
}

fn escaped(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup_in_an_element_or_an_attribute() {
        let hostile = "\"><script>alert('1')</script>&";
        let made = el("p", &[("title", hostile)], [text(hostile), link(hostile, hostile)]).into_string();
        assert_eq!(made.matches('<').count(), 4, "{made}");
        assert_eq!(made.matches("&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;").count(), 4);
    }

    #[test]
    fn a_table_without_rows_says_so() {
        assert_eq!(table("Keys", &["Key"], [], "No keys.").into_string(), "<p class=\"hint\">No keys.</p>");
    }
}
