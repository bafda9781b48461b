//! Portuguese (and its neighbours) in ASCII.

/// The text in printable ASCII: letters lose their accents, typographic signs become plain ones, runs of blanks
/// become one space, and what has no ASCII likeness is left out.
pub(super) fn folded(text: &str) -> String {
    let ascii: String = text.chars().filter_map(fold).collect();
    ascii.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fold(c: char) -> Option<char> {
    Some(match c {
        ' '..='~' => c,
        'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' | 'ª' => 'a',
        'Á' | 'À' | 'Â' | 'Ã' | 'Ä' | 'Å' => 'A',
        'ç' => 'c',
        'Ç' => 'C',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'É' | 'È' | 'Ê' | 'Ë' => 'E',
        'í' | 'ì' | 'î' | 'ï' => 'i',
        'Í' | 'Ì' | 'Î' | 'Ï' => 'I',
        'ñ' => 'n',
        'Ñ' => 'N',
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' | 'ø' | 'º' => 'o',
        'Ó' | 'Ò' | 'Ô' | 'Õ' | 'Ö' | 'Ø' => 'O',
        'ú' | 'ù' | 'û' | 'ü' => 'u',
        'Ú' | 'Ù' | 'Û' | 'Ü' => 'U',
        'ý' | 'ÿ' => 'y',
        'Ý' => 'Y',
        '‘' | '’' | '´' => '\'',
        '“' | '”' => '"',
        '‐' | '‑' | '–' | '—' => '-',
        c if c.is_whitespace() => ' ',
        // Combining accents among them: a decomposed `ã` folds as the composed one.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portuguese_reads_on_without_its_accents() {
        for (text, expected) in [
            ("Pão de Açúcar", "Pao de Acucar"),
            ("São José dos Campos", "Sao Jose dos Campos"),
            ("ÀÁÂÃÉÊÍÓÔÕÚÜÇàáâãéêíóôõúüç", "AAAAEEIOOOUUCaaaaeeiooouuc"),
            ("Sa\u{303}o Paulo", "Sao Paulo"),
            ("D’Ávila – Cia\u{A0} 1ª", "D'Avila - Cia 1a"),
            (" \t a \n b ", "a b"),
            ("Café ☕ Ltda", "Cafe Ltda"),
            ("東京", ""),
        ] {
            assert_eq!(folded(text), expected);
        }
    }
}
