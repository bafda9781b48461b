use proptest::prelude::*;

use super::*;

const DYNAMIC: &str = "00020101021226770014BR.GOV.BCB.PIX2555pix.example.com/qr/93598be0-1bd0-4997-8318-81776a1d8a99\
                       5204000053039865802BR5907EMPRESA6009SAO PAULO62070503***6304EEAB";
const STATIC: &str = "00020126330014BR.GOV.BCB.PIX01115794666323452040000530398654041.005802BR\
                      5925CLENILTON CRUZ DE ALENCAR6006MANAUS62070503***6304FA88";

fn with_crc(covered: &str) -> String {
    let covered = format!("{covered}6304");
    format!("{covered}{}", crc(&covered))
}

fn dynamic(location: &str, name: &str, city: &str) -> DynamicBrCode {
    DynamicBrCode { location: location.into(), merchant_name: name.into(), merchant_city: city.into() }
}

fn of_key(key: &str) -> StaticBrCode {
    StaticBrCode {
        key: key.into(),
        amount_cents: None,
        merchant_name: "LOJA".into(),
        merchant_city: "RECIFE".into(),
        txid: None,
        description: None,
    }
}

#[test]
fn the_dynamic_vector_of_bcb_is_read() {
    let code = decode(DYNAMIC).unwrap();
    assert_eq!(code.location(), Some("pix.example.com/qr/93598be0-1bd0-4997-8318-81776a1d8a99"));
    assert_eq!(code.key(), None);
    assert_eq!((code.merchant_name.as_str(), code.merchant_city.as_str()), ("EMPRESA", "SAO PAULO"));
    assert_eq!((code.amount_cents, code.txid.clone()), (None, None));
    assert_eq!(code.fields.iter().map(|f| f.tag).collect::<Vec<_>>(), [0, 1, 26, 52, 53, 58, 59, 60, 62, 63]);
}

#[test]
fn the_static_vector_of_bcb_is_read() {
    let code = decode(STATIC).unwrap();
    assert_eq!(code.key(), Some("57946663234"));
    assert_eq!(code.location(), None);
    assert_eq!(code.amount_cents, Some(100));
    assert_eq!(code.merchant_name, "CLENILTON CRUZ DE ALENCAR");
    assert_eq!(code.merchant_city, "MANAUS");
    assert_eq!(code.txid, None);
}

#[test]
fn the_vectors_are_written_but_for_the_case_of_the_gui() {
    let location = "pix.example.com/qr/93598be0-1bd0-4997-8318-81776a1d8a99";
    let without_crc = |code: &str| code[..code.len() - 4].to_ascii_lowercase();
    let written = dynamic(location, "EMPRESA", "SAO PAULO").encode().unwrap();
    assert_eq!(without_crc(&written), without_crc(DYNAMIC));
    let written = StaticBrCode {
        amount_cents: Some(100),
        merchant_name: "Clenilton Cruz de Alencar".into(),
        merchant_city: "Manaus".into(),
        ..of_key("57946663234")
    };
    assert_eq!(without_crc(&written.encode().unwrap()), without_crc(STATIC));
}

#[test]
fn names_are_folded_and_cut() {
    let name = "Associação Beneficente da Mãe Preta";
    let code = decode(&dynamic("a.co/1", name, "São José do Rio Preto").encode().unwrap()).unwrap();
    assert_eq!(code.merchant_name, "Associacao Beneficente da");
    assert_eq!(code.merchant_city, "Sao Jose do Rio");
}

