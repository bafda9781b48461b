//! What holds for any bytes at all: the entry functions of the fuzz targets in `tests/fuzz`, and no part of the interface.
//!
//! Each takes an input and panics when a law is broken. `tests/tests/fuzz_corpus.rs` feeds them every seed.

use std::fmt;

use crate::brcode::{
    BR_CODE_MAX_CENTS, BR_CODE_MAX_CHARS, BrCode, DynamicBrCode, Field, MERCHANT_CITY_MAX_CHARS,
    MERCHANT_NAME_MAX_CHARS, StaticBrCode, decode,
};
use crate::end_to_end::{EndToEndId, ReturnId, TxId};
use crate::invalid::Invalid;
use crate::money::{Amount, MAX_AMOUNT_CENTS};
use crate::party::{Document, PIX_KEY_MAX_CHARS, PixKey, PixKeyType, TaxId, TaxIdKind};
use bigdecimal::{BigDecimal, ToPrimitive};

/// The fewest digits in a row that would give somebody away.
const TELLING_DIGITS: usize = 8;

/// What the sentences of this crate hold of digits.
const OUR_DIGITS: [&str; 2] = ["9999999999", "5511987654321"];

/// An amount as text. What is read is what the digits say, and is read again from either form it is written in.
pub fn amount(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let amount = match Amount::parse(&text) {
        Ok(amount) => amount,
        Err(invalid) => return assert_eq!(invalid.code, "invalid_amount"),
    };
    let cents = amount.cents().get();
    assert!((1..=MAX_AMOUNT_CENTS).contains(&cents), "{text:?} is out of bounds");
    assert_eq!(Some(i128::from(cents)), cents_of_digits(&text), "{text:?}");
    for written in [amount.to_string(), amount.cents().plain()] {
        assert_eq!(Amount::parse(&written), Ok(amount), "{text:?} written as {written:?}");
    }
    assert_eq!(Amount::from_decimal(&amount.to_decimal()), Ok(amount), "{text:?}");
}

/// The same by another way: the point moved two places, and what is left read as one number.
fn cents_of_digits(text: &str) -> Option<i128> {
    if text.contains(['e', 'E']) {
        let cents = text.parse::<BigDecimal>().ok()? * BigDecimal::from(100);
        return cents.is_integer().then(|| cents.to_i128()).flatten();
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{fraction:0<2}").parse().ok()
}

/// A BR Code: as it stands, then closed by the checksum it should have, and then as the values of a code to be written,
/// one a line.
pub fn br_code(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    read_br_code(&text);
    let covered = format!("{text}6304");
    read_br_code(&format!("{covered}{:04X}", checksum(covered.as_bytes())));

    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default().to_owned();
    let (target, merchant_name, merchant_city) = (line(), line(), line());
    let dynamic = DynamicBrCode {
        location: target.clone(),
        merchant_name: merchant_name.clone(),
        merchant_city: merchant_city.clone(),
    };
    if let Ok(written) = dynamic.encode() {
        let code = read_br_code(&written).filter(|code| code.location() == Some(&target));
        let code = code.filter(|code| code.amount_cents.is_none() && code.txid.is_none());
        assert!(code.is_some_and(|code| fits(&code)), "a dynamic code is not read as it was written");
    }
    let code = StaticBrCode {
        key: target,
        amount_cents: line().parse().ok(),
        merchant_name,
        merchant_city,
        txid: TxId::parse(&line()).ok(),
        description: Some(line()).filter(|text| !text.is_empty()),
    };
    if let Ok(written) = code.encode() {
        let read = read_br_code(&written).filter(|read| read.key() == Some(&code.key));
        let read = read.filter(|read| read.amount_cents == code.amount_cents && read.txid == code.txid);
        assert!(read.is_some_and(|read| fits(&read)), "a static code is not read as it was written");
    }
}

/// Whether the names are as short as a writer has to make them.
fn fits(code: &BrCode) -> bool {
    code.merchant_name.len() <= MERCHANT_NAME_MAX_CHARS && code.merchant_city.len() <= MERCHANT_CITY_MAX_CHARS
}

/// Reads a code, and holds what was read against the text.
fn read_br_code(text: &str) -> Option<BrCode> {
    let code = decode(text).ok()?;
    assert!(text.len() <= BR_CODE_MAX_CHARS);
    let field = |field: &Field| format!("{:02}{:02}{}", field.tag, field.value.len(), field.value);
    let written = code.fields.iter().map(field).collect::<Vec<_>>().concat();
    assert_eq!(written, text, "fields are lost");
    let (covered, given) = text.split_at_checked(text.len().saturating_sub(4)).unwrap_or_default();
    assert!(given.eq_ignore_ascii_case(&format!("{:04X}", checksum(covered.as_bytes()))), "{text:?}");
    assert_ne!(code.location().is_some(), code.key().is_some(), "either a location or a key");
    assert!(code.amount_cents.is_none_or(|cents| (0..=BR_CODE_MAX_CENTS).contains(&cents)), "{text:?}");
    assert_eq!(format!("{code:?}"), "BrCode(…)");
    assert!(!code.merchant_name.is_empty() && !code.merchant_city.is_empty(), "{text:?}");
    // A checksum of 16 bits finds whatever is wrong within 16 bits: any one character.
    for place in [0, covered.len() / 2, covered.len().saturating_sub(1)] {
        let mut bytes = text.as_bytes().to_vec();
        if let Some(byte) = bytes.get_mut(place) {
            *byte = if *byte == b'A' { b'B' } else { b'A' };
        }
        let changed = String::from_utf8(bytes).unwrap_or_default();
        assert!(decode(&changed).is_err(), "{text:?} is read with another character at {place}");
    }
    Some(code)
}

/// CRC-16/IBM-3740 a byte at a time, where the code under test goes by bits.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc: u16, byte| {
        let mut mixed = (crc >> 8) ^ u16::from(*byte);
        mixed ^= mixed >> 4;
        (crc << 8) ^ (mixed << 12) ^ (mixed << 5) ^ mixed
    })
}

