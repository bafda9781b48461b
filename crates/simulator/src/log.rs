//! The durable log: what the provider did, one JSON object a line. It owns the file and its form, and must
//! never know why an entry was written.
//!
//! The log is the simulator's database, so it holds names, documents and keys; it is not an operator's log.

use std::{
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{SimulatorError, clock};

/// What an entry says happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEvent {
    /// A charge was registered.
    ChargeCreated,
    /// A charge was withdrawn. It can still be paid, late.
    ChargeCanceled,
    /// A PIX was received on a charge: money came in.
    PixReceived,
    /// Money of a charge was sent back without the client asking, as by MED (BCB): money left.
    ChargeTakenBack,
    /// A payment was taken on, and its amount set aside; nothing has left yet.
    PaymentAccepted,
    /// A payment was taken on and made at once: money left.
    PaymentExecuted,
    /// A payment was asked for again under its reference. Nothing moved, and the state is not changed by it.
    PaymentRepeated,
    /// An accepted payment was made: money left.
    PaymentSettled,
    /// An accepted payment was refused for good: nothing left.
    PaymentRejected,
    /// Money of a payment that had been made came back, in whole or in part.
    PaymentReturned,
    /// A refund was taken on, and its amount set aside; nothing has left yet.
    RefundAccepted,
    /// A refund was taken on and made at once: money left.
    RefundExecuted,
    /// A refund was asked for again under its reference. Nothing moved, and the state is not changed by it.
    RefundRepeated,
    /// An accepted refund was made: money left.
    RefundSettled,
    /// An accepted refund was refused for good: nothing left.
    RefundRejected,
}

impl LogEvent {
    /// The entry by which a payment's or refund's money left, of which there must be one at most.
    pub fn moves_money_out(self) -> bool {
        matches!(
            self,
            Self::PaymentExecuted | Self::PaymentSettled | Self::RefundExecuted | Self::RefundSettled
        )
    }
}

/// Who stood on the other side.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogParty {
    /// Name as it was given, maybe empty.
    pub name: String,
    /// CPF or CNPJ as it was given, maybe empty.
    pub document: String,
}

/// One effect. `Debug` leaves out what is personal.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// 1, 2, 3 … without a gap.
    pub seq: u64,
    /// When it happened (RFC 3339, UTC).
    #[serde(with = "clock")]
    pub at: DateTime<Utc>,
    /// What happened.
    pub event: LogEvent,
    /// The charge or payment; for a refund, the refunded charge.
    pub transaction_id: String,
    /// The client's reference of the charge, payment or refund; empty when it gave none.
    pub external_id: String,
    /// The amount this entry moved, set aside, let go or asked for again, in centavos.
    pub amount_cents: i64,
    /// The refund, in the entries of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund_id: Option<String>,
    /// `E…` of a received PIX or of a payment, `D…` of a refund.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_to_end_id: Option<String>,
    /// Debtor of a charge, payer of a received PIX, payee of a payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<LogParty>,
    /// Kind of the payee's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_type: Option<String>,
    /// The payee's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The client's description, or the question to the payer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where callbacks go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postback_url: Option<String>,
    /// How long a charge can be paid in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_seconds: Option<u32>,
    /// The PIX came after the charge had expired or was canceled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
    /// Why a payment or refund failed, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    /// Why a payment or refund failed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
}

impl LogEntry {
    /// An entry with nothing but its subject. The desk gives it its number and time.
    pub(crate) fn of(event: LogEvent, transaction_id: &str, external_id: &str, amount_cents: i64) -> Self {
        Self {
            seq: 0,
            at: DateTime::UNIX_EPOCH,
            event,
            transaction_id: transaction_id.to_owned(),
            external_id: external_id.to_owned(),
            amount_cents,
            refund_id: None,
            end_to_end_id: None,
            party: None,
            key_type: None,
            key: None,
            description: None,
            postback_url: None,
            expiration_seconds: None,
            late: None,
            failure_code: None,
            failure_message: None,
        }
    }
}

impl fmt::Debug for LogEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LogEntry")
            .field("seq", &self.seq)
            .field("at", &self.at)
            .field("event", &self.event)
            .field("transaction_id", &self.transaction_id)
            .field("amount_cents", &self.amount_cents)
            .finish_non_exhaustive()
    }
}

/// Reads a log, also one that is being written: a torn last line is not there yet.
pub fn read_log(path: &Path) -> Result<Vec<LogEntry>, SimulatorError> {
    let bytes = fs::read(path).map_err(|source| SimulatorError::log(path, source))?;
    parse(path, &bytes).map(|(entries, _)| entries)
}

