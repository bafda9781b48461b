//! BR Codes: the text behind a PIX QR code (BCB, "Manual de Padrões para Iniciação do Pix"; EMV MPM 1.1).
//!
//! A list of tag, two-digit length and value, closed by a checksum. Written here for a charge's location
//! ([`DynamicBrCode`]) or for a key ([`StaticBrCode`]), and read ([`decode`]) from anyone, hostile text
//! included. What stands at a location, and who owns a key, is never known here.
//!
//! Names and keys are personal data: no `Debug` and no error of this module shows a value.

use std::fmt;

use crate::end_to_end::TxId;

mod fold;
mod tlv;

use fold::folded;
pub use tlv::Field;
use tlv::{crc, find, parse_fields, write_field};

/// Most characters of a whole BR Code.
pub const BR_CODE_MAX_CHARS: usize = 512;
/// Most characters of the location of a dynamic code, and of the key of a static one.
pub const LOCATION_MAX_CHARS: usize = 77;
/// Most characters of the receiver's name; a longer one is cut.
pub const MERCHANT_NAME_MAX_CHARS: usize = 25;
/// Most characters of the receiver's city; a longer one is cut.
pub const MERCHANT_CITY_MAX_CHARS: usize = 15;
/// Most characters of the txid of a static code.
pub const STATIC_TX_ID_MAX_CHARS: usize = 25;
/// Largest amount: ten digits of reais (BCB: `\d{1,10}\.\d{2}`).
pub const BR_CODE_MAX_CENTS: i64 = 999_999_999_999;

const GUI: &str = "br.gov.bcb.pix";
const NO_TX_ID: &str = "***";
const BRL: &str = "986";

/// Tags of the code itself, and then of the templates within it.
mod tag {
    pub const PAYLOAD_FORMAT: u8 = 0;
    pub const POINT_OF_INITIATION: u8 = 1;
    pub const MERCHANT_ACCOUNT: u8 = 26;
    pub const MERCHANT_ACCOUNT_LAST: u8 = 51;
    pub const MERCHANT_CATEGORY: u8 = 52;
    pub const CURRENCY: u8 = 53;
    pub const AMOUNT: u8 = 54;
    pub const COUNTRY: u8 = 58;
    pub const MERCHANT_NAME: u8 = 59;
    pub const MERCHANT_CITY: u8 = 60;
    pub const ADDITIONAL: u8 = 62;
    pub const CRC: u8 = 63;

    pub const ACCOUNT_GUI: u8 = 0;
    pub const ACCOUNT_KEY: u8 = 1;
    pub const ACCOUNT_DESCRIPTION: u8 = 2;
    pub const ACCOUNT_LOCATION: u8 = 25;

    pub const ADDITIONAL_TX_ID: u8 = 5;
}

/// Why a text is no BR Code, or why one can't be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrCodeError {
    /// More than [`BR_CODE_MAX_CHARS`].
    #[error("a BR Code must have at most 512 characters")]
    TooLong,
    /// A character outside of printable ASCII.
    #[error("a BR Code must consist of printable ASCII characters")]
    NotAscii,
    /// A tag that is not two digits.
    #[error("a tag of the BR Code is not two digits")]
    BadTag,
    /// A length that is not two digits from 01 to 99.
    #[error("the length of tag {0:02} of the BR Code is not a number from 01 to 99")]
    BadLength(u8),
    /// The text ends within a field.
    #[error("the BR Code is cut short")]
    Truncated,
    /// The checksum is not that of the text.
    #[error("the checksum of the BR Code is wrong")]
    WrongCrc,
    /// A tag that has to be there is not.
    #[error("the BR Code lacks its tag {0:02}")]
    Missing(u8),
    /// A tag stands twice.
    #[error("tag {0:02} stands twice in the BR Code")]
    Duplicate(u8),
    /// A tag's value is not one that it may have.
    #[error("tag {0:02} of the BR Code has a value that it must not have")]
    InvalidValue(u8),
    /// The account is of another arrangement, or neither a location nor a key.
    #[error("the code is not one of PIX")]
    NotPix,
    /// A value to write is longer than its tag allows.
    #[error("the value of tag {0:02} is too long for a BR Code")]
    ValueTooLong(u8),
}

