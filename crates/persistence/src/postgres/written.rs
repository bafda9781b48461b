//! The columns of a row as they stand in a query, written once.
//!
//! diesel puts the text of a query together each time it is asked, prepared or not, and quotes each column anew: for the
//! some forty of a charge that costs the process an eighth of a lookup.

use std::marker::PhantomData;
use std::sync::OnceLock;

use diesel::dsl::{AsSelect, SqlTypeOf};
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping};
use diesel::pg::{Pg, PgQueryBuilder};
use diesel::query_builder::{AstPass, QueryBuilder, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::{Selectable, SelectableHelper};

use crate::rows::{ChargeRow, ReceiptRow, RefundRow, SplitRow, WithdrawalRow};

/// A row whose columns are written once.
pub trait Written: Selectable<Pg> + 'static {
    /// Where they are kept.
    fn kept() -> &'static OnceLock<String>;
}

macro_rules! written {
    ($($row:ident),+ $(,)?) => {
        $(impl Written for $row {
            fn kept() -> &'static OnceLock<String> {
                static KEPT: OnceLock<String> = OnceLock::new();
                &KEPT
            }
        })+
    };
}

written!(ChargeRow, ReceiptRow, RefundRow, SplitRow, WithdrawalRow);

/// The types of the columns of `R`.
pub type Types<R> = SqlTypeOf<<R as Selectable<Pg>>::SelectExpression>;

/// The columns of `R`: what `R::as_select()` is, to be read as `R` or as a `Box` of it.
pub fn columns_of<R: Written>() -> Columns<R> {
    Columns(PhantomData)
}

/// See [`columns_of`].
#[derive(Debug)]
pub struct Columns<R>(PhantomData<fn() -> R>);

impl<R> Clone for Columns<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Columns<R> {}

impl<R: Written> QueryId for Columns<R> {
    type QueryId = Columns<R>;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<R: Written> Expression for Columns<R>
where
    R::SelectExpression: Expression,
{
    type SqlType = Types<R>;
}

impl<R: Written, Grouped> ValidGrouping<Grouped> for Columns<R>
where
    AsSelect<R, Pg>: ValidGrouping<Grouped>,
{
    type IsAggregate = <AsSelect<R, Pg> as ValidGrouping<Grouped>>::IsAggregate;
}

impl<R: Written, Source> SelectableExpression<Source> for Columns<R>
where
    AsSelect<R, Pg>: SelectableExpression<Source>,
    Self: AppearsOnTable<Source>,
{
}

impl<R: Written, Source> AppearsOnTable<Source> for Columns<R>
where
    AsSelect<R, Pg>: AppearsOnTable<Source>,
    Self: Expression,
{
}

impl<R: Written> QueryFragment<Pg> for Columns<R>
where
    AsSelect<R, Pg>: QueryFragment<Pg>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if let Some(written) = R::kept().get() {
            out.push_sql(written);
            return Ok(());
        }
        let mut writing = PgQueryBuilder::default();
        <R as SelectableHelper<Pg>>::as_select().to_sql(&mut writing, &Pg)?;
        out.push_sql(R::kept().get_or_init(|| writing.finish()));
        Ok(())
    }
}
