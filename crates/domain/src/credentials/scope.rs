//! What a key lets its holder do.

use std::fmt;

use crate::invalid::Invalid;

/// One thing that a key lets its holder do. Its name is public, so it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Make charges.
    ChargesWrite,
    /// Send money out.
    WithdrawalsWrite,
    /// Give money back.
    RefundsWrite,
    /// See everything but the balance, and have the provider asked.
    Read,
    /// See the balance.
    BalanceRead,
    /// Have events sent again, and change how that stands.
    WebhooksWrite,
}

impl Scope {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::ChargesWrite,
        Self::WithdrawalsWrite,
        Self::RefundsWrite,
        Self::Read,
        Self::BalanceRead,
        Self::WebhooksWrite,
    ];

    /// Its name, a scope-token of RFC 6749 §3.3.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChargesWrite => "charges:write",
            Self::WithdrawalsWrite => "withdrawals:write",
            Self::RefundsWrite => "refunds:write",
            Self::Read => "read",
            Self::BalanceRead => "balance:read",
            Self::WebhooksWrite => "webhooks:write",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::ChargesWrite => 1,
            Self::WithdrawalsWrite => 1 << 1,
            Self::RefundsWrite => 1 << 2,
            Self::Read => 1 << 3,
            Self::BalanceRead => 1 << 4,
            Self::WebhooksWrite => 1 << 5,
        }
    }
}

/// What a key lets its holder do: at least one scope.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scopes(u8);

impl Scopes {
    /// Everything.
    pub const ALL: Self = Self(0b11_1111);

    /// Reads names with commas or blanks between them.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = || Scope::ALL.map(Scope::as_str).join(", ");
        let mut bits = 0;
        for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
            let Some(scope) = Scope::ALL.into_iter().find(|scope| scope.as_str() == name) else {
                let message = format!("scopes must be some of {}", known());
                return Err(Invalid::new(Invalid::UNKNOWN_VALUE, message));
            };
            bits |= scope.bit();
        }
        if bits == 0 {
            return Err(Invalid::new(
                Invalid::REQUIRED,
                format!("at least one scope is required: {}", known()),
            ));
        }
        Ok(Self(bits))
    }

    /// Whether `scope` is one of them.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }
}

/// Their names with blanks between them, as RFC 6749 §3.3 has it.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, scope) in self.iter().enumerate() {
            let apart = if place == 0 { "" } else { " " };
            write!(f, "{apart}{}", scope.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scopes({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_each_of_them_and_are_read_as_they_are_shown() {
        assert!(Scopes::ALL.iter().eq(Scope::ALL));
        assert_eq!(Scopes::parse(&Scopes::ALL.to_string()), Ok(Scopes::ALL));
        let two = Scopes::parse("read, charges:write,read").unwrap();
        assert_eq!(two.to_string(), "charges:write read");
        assert!(two.contains(Scope::Read) && !two.contains(Scope::BalanceRead));
    }

    #[test]
    fn each_scope_is_itself_alone() {
        for scope in Scope::ALL {
            let alone = Scopes::parse(scope.as_str()).unwrap();
            assert!(alone.iter().eq([scope]));
        }
    }

    #[test]
    fn none_and_unknown_ones_are_refused() {
        for (text, code) in [
            ("", "required"),
            (" , ", "required"),
            ("Read", "unknown_value"),
            ("read,write", "unknown_value"),
        ] {
            assert_eq!(Scopes::parse(text).unwrap_err().code, code, "{text}");
        }
    }
}