/// A BR Code that points to a charge: name, city and amount are read from the location by the payer's bank.
///
/// It bears no amount: payers ignore one in a dynamic code.
#[derive(Clone, PartialEq, Eq)]
pub struct DynamicBrCode {
    /// Where the charge is, without the scheme, at most [`LOCATION_MAX_CHARS`] characters.
    pub location: String,
    /// The receiver; accents are taken off and what exceeds [`MERCHANT_NAME_MAX_CHARS`] is cut.
    pub merchant_name: String,
    /// The receiver's city; accents are taken off and what exceeds [`MERCHANT_CITY_MAX_CHARS`] is cut.
    pub merchant_city: String,
}

impl DynamicBrCode {
    /// The text of the QR code.
    pub fn encode(&self) -> Result<String, BrCodeError> {
        let location = plain(tag::ACCOUNT_LOCATION, &self.location)?;
        if location.contains("://") {
            return Err(BrCodeError::InvalidValue(tag::ACCOUNT_LOCATION));
        }
        let account =
            [write_field(tag::ACCOUNT_GUI, GUI)?, write_field(tag::ACCOUNT_LOCATION, location)?].concat();
        finish(&[
            write_field(tag::POINT_OF_INITIATION, "12")?,
            write_field(tag::MERCHANT_ACCOUNT, &account)?,
            receiver(None, &self.merchant_name, &self.merchant_city, NO_TX_ID)?,
        ])
    }
}

/// A BR Code that bears a key, payable any number of times.
#[derive(Clone, PartialEq, Eq)]
pub struct StaticBrCode {
    /// The receiver's PIX key as DICT knows it.
    pub key: String,
    /// What to pay; the payer chooses when there is none.
    pub amount_cents: Option<i64>,
    /// The receiver; folded and cut as in [`DynamicBrCode`].
    pub merchant_name: String,
    /// The receiver's city; folded and cut as in [`DynamicBrCode`].
    pub merchant_city: String,
    /// The receiver's name for the payment, at most [`STATIC_TX_ID_MAX_CHARS`] characters.
    pub txid: Option<TxId>,
    /// A text for the payer; accents are taken off. Together with the key it has to fit into one tag of 99
    /// characters, which leaves 73 less the length of the key.
    pub description: Option<String>,
}

impl StaticBrCode {
    /// The text of the QR code.
    pub fn encode(&self) -> Result<String, BrCodeError> {
        let mut account = [
            write_field(tag::ACCOUNT_GUI, GUI)?,
            write_field(tag::ACCOUNT_KEY, plain(tag::ACCOUNT_KEY, &self.key)?)?,
        ]
        .concat();
        let description = self.description.as_deref().map(folded).filter(|text| !text.is_empty());
        if let Some(description) = description {
            account.push_str(&write_field(tag::ACCOUNT_DESCRIPTION, &description)?);
        }
        let txid = self.txid.as_ref().map_or(NO_TX_ID, TxId::as_str);
        if txid.len() > STATIC_TX_ID_MAX_CHARS {
            return Err(BrCodeError::ValueTooLong(tag::ADDITIONAL_TX_ID));
        }
        finish(&[
            write_field(tag::MERCHANT_ACCOUNT, &account)?,
            receiver(self.amount_cents, &self.merchant_name, &self.merchant_city, txid)?,
        ])
    }
}

/// What a BR Code points to.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// A charge.
    Dynamic {
        /// Where the charge is, without the scheme.
        location: String,
    },
    /// A key.
    Static {
        /// The receiver's PIX key.
        key: String,
        /// A text for the payer.
        description: Option<String>,
    },
}

