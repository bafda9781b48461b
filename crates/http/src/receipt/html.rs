//! The sheet as HTML: no script, and a style that is within it and named by the policy by its digest.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::sheet::{Section, Sheet};
use crate::html::escaped;

const STYLE: &str = include_str!("receipt.css");

/// What the page may do (W3C, Content Security Policy Level 3): look like that.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        STANDARD.encode(Sha256::digest(STYLE))
    )
});

/// The page.
pub(super) fn page(sheet: &Sheet) -> String {
    let sections: String = sheet.sections.iter().map(section).collect();
    format!(
        "<!doctype html>\n<html lang=\"{language}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p class=\"amount\">{amount}</p>\n\
         <p class=\"standing\">{standing}</p>\n{sections}<p class=\"foot\">{foot}</p>\n</main>\n</body>\n</html>\n",
        language = sheet.language.tag(),
        title = sheet.title,
        amount = escaped(&sheet.amount),
        standing = sheet.standing,
        foot = escaped(&sheet.foot),
    )
}

fn section(section: &Section) -> String {
    let rows = section
        .rows
        .iter()
        .flat_map(|(name, text)| ["<dt>", name, "</dt><dd>", &escaped(text), "</dd>\n"].map(str::to_owned));
    format!("<section>\n<h2>{}</h2>\n<dl>\n{}</dl>\n</section>\n", section.heading, rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Language;

    #[test]
    fn what_others_wrote_is_text_and_the_policy_allows_the_very_style() {
        let rows = vec![("Nome", "Ana <script>alert(1)</script> & \"Cia\"".to_owned())];
        let sheet = Sheet {
            language: Language::Portuguese,
            title: "Comprovante",
            amount: "R$\u{a0}1,00".into(),
            standing: "Pago",
            sections: vec![Section { heading: "Quem pagou", rows }],
            foot: "fim".into(),
        };
        let page = page(&sheet);
        assert!(page.contains(
            "<dt>Nome</dt><dd>Ana &lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;Cia&quot;</dd>"
        ));
        assert!(!page.contains("<script"), "{page}");
        let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        let digest = STANDARD.encode(Sha256::digest(style));
        assert!(POLICY.contains(&format!("style-src 'sha256-{digest}'")), "{}", *POLICY);
        assert!(!STYLE.contains("</") && !STYLE.contains("url("), "nothing is fetched");
    }
}
