//! Administrative acts, written down before they are done.

use std::sync::Arc;

use anyhow::{Context, bail};
use pix_domain::audit_log::{Action, AuditLog, Operator};

use crate::config::Config;
use crate::store::Store;
use crate::system::SystemClock;

/// Who acts when nothing says so.
const NOBODY: &str = "unknown";

/// The audit log, for the acts of one operator.
pub struct Journal {
    log: AuditLog,
    operator: Operator,
}

impl Journal {
    /// For the operator with that name.
    pub fn of(store: &Store, operator: &str) -> anyhow::Result<Self> {
        let operator = Operator::parse(operator).with_context(|| {
            format!("\"{operator}\" can't be an operator's name: give 1 to 64 characters with --operator or PIX_OPERATOR")
        })?;
        let log = AuditLog::new(store.records.audit_log.clone(), Arc::new(SystemClock));
        Ok(Self { log, operator })
    }

    /// For whoever runs this command: `PIX_OPERATOR`, or the name of the user on this machine.
    pub fn of_user(store: &Store, config: &Config) -> anyhow::Result<Self> {
        Self::of(store, user(config).as_deref().unwrap_or(NOBODY))
    }

    /// The same, when an act must bear a name.
    pub fn of_somebody(store: &Store, config: &Config) -> anyhow::Result<Self> {
        match user(config) {
            Some(name) => Self::of(store, &name),
            None => bail!("say who you are: --operator NAME, or PIX_OPERATOR"),
        }
    }

    /// Writes an act down.
    pub async fn record(&self, action: Action, subject: &str, detail: &str) -> anyhow::Result<()> {
        self.log.record(&self.operator, action, subject, detail).await?;
        Ok(())
    }

    /// Who acts.
    pub const fn operator(&self) -> &Operator {
        &self.operator
    }
}

fn user(config: &Config) -> Option<String> {
    let of_machine = || ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    config.operator.clone().or_else(of_machine).filter(|name| !name.is_empty())
}