/// A BR Code that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct BrCode {
    /// Charge or key.
    pub target: Target,
    /// What to pay, if the code says so.
    pub amount_cents: Option<i64>,
    /// The receiver's name.
    pub merchant_name: String,
    /// The receiver's city.
    pub merchant_city: String,
    /// The receiver's name for the payment; none when the code has `***` for it.
    pub txid: Option<TxId>,
    /// Every field of the code in its order, the checksum included.
    pub fields: Vec<Field>,
}

impl BrCode {
    /// The location of a dynamic code.
    pub fn location(&self) -> Option<&str> {
        match &self.target {
            Target::Dynamic { location } => Some(location),
            Target::Static { .. } => None,
        }
    }

    /// The key of a static code.
    pub fn key(&self) -> Option<&str> {
        match &self.target {
            Target::Static { key, .. } => Some(key),
            Target::Dynamic { .. } => None,
        }
    }
}

/// Reads a BR Code. The checksum and everything that BCB makes mandatory is verified, save the additional data
/// (tag 62), which static codes in use leave out; the lengths of names are the writer's business.
pub fn decode(text: &str) -> Result<BrCode, BrCodeError> {
    if text.len() > BR_CODE_MAX_CHARS {
        return Err(BrCodeError::TooLong);
    }
    if !is_printable(text) {
        return Err(BrCodeError::NotAscii);
    }
    let fields = parse_fields(text)?;
    verify_crc(text, &fields)?;
    expect(&fields, tag::PAYLOAD_FORMAT, |value| value == "01")?;
    expect(&fields, tag::MERCHANT_CATEGORY, |value| value.len() == 4 && is_digits(value))?;
    expect(&fields, tag::CURRENCY, |value| value == BRL)?;
    expect(&fields, tag::COUNTRY, |value| value.eq_ignore_ascii_case("BR"))?;
    Ok(BrCode {
        target: target(&fields)?,
        amount_cents: find(&fields, tag::AMOUNT)
            .map(|text| parse_cents(text).ok_or(BrCodeError::InvalidValue(tag::AMOUNT)))
            .transpose()?,
        merchant_name: mandatory(&fields, tag::MERCHANT_NAME)?.to_owned(),
        merchant_city: mandatory(&fields, tag::MERCHANT_CITY)?.to_owned(),
        txid: txid(&fields)?,
        fields,
    })
}

fn verify_crc(text: &str, fields: &[Field]) -> Result<(), BrCodeError> {
    let given = fields.last().filter(|field| field.tag == tag::CRC).ok_or(BrCodeError::Missing(tag::CRC))?;
    let covered = text.strip_suffix(&given.value).unwrap_or_default();
    if given.value.len() != 4 {
        return Err(BrCodeError::InvalidValue(tag::CRC));
    }
    if given.value.eq_ignore_ascii_case(&crc(covered)) { Ok(()) } else { Err(BrCodeError::WrongCrc) }
}

fn target(fields: &[Field]) -> Result<Target, BrCodeError> {
    let mut seen = false;
    for account in
        fields.iter().filter(|f| (tag::MERCHANT_ACCOUNT..=tag::MERCHANT_ACCOUNT_LAST).contains(&f.tag))
    {
        seen = true;
        // Accounts of other arrangements may be written in ways of their own.
        let Ok(parts) = parse_fields(&account.value) else {
            if account.tag == tag::MERCHANT_ACCOUNT {
                return Err(BrCodeError::InvalidValue(account.tag));
            }
            continue;
        };
        if !find(&parts, tag::ACCOUNT_GUI).is_some_and(|gui| gui.eq_ignore_ascii_case(GUI)) {
            continue;
        }
        return match (find(&parts, tag::ACCOUNT_LOCATION), find(&parts, tag::ACCOUNT_KEY)) {
            (Some(location), None) => Ok(Target::Dynamic { location: location.to_owned() }),
            (None, Some(key)) => Ok(Target::Static {
                key: key.to_owned(),
                description: find(&parts, tag::ACCOUNT_DESCRIPTION).map(str::to_owned),
            }),
            _ => Err(BrCodeError::NotPix),
        };
    }
    Err(if seen { BrCodeError::NotPix } else { BrCodeError::Missing(tag::MERCHANT_ACCOUNT) })
}