#[test]
fn what_does_not_fit_is_not_written() {
    use BrCodeError::{InvalidValue, Missing, ValueTooLong};
    assert!(dynamic(&"l".repeat(77), "N", "C").encode().is_ok());
    for (code, expected) in [
        (dynamic(&"l".repeat(78), "N", "C"), ValueTooLong(25)),
        (dynamic("", "N", "C"), Missing(25)),
        (dynamic("https://a.co/1", "N", "C"), InvalidValue(25)),
        (dynamic("a.co/é", "N", "C"), InvalidValue(25)),
        (dynamic("a.co/ 1", "N", "C"), InvalidValue(25)),
        (dynamic("a.co/1", "東京", "C"), Missing(59)),
        (dynamic("a.co/1", "N", " "), Missing(60)),
    ] {
        assert_eq!(code.encode(), Err(expected), "{}", code.location);
    }
    let txid = |text: &str| Some(TxId::parse(text).unwrap());
    let key = "a".repeat(60);
    for (code, expected) in [
        (StaticBrCode { amount_cents: Some(0), ..of_key("k") }, InvalidValue(54)),
        (StaticBrCode { amount_cents: Some(-1), ..of_key("k") }, InvalidValue(54)),
        (StaticBrCode { amount_cents: Some(i64::MAX), ..of_key("k") }, InvalidValue(54)),
        (StaticBrCode { txid: txid(&"a".repeat(26)), ..of_key("k") }, ValueTooLong(5)),
        (StaticBrCode { description: Some("d".repeat(14)), ..of_key(&key) }, ValueTooLong(26)),
        (of_key(&"k".repeat(78)), ValueTooLong(1)),
        (of_key(""), Missing(1)),
    ] {
        assert_eq!(code.encode(), Err(expected));
    }
    assert!(StaticBrCode { description: Some("d".repeat(13)), ..of_key(&key) }.encode().is_ok());
}

#[test]
fn every_way_to_be_broken_has_its_own_error() {
    use BrCodeError::{
        BadLength, BadTag, Duplicate, InvalidValue, Missing, NotAscii, NotPix, TooLong, Truncated, WrongCrc,
    };
    let account = "26240014br.gov.bcb.pix0102ab";
    let rest = "5204000053039865802BR5901N6001C";
    let whole = with_crc(&format!("000201{account}{rest}"));
    assert_eq!(decode(&whole).unwrap().key(), Some("ab"), "the base of the broken ones is sound");
    for (text, expected) in [
        (String::new(), Missing(63)),
        ("a".repeat(513), TooLong),
        (STATIC.replace("MANAUS", "MANAÚS"), NotAscii),
        (STATIC.replace("MANAUS", "MANA\nS"), NotAscii),
        (STATIC.replace("MANAUS", "manaus"), WrongCrc),
        (STATIC.replace("FA88", "FA89"), WrongCrc),
        (STATIC[..STATIC.len() - 1].to_owned(), Truncated),
        (STATIC[..STATIC.len() - 4].to_owned(), Truncated),
        (STATIC[..STATIC.len() - 8].to_owned(), Missing(63)),
        (format!("{STATIC}0"), Truncated),
        (format!("{STATIC}8002xx"), Missing(63)),
        ("0002016302AB".to_owned(), InvalidValue(63)),
        ("0x0201".to_owned(), BadTag),
        ("00x201".to_owned(), BadLength(0)),
        (with_crc("0002015900"), BadLength(59)),
        (with_crc(&format!("000201000201{account}{rest}")), Duplicate(0)),
        (with_crc(&format!("{account}{rest}")), Missing(0)),
        (with_crc(&format!("000202{account}{rest}")), InvalidValue(0)),
        (with_crc(&format!("000201{rest}")), Missing(26)),
        (with_crc(&format!("00020126180014br.gov.bcb.pix{rest}")), NotPix),
        (with_crc(&format!("00020126300014br.gov.bcb.pix0102ab2502cd{rest}")), NotPix),
        (with_crc(&format!("00020126220012br.com.other0102ab{rest}")), NotPix),
        (with_crc(&format!("0002012604zzzz{rest}")), InvalidValue(26)),
        (with_crc(&format!("00020126300014br.gov.bcb.pix0102ab0102ab{rest}")), InvalidValue(26)),
        (with_crc(&format!("000201{account}53039865802BR5901N6001C")), Missing(52)),
        (with_crc(&format!("000201{account}520400005802BR5901N6001C")), Missing(53)),
        (with_crc(&format!("000201{account}5204000053038405802BR5901N6001C")), InvalidValue(53)),
        (with_crc(&format!("000201{account}5204000053039865901N6001C")), Missing(58)),
        (with_crc(&format!("000201{account}5204000053039865802US5901N6001C")), InvalidValue(58)),
        (with_crc(&format!("000201{account}5204000053039865802BR6001C")), Missing(59)),
        (with_crc(&format!("000201{account}5204000053039865802BR5901N")), Missing(60)),
        (with_crc(&format!("000201{account}{rest}54041,00")), InvalidValue(54)),
        (with_crc(&format!("000201{account}{rest}62050501-")), InvalidValue(62)),
        (with_crc(&format!("000201{account}{rest}62020x")), InvalidValue(62)),
    ] {
        assert_eq!(decode(&text).map(|_| ()), Err(expected), "{text}");
    }
}

