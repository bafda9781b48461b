//! Helvetica, one of the 14 fonts that every reader of PDF has (ISO 32000-1 §9.6.2.2), in `WinAnsiEncoding` (Annex D.2).

/// What the bytes from 0x80 to 0x9F stand for; the other visible ones are those of Latin-1.
#[rustfmt::skip]
const SPECIAL: [(char, u8); 27] = [
    ('€', 0x80), ('‚', 0x82), ('ƒ', 0x83), ('„', 0x84), ('…', 0x85), ('†', 0x86), ('‡', 0x87), ('ˆ', 0x88),
    ('‰', 0x89), ('Š', 0x8A), ('‹', 0x8B), ('Œ', 0x8C), ('Ž', 0x8E), ('‘', 0x91), ('’', 0x92), ('“', 0x93),
    ('”', 0x94), ('•', 0x95), ('–', 0x96), ('—', 0x97), ('˜', 0x98), ('™', 0x99), ('š', 0x9A), ('›', 0x9B),
    ('œ', 0x9C), ('ž', 0x9E), ('Ÿ', 0x9F),
];

/// The first byte that `WIDTHS` has.
const FIRST: u8 = 0x20;

/// How wide each byte is, in thousandths of the font's size (Adobe's font metrics of Helvetica).
#[rustfmt::skip]
const WIDTHS: [u16; 224] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, 350,
    556, 350, 222, 556, 333, 1000, 556, 556, 333, 1000, 667, 333, 1000, 350, 611, 350,
    350, 222, 222, 333, 333, 350, 556, 1000, 333, 1000, 500, 333, 944, 350, 500, 667,
    278, 333, 556, 556, 556, 556, 260, 556, 333, 737, 370, 556, 584, 333, 737, 333,
    400, 584, 333, 333, 333, 556, 537, 278, 333, 333, 365, 556, 834, 834, 834, 611,
    667, 667, 667, 667, 667, 667, 1000, 722, 667, 667, 667, 667, 278, 278, 278, 278,
    722, 722, 778, 778, 778, 778, 778, 584, 778, 722, 722, 722, 722, 667, 667, 611,
    556, 556, 556, 556, 556, 556, 889, 500, 556, 556, 556, 556, 278, 278, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 584, 611, 556, 556, 556, 556, 500, 556, 500,
];

/// The bytes of a text; `None` when it has a character that there is none for.
pub(super) fn encoded(text: &str) -> Option<Vec<u8>> {
    let byte = |character: char| match character {
        ' '..='~' | '\u{a0}'..='ÿ' => u8::try_from(u32::from(character)).ok(),
        _ => SPECIAL.iter().find(|(known, _)| *known == character).map(|(_, byte)| *byte),
    };
    text.chars().map(byte).collect()
}

/// How wide bytes are together, in thousandths of the font's size.
pub(super) fn width(bytes: &[u8]) -> u32 {
    let of = |byte: &u8| WIDTHS.get(usize::from(byte.saturating_sub(FIRST))).copied().unwrap_or_default();
    bytes.iter().map(|byte| u32::from(of(byte))).fold(0, u32::saturating_add)
}

/// The bytes in lines of at most `limit` thousandths of the font's size: between words, and within one that is longer.
pub(super) fn lines(bytes: &[u8], limit: u32) -> Vec<Vec<u8>> {
    let mut lines = vec![Vec::new()];
    for word in bytes.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
        let mut line: Vec<u8> = lines.pop().unwrap_or_default();
        let mut longer = line.clone();
        if !longer.is_empty() {
            longer.push(b' ');
        }
        longer.extend(word);
        if width(&longer) <= limit {
            lines.push(longer);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for byte in word {
            line.push(*byte);
            if width(&line) > limit && line.len() > 1 {
                line.pop();
                lines.push(std::mem::replace(&mut line, vec![*byte]));
            }
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portuguese_can_be_written_and_what_can_not_is_told() {
        assert_eq!(encoded("São João, ção").unwrap(), b"S\xe3o Jo\xe3o, \xe7\xe3o");
        assert_eq!(encoded("R$\u{a0}1 – “€”").unwrap(), b"R$\xa01 \x96 \x93\x80\x94");
        for text in ["Łukasz", "日本", "🍞", "e\u{301}", "a\nb", "\u{7f}", "\u{80}", "\u{ad}\u{100}"] {
            assert_eq!(encoded(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_widths_are_those_of_helvetica() {
        // Adobe, Helvetica.afm: A 667, W 944, i 222, eacute 556, bullet 350.
        assert_eq!(width(b"AWi\xe9\x95"), 667 + 944 + 222 + 556 + 350);
        assert_eq!(width(b""), 0);
    }

    #[test]
    fn lines_are_broken_between_words_and_within_long_ones() {
        let text = |bytes: &[u8], limit| -> Vec<String> {
            lines(bytes, limit).into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
        };
        assert_eq!(text(b"aa  bb cc", 2_800), ["aa bb", "cc"]);
        assert_eq!(text(b"aaaaaa b", 1_700), ["aaa", "aaa", "b"]);
        assert_eq!(text(b"b aaaaaa", 1_700), ["b", "aaa", "aaa"]);
        assert_eq!(text(b"ab", 1), ["a", "b"]);
        assert_eq!(text(b"", 10), [""]);
    }
}
