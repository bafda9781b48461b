//! What all nodes of one database must have in common beside it: their secrets, and the public URL.
//!
//! A node with others serves, and everything seems well: but it refuses the tokens of the other nodes, they refuse the
//! callbacks of its charges, and nobody signs the other's postbacks. Each of these settings may be changed, a node at a
//! time; so a difference is told, and not refused. What is kept of a secret is a hash that leads nobody to it: none of them
//! can be guessed.

use pix_domain::error::StoreError;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::store::Store;

/// The name of the fact with what the node had that was started last.
const FACT: &str = "node_settings";
/// What is hashed before a secret, so that its hash is like no other one of it.
const LABEL: &str = "pix-gateway node settings v1";

/// What nodes have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Common {
    public_url: String,
    callback_secret: String,
    /// The first one seals, and all of them open: nodes agree when each has the other's first one.
    token_keys: Vec<String>,
    postback_keys: Vec<String>,
}

impl Common {
    /// What these settings say; `None` for a database of one node, and when a secret is missing.
    pub fn of(config: &Config) -> Option<Self> {
        if !config.database.is_shared() {
            return None;
        }
        Some(Self {
            public_url: config.public_url.clone(),
            callback_secret: hash("callback", config.callback_secret.as_ref()?),
            token_keys: hashes("token", config.token_keys.as_ref()?.expose_secret()),
            postback_keys: hashes("postback", config.postbacks.keys.as_ref()?.expose_secret()),
        })
    }

    /// The settings in which these differ from those.
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let has_first =
            |ours: &[String], theirs: &[String]| theirs.first().is_some_and(|key| ours.contains(key));
        let apart = |ours: &[String], theirs: &[String]| !has_first(ours, theirs) || !has_first(theirs, ours);
        let differ = [
            ("PIX_TOKEN_KEYS", apart(&self.token_keys, &other.token_keys)),
            ("PIX_PROVIDER_CALLBACK_SECRET", self.callback_secret != other.callback_secret),
            ("PIX_POSTBACK_KEYS", apart(&self.postback_keys, &other.postback_keys)),
            ("PIX_PUBLIC_URL", self.public_url != other.public_url),
        ];
        differ.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }

    /// The settings in which these differ from those of the node that was started last.
    ///
    /// # Errors
    ///
    /// When the database can't be asked.
    pub async fn differing(&self, store: &Store) -> Result<Vec<&'static str>, StoreError> {
        let kept = store.facts.fact(FACT).await?;
        let last = kept.and_then(|kept| serde_json::from_str::<Self>(&kept).ok());
        Ok(last.map(|last| self.differences(&last)).unwrap_or_default())
    }

    /// Warns of what differs from the node that was started last, and is the one that was from now on.
    ///
    /// # Errors
    ///
    /// When the database can't be asked or takes no writes.
    pub async fn tell(&self, store: &Store) -> Result<(), StoreError> {
        let differing = self.differing(store).await?;
        if !differing.is_empty() {
            tracing::warn!("{}", sentence(&differing));
        }
        store.facts.keep_fact(FACT, serde_json::to_string(self).unwrap_or_default()).await
    }
}

/// What a difference in these settings means, and what to do.
pub fn sentence(differing: &[&str]) -> String {
    format!(
        "{} not what the node had that was started on this database before: the nodes of one database refuse each other's \
         tokens and callbacks and can't sign each other's postbacks unless all have the same; where a change is under way, \
         start the others with it too",
        match differing {
            [one] => format!("{one} is"),
            several => format!("{} are", several.join(", ")),
        }
    )
}

fn hashes(kind: &str, secrets: &str) -> Vec<String> {
    secrets
        .split(',')
        .map(str::trim)
        .filter(|secret| !secret.is_empty())
        .map(|secret| hash(kind, secret))
        .collect()
}

fn hash(kind: &str, secret: &str) -> String {
    let hashed = Sha256::new().chain_update(LABEL).chain_update(kind).chain_update([0]).chain_update(secret);
    let kept = hashed.finalize().first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    format!("{:016x}", kept.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(token_keys: &str, callback_secret: &str, postback_keys: &str, url: &str) -> Common {
        Common {
            public_url: url.to_owned(),
            callback_secret: hash("callback", callback_secret),
            token_keys: hashes("token", token_keys),
            postback_keys: hashes("postback", postback_keys),
        }
    }

    #[test]
    fn what_differs_is_named_and_nodes_agree_that_have_each_others_first_key() {
        let ours = common("new, old", "c", "p", "https://a");
        for (other, differ) in [
            (common("new,old", "c", "p", "https://a"), &[][..]),
            (common("old,older,new", "c", "p,q", "https://a"), &[]),
            (common("old,older", "c", "p", "https://a"), &["PIX_TOKEN_KEYS"]),
            (common("new", "c", "q,p", "https://a"), &["PIX_POSTBACK_KEYS"]),
            (common("older", "c", "p", "https://a"), &["PIX_TOKEN_KEYS"]),
            (common("new", "d", "p", "https://a"), &["PIX_PROVIDER_CALLBACK_SECRET"]),
            (common("new", "c", "q", "https://b"), &["PIX_POSTBACK_KEYS", "PIX_PUBLIC_URL"]),
        ] {
            assert_eq!(ours.differences(&other), differ);
        }
    }

    #[test]
    fn nothing_of_a_secret_is_kept() {
        let kept =
            serde_json::to_string(&common("hunter2,hunter3", "hunter4", "hunter5", "https://a")).unwrap();
        assert!(!kept.contains("hunter"), "{kept}");
        // The same bytes as two secrets are no sign that they are the same.
        assert_ne!(hash("token", "hunter2"), hash("callback", "hunter2"));
    }

    #[test]
    fn the_sentence_says_what_to_do() {
        assert!(sentence(&["PIX_TOKEN_KEYS"]).starts_with("PIX_TOKEN_KEYS is not what"));
        assert!(
            sentence(&["PIX_TOKEN_KEYS", "PIX_PUBLIC_URL"])
                .starts_with("PIX_TOKEN_KEYS, PIX_PUBLIC_URL are not")
        );
    }
}
