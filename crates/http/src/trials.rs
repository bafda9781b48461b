//! The trials that are being sent: one at a time of each integrator, so that the gateway is no means to burden others.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use pix_domain::ids::IntegratorId;

/// Who is trying out a URL.
#[derive(Default)]
pub(crate) struct Trials(Arc<Mutex<HashSet<IntegratorId>>>);

/// The one trial of an integrator, until it is dropped.
pub(crate) struct Trial {
    whose: IntegratorId,
    all: Arc<Mutex<HashSet<IntegratorId>>>,
}

impl Trials {
    /// Begins one; `None` while there is one.
    pub(crate) fn begin(&self, whose: IntegratorId) -> Option<Trial> {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(whose);
        begun.then(|| Trial { whose, all: Arc::clone(&self.0) })
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.whose);
    }
}
