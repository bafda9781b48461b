//! The secrets that the embedded default makes for itself on first start, kept beside the database with mode 0600.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use pix_credentials::KeyRing;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::system::random_hex;

/// The length of the callback path's secret segment, in random bytes.
const CALLBACK_SECRET_BYTES: usize = 32;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    token_keys: String,
    callback_secret: String,
}

/// What the file holds.
pub struct KeyFile {
    /// The keys of the access tokens.
    pub token_keys: SecretString,
    /// The last segment of the provider's callback path.
    pub callback_secret: String,
}

/// A new master key of the postbacks' secrets.
pub fn fresh_postback_key() -> anyhow::Result<SecretString> {
    Ok(random_hex(pix_notifications::MASTER_KEY_BYTES)?.into())
}

/// Reads the file with the master key of the postbacks' secrets, made first if there is none. It is a file of its own,
/// since it came after the other one.
pub fn postback_key(path: &Path) -> anyhow::Result<SecretString> {
    if !path.exists() {
        make(path, fresh_postback_key()?.expose_secret())?;
    }
    let text = read_private(path)?;
    Ok(text.trim().to_owned().into())
}

/// Writes a file of its own for its owner alone; refused when there is one.
pub fn make_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.with_context(|| format!("{shown} can't be made"))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.with_context(|| format!("{shown} can't be written"))
}

/// The text of a file that only its owner may read.
pub fn read_private(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let mode = fs::metadata(path).with_context(|| format!("{shown} can't be read"))?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("{shown} holds secrets and can be read by others: run `chmod 600 {shown}`");
    }
    fs::read_to_string(path).with_context(|| format!("{shown} can't be read"))
}

impl KeyFile {
    /// New secrets, kept nowhere.
    pub fn fresh() -> anyhow::Result<Self> {
        let token_keys = KeyRing::generate()?.to_paserk_list();
        Ok(Self { token_keys, callback_secret: random_hex(CALLBACK_SECRET_BYTES)? })
    }

    /// Reads the file, made first if there is none. Two processes that start at once get the same one.
    pub fn open_or_make(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            let Self { token_keys, callback_secret } = Self::fresh()?;
            let file = File { token_keys: token_keys.expose_secret().to_owned(), callback_secret };
            make(path, &toml::to_string(&file)?)?;
        }
        let shown = path.display();
        let text = read_private(path)?;
        // The parser's own message would quote the line, and with it the secret.
        let Ok(file) = toml::from_str::<File>(&text) else {
            bail!(
                "{shown} is damaged: restore it from a backup, or remove it to make new keys (all tokens end then)"
            );
        };
        Ok(Self { token_keys: file.token_keys.into(), callback_secret: file.callback_secret })
    }
}

/// Writes a file for its owner alone, unless there is one. Writes the whole file aside first and gives it its name only if there is none: a crash leaves nothing half-made.
pub fn make(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let aside = path.with_extension(format!("{}.new", random_hex(8)?));
    let written = (|| {
        let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        match fs::hard_link(&aside, path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })();
    let _ = fs::remove_file(&aside);
    written.with_context(|| format!("{shown} can't be written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_and_are_for_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pix.db.keys");
        let aside = folder.path().join("pix.db.postback-key");
        let key = postback_key(&aside).unwrap();
        assert_eq!(key.expose_secret(), postback_key(&aside).unwrap().expose_secret());
        assert_eq!(fs::metadata(&aside).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&aside).unwrap();
        let first = KeyFile::open_or_make(&path).unwrap();
        let second = KeyFile::open_or_make(&path).unwrap();
        assert_eq!(first.callback_secret, second.callback_secret);
        assert_eq!(first.token_keys.expose_secret(), second.token_keys.expose_secret());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_damaged_is_refused_without_showing_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pix.db.keys");
        KeyFile::open_or_make(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(KeyFile::open_or_make(&path).err().unwrap().to_string().contains("chmod 600"));
        fs::write(&path, "token_keys = k4.local.hunter2").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let refused = KeyFile::open_or_make(&path).err().unwrap();
        assert!(!format!("{refused:#}").contains("hunter2"));
    }
}
