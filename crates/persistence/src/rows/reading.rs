//! Reading a row straight into its struct.
//!
//! What `#[derive(Queryable)]` makes reads a row into a tuple of its fields and that into the struct, each in a place of its
//! own: adr/0038 in `docs` has what that cost.

use diesel::backend::Backend;
use diesel::deserialize::{FromSql, FromStaticSqlRow, Result};
use diesel::result::UnexpectedEndOfRow;
use diesel::row::{Field as _, Row};
use diesel::sql_types::SingleValue;

/// The fields of a row, from its first on.
pub struct Fields<'r, R> {
    row: &'r R,
    place: usize,
}

impl<'r, R> Fields<'r, R> {
    /// All of them.
    pub const fn of(row: &'r R) -> Self {
        Self { row, place: 0 }
    }

    /// The next one, which has the SQL type `ST`.
    #[expect(clippy::inline_always, reason = "called once for each field of a row, and small")]
    #[inline(always)]
    pub fn next<'a, T, ST, DB>(&mut self) -> Result<T>
    where
        DB: Backend,
        R: Row<'a, DB>,
        ST: SingleValue,
        T: FromSql<ST, DB>,
    {
        let (row, place) = (self.row, self.place);
        self.place = place.saturating_add(1);
        let field = row.get(place).ok_or(UnexpectedEndOfRow)?;
        // diesel's own reading tells which field it was.
        T::from_nullable_sql(field.value())
            .or_else(|_error| T::build_from_row(&row.partial_row(place..place.saturating_add(1))))
    }
}

/// A struct of columns that is read field by field, in their order.
macro_rules! read_in_place {
    (
        $(#[$attribute:meta])*
        pub struct $row:ident of $table:ident {
            $(pub $field:ident: $kind:ty,)+
        }
    ) => {
        $(#[$attribute])*
        #[diesel(table_name = $table)]
        pub struct $row {
            $(pub $field: $kind,)+
        }

        const _: () = {
            use diesel::deserialize::{FromStaticSqlRow, Result};
            use diesel::dsl::SqlTypeOf;
            use diesel::row::Row;

            type Types = ($(SqlTypeOf<$table::$field>,)+);

            // For each database by itself: for all of them together is only what diesel itself can say.
            $crate::rows::reading::read_in_place!(@of diesel::pg::Pg, $row { $($table::$field, $field: $kind,)+ });
            $crate::rows::reading::read_in_place!(@of diesel::sqlite::Sqlite, $row { $($table::$field, $field: $kind,)+ });
        };
    };
    (@of $database:ty, $row:ident { $($column:path, $field:ident: $kind:ty,)+ }) => {
        impl FromStaticSqlRow<Types, $database> for $row {
            fn build_from_row<'a>(row: &impl Row<'a, $database>) -> Result<Self> {
                let mut fields = $crate::rows::reading::Fields::of(row);
                Ok(Self { $($field: fields.next::<$kind, SqlTypeOf<$column>, $database>()?,)+ })
            }
        }

        // On its way to whoever asked, a row goes through many hands: all of it, or its place.
        impl FromStaticSqlRow<Types, $database> for Box<$row> {
            fn build_from_row<'a>(row: &impl Row<'a, $database>) -> Result<Self> {
                $row::build_from_row(row).map(Self::new)
            }
        }

        $crate::rows::reading::read_in_place!(@itself $database, $row);
        $crate::rows::reading::read_in_place!(@itself $database, Box<$row>);
    };
    (@itself $database:ty, $row:ty) => {
        impl diesel::Queryable<Types, $database> for $row {
            type Row = Self;

            fn build(row: Self) -> Result<Self> {
                Ok(row)
            }
        }
    };
}

pub(super) use read_in_place;