fn txid(fields: &[Field]) -> Result<Option<TxId>, BrCodeError> {
    let Some(additional) = find(fields, tag::ADDITIONAL) else { return Ok(None) };
    let Ok(parts) = parse_fields(additional) else { return Err(BrCodeError::InvalidValue(tag::ADDITIONAL)) };
    match find(&parts, tag::ADDITIONAL_TX_ID) {
        None | Some(NO_TX_ID) => Ok(None),
        Some(text) => match TxId::parse(text) {
            Ok(txid) => Ok(Some(txid)),
            Err(_) => Err(BrCodeError::InvalidValue(tag::ADDITIONAL)),
        },
    }
}

fn mandatory(fields: &[Field], tag: u8) -> Result<&str, BrCodeError> {
    find(fields, tag).ok_or(BrCodeError::Missing(tag))
}

fn expect(fields: &[Field], tag: u8, is_right: impl Fn(&str) -> bool) -> Result<(), BrCodeError> {
    if is_right(mandatory(fields, tag)?) { Ok(()) } else { Err(BrCodeError::InvalidValue(tag)) }
}

/// Everything after the account and before the checksum.
fn receiver(cents: Option<i64>, name: &str, city: &str, txid: &str) -> Result<String, BrCodeError> {
    let amount = match cents {
        None => String::new(),
        Some(cents @ 1..=BR_CODE_MAX_CENTS) => {
            write_field(tag::AMOUNT, &format!("{}.{:02}", cents / 100, cents % 100))?
        }
        Some(_) => return Err(BrCodeError::InvalidValue(tag::AMOUNT)),
    };
    Ok([
        write_field(tag::MERCHANT_CATEGORY, "0000")?,
        write_field(tag::CURRENCY, BRL)?,
        amount,
        write_field(tag::COUNTRY, "BR")?,
        write_field(tag::MERCHANT_NAME, &cut(&folded(name), MERCHANT_NAME_MAX_CHARS))?,
        write_field(tag::MERCHANT_CITY, &cut(&folded(city), MERCHANT_CITY_MAX_CHARS))?,
        write_field(tag::ADDITIONAL, &write_field(tag::ADDITIONAL_TX_ID, txid)?)?,
    ]
    .concat())
}

/// The parts with the payload format before and the checksum after them.
fn finish(parts: &[String]) -> Result<String, BrCodeError> {
    let covered = format!("{}{}{:02}04", write_field(tag::PAYLOAD_FORMAT, "01")?, parts.concat(), tag::CRC);
    let code = format!("{covered}{}", crc(&covered));
    if code.len() > BR_CODE_MAX_CHARS { Err(BrCodeError::TooLong) } else { Ok(code) }
}

/// A location or key, which must not be altered to fit.
fn plain(tag: u8, text: &str) -> Result<&str, BrCodeError> {
    if text.len() > LOCATION_MAX_CHARS {
        return Err(BrCodeError::ValueTooLong(tag));
    }
    if text.bytes().all(|b| b.is_ascii_graphic()) { Ok(text) } else { Err(BrCodeError::InvalidValue(tag)) }
}

fn cut(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect::<String>().trim_end().to_owned()
}

/// An amount as EMV MPM writes it: digits, and up to two after a point.
fn parse_cents(text: &str) -> Option<i64> {
    let (reais, cents) = text.split_once('.').unwrap_or((text, ""));
    if reais.is_empty() || !is_digits(reais) || !is_digits(cents) || cents.len() > 2 {
        return None;
    }
    let cents: i64 = format!("{cents:0<2}").parse().ok()?;
    let total = reais.parse::<i64>().ok()?.checked_mul(100)?.checked_add(cents)?;
    (total <= BR_CODE_MAX_CENTS).then_some(total)
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
}

macro_rules! redacted_debug {
    ($($name:ident),+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    )+};
}

redacted_debug!(DynamicBrCode, StaticBrCode, BrCode, Target);

#[cfg(test)]
mod tests;