#[test]
fn an_account_of_another_arrangement_may_stand_beside() {
    let code = with_crc("0002012704zzzz26240014br.gov.bcb.pix0102ab5204000053039865802BR5901N6001C");
    assert_eq!(decode(&code).unwrap().key(), Some("ab"));
}

#[test]
fn amounts_are_read_without_a_float() {
    for (text, cents) in [
        ("1", Some(100)),
        ("1.", Some(100)),
        ("1.5", Some(150)),
        ("0.01", Some(1)),
        ("123.45", Some(12_345)),
        ("9999999999.99", Some(BR_CODE_MAX_CENTS)),
        ("10000000000.00", None),
        ("99999999999999999999", None),
        ("1.005", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        (".50", None),
        ("", None),
        ("1.2.3", None),
        ("1,00", None),
    ] {
        assert_eq!(parse_cents(text), cents, "{text}");
    }
}

#[test]
fn debug_and_errors_show_no_value() {
    let code = decode(STATIC).unwrap();
    let shown = format!("{code:?} {:?} {:?} {:?}", code.target, code.fields, of_key("57946663234"));
    assert!(!shown.contains("57946663234") && !shown.contains("CLENILTON"), "{shown}");
    assert_eq!(BrCodeError::Missing(0).to_string(), "the BR Code lacks its tag 00");
}

proptest! {
    #[test]
    fn decoding_anything_never_panics(text in any::<String>(), printable in "[ -~]{0,600}", digits in "[0-9]{0,600}") {
        for text in [text, printable, digits] {
            let _ = decode(&text).is_ok();
            let _ = decode(&with_crc(&text)).is_ok();
        }
    }

    #[test]
    fn decoding_a_damaged_code_never_panics_nor_passes(at in 0..STATIC.len(), c in any::<char>()) {
        let mut damaged = STATIC.to_owned();
        let end = at + 1;
        prop_assume!(!damaged[at..end].eq_ignore_ascii_case(c.to_string().as_str()));
        damaged.replace_range(at..end, &c.to_string());
        prop_assert!(decode(&damaged).is_err());
    }

    #[test]
    fn a_dynamic_code_reads_back_as_written(
        location in "[!-9;-~]{1,77}",
        name in "[!-~]([ -~]{0,23}[!-~])?".prop_map(|s| s.split_whitespace().collect::<Vec<_>>().join(" ")),
        city in "[!-~]([ -~]{0,13}[!-~])?".prop_map(|s| s.split_whitespace().collect::<Vec<_>>().join(" ")),
    ) {
        let written = dynamic(&location, &name, &city);
        let read = decode(&written.encode().unwrap()).unwrap();
        prop_assert_eq!(read.location(), Some(location.as_str()));
        prop_assert_eq!((read.merchant_name, read.merchant_city, read.amount_cents), (name, city, None));
    }

    #[test]
    fn a_static_code_reads_back_as_written(
        key in "[!-~]{1,40}",
        amount_cents in prop::option::of(1..=BR_CODE_MAX_CENTS),
        txid in prop::option::of("[a-zA-Z0-9]{1,25}"),
        description in prop::option::of("[!-~]{1,33}"),
    ) {
        let written = StaticBrCode {
            amount_cents,
            txid: txid.map(|text| TxId::parse(&text).unwrap()),
            description: description.clone(),
            ..of_key(&key)
        };
        let read = decode(&written.encode().unwrap()).unwrap();
        prop_assert_eq!(read.target, Target::Static { key, description });
        prop_assert_eq!((read.amount_cents, read.txid), (written.amount_cents, written.txid));
    }

    #[test]
    fn any_name_that_can_be_written_can_be_read(name in any::<String>(), city in any::<String>()) {
        if let Ok(text) = dynamic("a.co/1", &name, &city).encode() {
            let read = decode(&text).unwrap();
            prop_assert!(read.merchant_name.len() <= MERCHANT_NAME_MAX_CHARS);
            prop_assert!(read.merchant_city.len() <= MERCHANT_CITY_MAX_CHARS);
        }
    }
}
