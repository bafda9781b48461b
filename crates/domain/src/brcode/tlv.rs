//! Tag, length, value; and the checksum over them. Everything here takes ASCII, and survives what isn't.

use std::fmt;

use super::BrCodeError;

/// One field of a BR Code.
#[derive(Clone, PartialEq, Eq)]
pub struct Field {
    /// 0 to 99.
    pub tag: u8,
    /// 1 to 99 characters.
    pub value: String,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({:02} of {} characters)", self.tag, self.value.len())
    }
}

/// The fields of a code or of a template within it; no tag twice.
pub(super) fn parse_fields(text: &str) -> Result<Vec<Field>, BrCodeError> {
    let mut fields: Vec<Field> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (tag, after_tag) = rest.split_at_checked(2).ok_or(BrCodeError::Truncated)?;
        let tag = two_digits(tag).ok_or(BrCodeError::BadTag)?;
        let (length, after_length) = after_tag.split_at_checked(2).ok_or(BrCodeError::Truncated)?;
        let length = two_digits(length).filter(|length| *length > 0).ok_or(BrCodeError::BadLength(tag))?;
        let (value, after_value) =
            after_length.split_at_checked(usize::from(length)).ok_or(BrCodeError::Truncated)?;
        if find(&fields, tag).is_some() {
            return Err(BrCodeError::Duplicate(tag));
        }
        fields.push(Field { tag, value: value.to_owned() });
        rest = after_value;
    }
    Ok(fields)
}

fn two_digits(text: &str) -> Option<u8> {
    // `parse` alone would take `+1`.
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

pub(super) fn find(fields: &[Field], tag: u8) -> Option<&str> {
    fields.iter().find(|field| field.tag == tag).map(|field| field.value.as_str())
}

/// One field; the value must be ASCII.
pub(super) fn write_field(tag: u8, value: &str) -> Result<String, BrCodeError> {
    match value.len() {
        0 => Err(BrCodeError::Missing(tag)),
        length @ 1..=99 => Ok(format!("{tag:02}{length:02}{value}")),
        _ => Err(BrCodeError::ValueTooLong(tag)),
    }
}

/// CRC-16/IBM-3740 in four upper-case hexadecimal digits (EMV MPM 1.1 §4.7.3: polynomial 1021, initial FFFF).
pub(super) fn crc(text: &str) -> String {
    let mut crc = 0xFFFF_u16;
    for byte in text.bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    format!("{crc:04X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_has_the_check_value_of_its_definition() {
        assert_eq!(crc("123456789"), "29B1");
        assert_eq!(crc(""), "FFFF");
    }

    #[test]
    fn crc_of_both_vectors_of_bcb_is_theirs() {
        for (covered, expected) in [
            (
                "00020101021226770014BR.GOV.BCB.PIX2555pix.example.com/qr/93598be0-1bd0-4997-8318-81776a1d8a99\
                 5204000053039865802BR5907EMPRESA6009SAO PAULO62070503***6304",
                "EEAB",
            ),
            (
                "00020126330014BR.GOV.BCB.PIX01115794666323452040000530398654041.005802BR\
                 5925CLENILTON CRUZ DE ALENCAR6006MANAUS62070503***6304",
                "FA88",
            ),
        ] {
            assert_eq!(crc(covered), expected);
        }
    }

    #[test]
    fn fields_end_where_their_lengths_say() {
        let fields = parse_fields("0002015903A B").unwrap();
        assert_eq!(
            fields.iter().map(|f| (f.tag, f.value.as_str())).collect::<Vec<_>>(),
            [(0, "01"), (59, "A B")]
        );
        for (text, expected) in [
            ("0", BrCodeError::Truncated),
            ("000", BrCodeError::Truncated),
            ("00020", BrCodeError::Truncated),
            ("0A0201", BrCodeError::BadTag),
            ("+10201", BrCodeError::BadTag),
            ("00+201", BrCodeError::BadLength(0)),
            ("5900", BrCodeError::BadLength(59)),
            ("00020100020", BrCodeError::Truncated),
            ("000201000201", BrCodeError::Duplicate(0)),
            ("é201", BrCodeError::BadTag),
            ("0001é", BrCodeError::Truncated),
        ] {
            assert_eq!(parse_fields(text), Err(expected), "{text}");
        }
    }
}
