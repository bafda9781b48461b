//! Rows of splits, and the shares of a charge as they are kept in its row.

use diesel::{AsChangeset, Insertable, Selectable};
use pix_domain::error::StoreError;
use pix_domain::fees::Percent;
use pix_domain::ids::{ChargeId, IntegratorId, SplitId, Version};
use pix_domain::splits::{Part, Share, Split};
use pix_domain::text::PostbackUrl;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::reading::read_in_place;
use crate::codec::{self, DbId, DbTime, damaged};
use crate::schema::splits;

read_in_place! {
    /// A split as it is kept.
    #[derive(Selectable, Insertable, AsChangeset)]
    #[diesel(primary_key(integrator_id, id))]
    #[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
    pub struct SplitRow of splits {
        pub integrator_id: DbId,
        pub id: DbId,
        pub version: i64,
        pub from_id: DbId,
        pub charge_id: DbId,
        pub amount_cents: i64,
        pub taken_back_cents: i64,
        pub postback_url: Option<String>,
        pub created_at: DbTime,
        pub updated_at: DbTime,
    }
}

impl From<Split> for SplitRow {
    fn from(split: Split) -> Self {
        Self {
            integrator_id: split.integrator_id.into(),
            id: DbId(split.id.0),
            version: split.version.0.into(),
            from_id: split.from.into(),
            charge_id: DbId(split.charge_id.0),
            amount_cents: split.amount.get(),
            taken_back_cents: split.taken_back.get(),
            postback_url: split.postback_url.map(|url| url.as_str().to_owned()),
            created_at: DbTime(split.created_at),
            updated_at: DbTime(split.updated_at),
        }
    }
}

impl TryFrom<SplitRow> for Split {
    type Error = StoreError;

    fn try_from(row: SplitRow) -> Result<Self, StoreError> {
        Self::try_from(Box::new(row))
    }
}

impl TryFrom<Box<SplitRow>> for Split {
    type Error = StoreError;

    fn try_from(row: Box<SplitRow>) -> Result<Self, StoreError> {
        let url = row.postback_url.as_deref();
        Ok(Self {
            id: SplitId(row.id.0),
            integrator_id: IntegratorId(row.integrator_id.0),
            version: Version(codec::number("splits.version", row.version)?),
            from: IntegratorId(row.from_id.0),
            charge_id: ChargeId(row.charge_id.0),
            amount: codec::cents("splits.amount_cents", row.amount_cents)?,
            taken_back: codec::cents("splits.taken_back_cents", row.taken_back_cents)?,
            postback_url: codec::optional_text("splits.postback_url", url, PostbackUrl::parse)?,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
        })
    }
}

const SPLIT: &str = "charges.split";

/// A share as it is kept: of `percentage` and `amount_cents`, one is there.
#[derive(Serialize, Deserialize)]
struct Kept {
    split: String,
    recipient: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount_cents: Option<i64>,
    brought_cents: i64,
    taken_back_cents: i64,
}

/// The shares of a charge, to be kept; nothing for none.
pub fn to_shares(shares: &[Share]) -> Option<String> {
    let kept = |share: &Share| {
        let (percentage, amount_cents) = match &share.part {
            Part::Percentage(percent) => (Some(percent.plain()), None),
            Part::Amount(amount) => (None, Some(amount.cents().get())),
        };
        Kept {
            split: share.split_id.to_string(),
            recipient: share.recipient.to_string(),
            percentage,
            amount_cents,
            brought_cents: share.amount.get(),
            taken_back_cents: share.taken_back.get(),
        }
    };
    let all: Vec<Kept> = shares.iter().map(kept).collect();
    // Texts and numbers: there is nothing in it that can't be written.
    (!all.is_empty()).then(|| serde_json::to_string(&all).unwrap_or_default())
}

/// The shares of a charge, as they were kept.
pub fn shares(value: Option<&str>) -> Result<Vec<Share>, StoreError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let refuse = || damaged(SPLIT, "a JSON list of shares");
    let kept: Vec<Kept> = serde_json::from_str(value).map_err(|_no_such_list| refuse())?;
    let read = |kept: Kept| {
        let part = match (kept.percentage, kept.amount_cents) {
            (Some(percent), None) => Part::Percentage(codec::text(SPLIT, &percent, Percent::parse)?),
            (None, Some(cents)) => Part::Amount(codec::amount(SPLIT, cents)?),
            _ => return Err(refuse()),
        };
        Ok(Share {
            split_id: SplitId(codec::text(SPLIT, &kept.split, Uuid::try_parse)?),
            recipient: IntegratorId(codec::text(SPLIT, &kept.recipient, Uuid::try_parse)?),
            part,
            amount: codec::cents(SPLIT, kept.brought_cents)?,
            taken_back: codec::cents(SPLIT, kept.taken_back_cents)?,
        })
    };
    kept.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_list_of_shares_is_damaged_and_never_shown() {
        let whole = r#"[{"split":"00000000-0000-0000-0000-000000000001","recipient":"00000000-0000-0000-0000-000000000002","percentage":"1.5","brought_cents":2,"taken_back_cents":1}]"#;
        assert_eq!(to_shares(&shares(Some(whole)).unwrap()).as_deref(), Some(whole));
        for wrong in [
            "SECRET".to_owned(),
            whole.replace(r#""percentage":"1.5","#, ""),
            whole.replace("1.5", "SECRET"),
            whole.replace(r#""brought_cents":2"#, r#""brought_cents":-2"#),
            whole.replace(r#""percentage":"1.5""#, r#""percentage":"1.5","amount_cents":1"#),
        ] {
            let StoreError::Damaged(text) = shares(Some(&wrong)).unwrap_err() else { panic!("{wrong}") };
            assert!(text.starts_with(SPLIT) && !text.contains("SECRET"), "{text}");
        }
        assert_eq!((shares(None), to_shares(&[])), (Ok(Vec::new()), None));
    }
}