/// The entries and the length of the whole lines they stand in.
fn parse(path: &Path, bytes: &[u8]) -> Result<(Vec<LogEntry>, u64), SimulatorError> {
    let mut entries = Vec::new();
    let mut whole = 0_u64;
    for (seq, line) in (1_u64..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let Some(text) = line.strip_suffix(b"\n") else { break };
        let entry = serde_json::from_slice::<LogEntry>(text).ok().filter(|entry| entry.seq == seq);
        let entry = entry.ok_or_else(|| SimulatorError::corrupt(path, seq))?;
        entries.push(entry);
        whole += u64::try_from(line.len()).unwrap_or(u64::MAX);
    }
    Ok((entries, whole))
}

/// Where entries go: a file that only this process may write, or memory.
pub(crate) enum Log {
    Memory(Vec<LogEntry>),
    File { file: File, pending: Vec<u8> },
}

impl Log {
    /// Opens (or makes) the log and reads it. A torn last line, whose effect was never answered, is cut off.
    pub(crate) fn open(path: Option<&PathBuf>) -> Result<(Self, Vec<LogEntry>), SimulatorError> {
        let Some(path) = path else { return Ok((Self::Memory(Vec::new()), Vec::new())) };
        let fail = |source| SimulatorError::log(path, source);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            fs::create_dir_all(folder).map_err(fail)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // It has names, documents, and the secret path of callbacks.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SimulatorError::LogInUse { path: path.clone() }),
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(fail)?;
        let (entries, whole) = parse(path, &bytes)?;
        file.set_len(whole).map_err(fail)?;
        file.sync_all().map_err(fail)?;
        // A new file lives only once its folder has been written too.
        if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
            folder.sync_all().map_err(fail)?;
        }
        Ok((Self::File { file, pending: Vec::new() }, entries))
    }

    /// Takes an entry for the next [`Log::commit`].
    pub(crate) fn append(&mut self, entry: LogEntry) -> io::Result<()> {
        match self {
            Self::Memory(entries) => entries.push(entry),
            Self::File { pending, .. } => {
                let start = pending.len();
                if let Err(error) = serde_json::to_writer(&mut *pending, &entry) {
                    pending.truncate(start);
                    return Err(error.into());
                }
                pending.push(b'\n');
            }
        }
        Ok(())
    }

    /// Makes everything appended durable; nothing may be answered before.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        match self {
            Self::File { file, pending } if !pending.is_empty() => {
                file.write_all(pending)?;
                pending.clear();
                file.sync_data()
            }
            Self::File { .. } | Self::Memory(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64) -> LogEntry {
        LogEntry { seq, ..LogEntry::of(LogEvent::ChargeCreated, "id", "ref", 1_500) }
    }

    fn write(path: &Path, entries: impl IntoIterator<Item = LogEntry>) {
        let (mut log, _) = Log::open(Some(&path.to_owned())).unwrap();
        entries.into_iter().for_each(|entry| log.append(entry).unwrap());
        log.commit().unwrap();
    }

    #[test]
    fn a_torn_last_line_is_not_read_and_is_cut_off_on_opening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/on/the/way.jsonl");
        write(&path, [entry(1), entry(2)]);
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "it has names and documents");
        }
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [whole.as_slice(), b"{\"seq\":3,\"at\":\"20"].concat()).unwrap();
        assert_eq!(read_log(&path).unwrap(), [entry(1), entry(2)]);

        let (log, entries) = Log::open(Some(&path)).unwrap();
        assert_eq!(entries, [entry(1), entry(2)]);
        drop(log);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn damage_before_the_end_and_a_gap_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        write(&path, [entry(1), entry(3)]);
        assert!(matches!(read_log(&path), Err(SimulatorError::LogCorrupt { line: 2, .. })));
        fs::write(&path, "no entry\n").unwrap();
        assert!(matches!(Log::open(Some(&path)), Err(SimulatorError::LogCorrupt { line: 1, .. })));
    }

    #[test]
    fn a_log_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let first = Log::open(Some(&path)).unwrap();
        assert!(matches!(Log::open(Some(&path)), Err(SimulatorError::LogInUse { .. })));
        drop(first);
        assert!(Log::open(Some(&path)).is_ok());
    }

    #[test]
    fn debug_shows_nothing_personal() {
        let party = LogParty { name: "Maria".into(), document: "52998224725".into() };
        let entry = LogEntry { party: Some(party), key: Some("maria@example.com".into()), ..entry(1) };
        let shown = format!("{entry:?}");
        assert!(shown.contains("ChargeCreated"));
        assert!(!shown.contains("Maria") && !shown.contains("52998224725") && !shown.contains("maria@"));
    }
}
