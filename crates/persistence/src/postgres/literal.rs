//! Values as SQL, for the benchmark that runs the same statements by the database's own tool.

use crate::codec::{DbId, DbTime};

/// A value that can be written as SQL.
pub trait Literal {
    /// Its type's name.
    const TYPE: &'static str;

    /// The value without its type.
    fn bare(&self) -> String;
}

macro_rules! literal {
    ($kind:ty, $name:literal, |$value:ident| $bare:expr) => {
        impl Literal for $kind {
            const TYPE: &'static str = $name;

            fn bare(&self) -> String {
                let $value = self;
                $bare
            }
        }
    };
}

literal!(i32, "integer", |value| value.to_string());
literal!(i64, "bigint", |value| value.to_string());
literal!(bool, "boolean", |value| value.to_string());
literal!(DbId, "uuid", |value| format!("'{}'", value.0));
literal!(DbTime, "bigint", |value| value.0.micros().to_string());
literal!(String, "text", |value| format!("'{}'", value.replace('\'', "''")));
literal!(&'static str, "text", |value| format!("'{}'", value.replace('\'', "''")));

impl<T: Literal> Literal for Option<T> {
    const TYPE: &'static str = T::TYPE;

    fn bare(&self) -> String {
        self.as_ref().map_or_else(|| "NULL".to_owned(), Literal::bare)
    }
}

/// A value, with its type.
pub fn plain<T: Literal>(value: &T) -> String {
    format!("{}::{}", value.bare(), T::TYPE)
}

/// An array of values, with its type.
pub fn array<T: Literal>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(Literal::bare).collect();
    format!("ARRAY[{}]::{}[]", values.join(", "), T::TYPE)
}
