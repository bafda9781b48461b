//! Cursors as clients see them: opaque, and safe in a URL.
//!
//! A cursor belongs to one list of one integrator. In another one it would skip rows in silence, so its last digits tell
//! whose it is. They are no secret: whoever makes one up gets no more than a place in his own list.

use pix_domain::ids::IntegratorId;
use uuid::Uuid;

/// How many digits show that a cursor is one of ours.
const CHECK_DIGITS: usize = 16;

/// The cursor of `place` in a list.
pub(super) fn write(list: &str, integrator_id: IntegratorId, place: &str) -> String {
    format!("{place}{}", check(list, integrator_id, place))
}

/// The last digits of a cursor: of `place`, as the list writes it down.
pub(super) fn check(list: &str, integrator_id: IntegratorId, place: &str) -> String {
    let name = format!("{list}\0{integrator_id}\0{place}");
    let mut check = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).simple().to_string();
    check.truncate(CHECK_DIGITS);
    check
}

/// The place that a cursor names; `None` when it is damaged, or one of another list or integrator.
pub(super) fn read<'a>(list: &str, integrator_id: IntegratorId, text: &'a str) -> Option<&'a str> {
    let (place, _check) = text.split_at_checked(text.len().checked_sub(CHECK_DIGITS)?)?;
    (write(list, integrator_id, place) == text).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: IntegratorId = IntegratorId(Uuid::from_u128(7));

    #[test]
    fn a_cursor_survives_and_a_damaged_or_foreign_one_does_not() {
        for place in ["", "0", "00ff", "0100000000000000000000000000000007"] {
            let text = write("charges", OURS, place);
            assert_eq!(read("charges", OURS, &text), Some(place));
            assert_eq!(read("withdrawals", OURS, &text), None);
            assert_eq!(read("charges", IntegratorId(Uuid::from_u128(8)), &text), None);
            for at in 0..text.len() {
                assert_eq!(read("charges", OURS, &text[..at]), None);
                let other = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
                let damaged = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                assert_eq!(read("charges", OURS, &damaged), None, "{damaged}");
            }
        }
        for text in ["", "é", "00019900000000007000800000000000ff", "ééééééééé"] {
            assert_eq!(read("charges", OURS, text), None, "{text}");
        }
    }
}