/// A document, a PIX key of each type, and the ids of the arrangement. What is stored is read again as the same, no mask
/// shows the whole, and no refusal repeats what was given.
pub fn documents(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let tax_id = TaxId::parse(&text);
    told(&text, &tax_id);
    if let Ok(tax_id) = &tax_id {
        assert_eq!(TaxId::parse(tax_id.as_str()).as_ref(), Ok(tax_id), "{text:?}");
        assert_eq!(Document::parse(tax_id.as_str()), Ok(Document::from(tax_id.clone())), "{text:?}");
        tax_id_form(tax_id.kind(), tax_id.as_str());
        masked(tax_id.as_str(), &tax_id.masked(), &format!("{tax_id:?}"));
    }
    let document = Document::parse(&text);
    told(&text, &document);
    if let Ok(document) = &document {
        assert_eq!(Document::parse(document.as_str()).as_ref(), Ok(document), "{text:?}");
        tax_id_form(document.kind(), document.as_str());
        masked(document.as_str(), &document.masked(), &format!("{document:?}"));
    }
    assert!(tax_id.is_err() || document.is_ok(), "{text:?} is a tax number and no document");
    told(&text, &PixKeyType::parse(&text));
    for kind in [PixKeyType::Cpf, PixKeyType::Cnpj, PixKeyType::Phone, PixKeyType::Email, PixKeyType::Evp] {
        let key = PixKey::parse(kind, &text);
        told(&text, &key);
        let Ok(key) = key else { continue };
        assert_eq!(PixKey::parse(kind, key.as_str()).as_ref(), Ok(&key), "{text:?}");
        assert_eq!(key.kind(), kind);
        assert!(key.as_str().len() <= PIX_KEY_MAX_CHARS && key.as_str().is_ascii(), "{text:?}");
        match kind {
            PixKeyType::Email => assert!(key.masked().starts_with("***@"), "{:?}", key.masked()),
            _ => masked(key.as_str(), &key.masked(), &format!("{key:?}")),
        }
    }
    ids(&text);
}

fn tax_id_form(kind: TaxIdKind, text: &str) {
    let length = match kind {
        TaxIdKind::Cpf => 11,
        TaxIdKind::Cnpj => 14,
    };
    assert_eq!(text.len(), length, "{text:?}");
    let canonical = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    assert!(text.bytes().all(canonical), "{text:?}");
}

/// At least three characters are hidden; and `debug` shows what `mask` does.
fn masked(text: &str, mask: &str, debug: &str) {
    let count = |text: &str| text.bytes().filter(u8::is_ascii_alphanumeric).count();
    assert!(count(mask).saturating_add(3) <= count(text), "the mask {mask:?} shows too much");
    assert!(mask.contains('*') && !mask.contains(text), "{mask:?}");
    assert!(debug.contains(mask) && !debug.contains(text), "{debug:?}");
}

/// What is refused is refused in words that don't repeat it.
fn told<T: fmt::Debug>(text: &str, parsed: &Result<T, Invalid>) {
    let Err(invalid) = parsed else { return };
    assert!(!invalid.code.is_empty() && !invalid.message.is_empty());
    for digits in text.split(|c: char| !c.is_ascii_digit()).filter(|run| run.len() >= TELLING_DIGITS) {
        let ours = OUR_DIGITS.iter().any(|ours| ours.contains(digits));
        assert!(ours || !invalid.message.contains(digits), "{:?} repeats what was given", invalid.message);
    }
}

/// The three ids are different things, and are kept as they are.
fn ids(text: &str) {
    let (end_to_end, returned, txid) = (EndToEndId::parse(text), ReturnId::parse(text), TxId::parse(text));
    assert!(end_to_end.is_err() || returned.is_err(), "{text:?}");
    if let Ok(id) = end_to_end {
        assert_eq!(id.as_str(), text);
    }
    if let Ok(id) = returned {
        assert_eq!(id.as_str(), text);
    }
    if TxId::parse_charge(text).is_ok() {
        assert!(txid.is_ok(), "{text:?}");
    }
}
