//! Administrative acts, written down before they are done.

use std::sync::Arc;

use anyhow::Context;
use pix_domain::audit_log::{Action, AuditLog, Operator};

use crate::config::{Config, OPERATOR_NAME};
use crate::store::Store;
use crate::system::SystemClock;

/// The audit log, for the acts of one operator.
pub struct Journal {
    log: AuditLog,
    operator: Operator,
}

impl Journal {
    /// For the operator with that name.
    pub fn of(store: &Store, operator: &str) -> anyhow::Result<Self> {
        let operator = Operator::parse(operator).with_context(|| {
            format!(
                "\"{}\" can't be an operator's name: give {OPERATOR_NAME}, by --operator or PIX_OPERATOR",
                operator.escape_debug()
            )
        })?;
        let log = AuditLog::new(store.records.audit_log.clone(), Arc::new(SystemClock));
        Ok(Self { log, operator })
    }

    /// For whoever runs this command: `PIX_OPERATOR`, or the name of the user on this machine.
    pub fn of_user(store: &Store, config: &Config) -> anyhow::Result<Self> {
        Self::of(store, &user(config).unwrap_or_else(of_process))
    }

    /// The same, when an act must bear a name.
    pub fn of_somebody(store: &Store, config: &Config) -> anyhow::Result<Self> {
        Self::of(store, &somebody(config)?)
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

/// The name that an act must bear.
pub fn somebody(config: &Config) -> anyhow::Result<String> {
    user(config).context("say who you are: --operator NAME, or PIX_OPERATOR")
}

fn user(config: &Config) -> Option<String> {
    let named = |name: &String| !name.is_empty();
    let of_session = || ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(named));
    config.operator.clone().filter(named).or_else(of_session)
}

/// The user that this process runs as: containers and timers often have no session that names one.
fn of_process() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(uid, &users).unwrap_or_else(|| format!("uid {uid}"))
}

/// The name of a user in the lines of `passwd(5)`.
fn name_of(uid: u32, users: &str) -> Option<String> {
    let uid = uid.to_string();
    let mut users = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    users.find_map(|fields| match fields.as_slice() {
        [name, _, id, ..] if *id == uid && !name.is_empty() => Some((*name).to_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_session_is_named_by_its_user() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\n:x:7:7::/:\npix-gateway:x:998:996::/var/lib:/usr/sbin/nologin\n";
        assert_eq!(name_of(998, users).as_deref(), Some("pix-gateway"));
        assert_eq!(name_of(0, users).as_deref(), Some("root"));
        for unknown in [7, 99, 1_000] {
            assert_eq!(name_of(unknown, users), None);
        }
        assert!(!of_process().is_empty());
    }
}
