//! Identifiers that we make, and the port they come from.

use std::fmt;

use uuid::Uuid;

use crate::time::Timestamp;

macro_rules! uuid_id {
    ($(#[doc = $doc:literal] $name:ident;)*) => {$(
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        /// The hyphenated form.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

uuid_id! {
    #[doc = "Who owns records and a wallet."] IntegratorId;
    #[doc = "The public id of a charge (`UUIDv7`)."] ChargeId;
    #[doc = "The public id of a withdrawal (`UUIDv7`, or [`bound`] to its handle)."] WithdrawalId;
    #[doc = "The public id of a refund (`UUIDv7`, or [`bound`] to its handle)."] RefundId;
    #[doc = "The public id of a split (`UUIDv7`)."] SplitId;
}

/// Where new identifiers come from.
///
/// An implementation MUST never return the same id twice, on any node, and MUST return UUIDs of version 7 (RFC 9562 §5.7) whose
/// time is that of the [`Clock`](crate::time::Clock) to within an hour ([`MAX_ID_DISORDER`](crate::list::MAX_ID_DISORDER)): lists,
/// and the statement of one record, are read by it.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Ids: Send + Sync {
    /// A new id.
    fn next(&self) -> Uuid;

    /// The smallest id that can have been made at `at` or later, when ids tell that; `None` when they don't.
    ///
    /// It narrows a list between two times to a range of its key: without it, a page that goes past the last row between
    /// them reads all that is beyond.
    fn earliest(&self, at: Timestamp) -> Option<Uuid> {
        let _ = at;
        None
    }
}

/// The bits of an id that stand for when it was made.
const TIME_BITS: u128 = !(u128::MAX >> 48);

/// `fresh` with all that is not time taken from `name`, as a UUID of version 8 (RFC 9562): an id that is ordered as any
/// other, and whose [`timeless`] part is known again to whoever knows the name.
pub fn bound(fresh: Uuid, name: Uuid) -> Uuid {
    let mut bytes =
        Uuid::from_u128((fresh.as_u128() & TIME_BITS) | (name.as_u128() & !TIME_BITS)).into_bytes();
    for (byte, (kept, set)) in bytes.iter_mut().skip(6).step_by(2).zip([(0x0f, 0x80), (0x3f, 0x80)]) {
        *byte = (*byte & kept) | set;
    }
    Uuid::from_bytes(bytes)
}

/// What of a [`bound`] id says nothing of when it was made: 74 bits of its name. `None` for any other id.
pub fn timeless(id: Uuid) -> Option<Uuid> {
    (id.get_version_num() == 8).then(|| Uuid::from_u128(id.as_u128() & !TIME_BITS))
}

/// Whether `id` is the [`timeless`] part of ids.
pub fn is_timeless(id: Uuid) -> bool {
    timeless(id) == Some(id)
}

/// What kind of record a reference names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// Money to come in.
    Charge,
    /// Money to go out.
    Withdrawal,
    /// Money of a charge to go back.
    Refund,
    /// A part of another integrator's charge.
    Split,
}

impl ResourceKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Charge, Self::Withdrawal, Self::Refund, Self::Split];

    /// `charge`, `withdrawal`, `refund` or `split`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Withdrawal => "withdrawal",
            Self::Refund => "refund",
            Self::Split => "split",
        }
    }
}

/// One record of one integrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceRef {
    /// Whose it is.
    pub integrator_id: IntegratorId,
    /// What it is.
    pub kind: ResourceKind,
    /// Its id.
    pub id: Uuid,
}

/// A number that goes up by one with every change of a record. It is the guard of an update and, as the change's
/// event has the same number, the sequence of events of that record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// The version a record is born with.
    pub const FIRST: Self = Self(1);

    /// The version after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// 128 bits as 26 characters of Crockford's base 32 (the text form of a ULID): what follows `chg-`, `wdr-` and
/// `rfd-` in a generated external id.
pub fn base32_26(id: Uuid) -> String {
    const ALPHABET: [char; 32] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'J', 'K',
        'M', 'N', 'P', 'Q', 'R', 'S', 'T', 'V', 'W', 'X', 'Y', 'Z',
    ];
    let bits = id.as_u128();
    (0..26_u32)
        .rev()
        .map(|position| {
            let index = usize::try_from((bits >> (position * 5)) & 31).unwrap_or(0);
            ALPHABET.get(index).copied().unwrap_or('0')
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_id_has_its_own_time_and_the_rest_of_its_name() {
        let name = Uuid::new_v5(&Uuid::NAMESPACE_OID, b"one");
        let (early, late) =
            (0x0199_0000_0000_7000_8000_0000_0000_0001, 0x019a_0000_0000_7fff_bfff_ffff_ffff_ffff);
        let (early, late) = (bound(Uuid::from_u128(early), name), bound(Uuid::from_u128(late), name));
        assert!(early < late);
        assert_eq!((early.get_version_num(), early.get_variant()), (8, uuid::Variant::RFC4122));
        assert_eq!(early.as_u128() >> 80, 0x0199_0000_0000);
        assert_eq!(timeless(early), timeless(late));
        assert!(timeless(early).is_some_and(is_timeless));
        let other = bound(early, Uuid::new_v5(&Uuid::NAMESPACE_OID, b"other"));
        assert_ne!(timeless(early), timeless(other));
        // 74 bits of the name are kept.
        assert_eq!(early.as_u128() & 0x0fff_3fff_ffff_ffff_ffff, name.as_u128() & 0x0fff_3fff_ffff_ffff_ffff);
        assert_eq!(timeless(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001)), None);
        assert!(!is_timeless(early) && !is_timeless(Uuid::nil()));
    }

    #[test]
    fn base32_is_26_characters_and_keeps_the_order_of_ids() {
        let low = base32_26(Uuid::from_u128(1));
        let high = base32_26(Uuid::from_u128(u128::MAX));
        assert_eq!(low, "00000000000000000000000001");
        assert_eq!(high, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        assert!(low < high);
    }
}
