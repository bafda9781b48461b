//! Public events, their deliveries, and the numbers of secrets.

use async_trait::async_trait;
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, Version};
use pix_domain::postbacks::delivery::{
    Attempt, Backlog, ClaimedDelivery, DeliveryReport, DeliveryState, DeliveryStore, Endpoint, EndpointId,
    EndpointNews, Lane, MAX_COUNTED, MAX_LISTED_ATTEMPTS, ReplayQuery, Standing, Taken, Turn,
};
use pix_domain::postbacks::events::{EventKey, EventQuery, EventStore, ListedEvent, StoredEvent};
use pix_domain::postbacks::secrets::{PostbackSecretStore, SecretVersion};
use pix_domain::time::Timestamp;

use crate::MemoryStore;
use crate::state::{KeptDelivery, State, Tenant};

impl State {
    fn listed(&self, tenant: &Tenant, event: &StoredEvent) -> Option<ListedEvent> {
        let resource = event.key.resource;
        Some(ListedEvent {
            event: event.clone(),
            record: tenant.record(resource.kind, resource.id)?,
            delivery: self.deliveries.get(&event.key).map(|kept| kept.state),
        })
    }

    fn event(&self, key: EventKey) -> Option<ListedEvent> {
        let tenant = self.tenants.get(&key.resource.integrator_id)?;
        let event = tenant.told.iter().find(|event| event.key == key)?;
        self.listed(tenant, event)
    }

    /// Whether an earlier one of the same record waits.
    fn is_blocked(&self, key: &EventKey) -> bool {
        let first = EventKey { sequence: Version(0), ..*key };
        let earlier = self.deliveries.range(first..*key);
        earlier.into_iter().any(|(_, kept)| matches!(kept.state.standing, Standing::Waiting(_)))
    }
}

#[async_trait]
impl EventStore for MemoryStore {
    async fn events(
        &self,
        integrator_id: IntegratorId,
        query: EventQuery,
    ) -> Result<Vec<ListedEvent>, StoreError> {
        let state = self.state();
        let Some(tenant) = state.tenants.get(&integrator_id) else { return Ok(Vec::new()) };
        let wanted = |listed: &ListedEvent| {
            let event = &listed.event;
            let delivered = listed.delivery.map(|delivery| delivery.standing == Standing::Delivered);
            event.number > query.after
                && (query.kinds.is_empty() || query.kinds.contains(&event.kind))
                && query.resource_id.is_none_or(|id| id == event.key.resource.id)
                && (query.delivered.is_none() || query.delivered == delivered)
        };
        let events = tenant.told.iter().filter_map(|event| state.listed(tenant, event));
        Ok(events.filter(wanted).take(usize::try_from(query.limit).unwrap_or(usize::MAX)).collect())
    }

    async fn event(&self, key: EventKey) -> Result<Option<ListedEvent>, StoreError> {
        Ok(self.state().event(key))
    }
}

#[async_trait]
impl DeliveryStore for MemoryStore {
    async fn take(&self, turn: Turn) -> Result<Taken, StoreError> {
        let mut state = self.state();
        let waits = |kept: &KeptDelivery| matches!(kept.state.standing, Standing::Waiting(_));
        let mut lanes: Vec<Lane> =
            state.deliveries.values().filter(|kept| waits(kept)).map(|kept| kept.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes.retain(|lane| turn.after.is_none_or(|after| *lane > after));
        let more = lanes.len() > usize::try_from(turn.lanes).unwrap_or(usize::MAX);
        lanes.truncate(usize::try_from(turn.lanes).unwrap_or(usize::MAX));
        let mut taken = Taken { deliveries: Vec::new(), last: lanes.last().copied().filter(|_| more) };
        for lane in lanes.into_iter().filter(|lane| !turn.except.contains(lane)) {
            let mut due: Vec<(Timestamp, EventKey)> = state
                .deliveries
                .iter()
                .filter_map(|(key, kept)| match kept.state.standing {
                    Standing::Waiting(at) if kept.lane == lane && at <= turn.now => Some((at, *key)),
                    _ => None,
                })
                .filter(|(_, key)| !state.is_blocked(key))
                .collect();
            due.sort_unstable();
            due.truncate(usize::try_from(turn.per_lane).unwrap_or(usize::MAX));
            let until = turn.now.plus(turn.lease);
            for (_, key) in due {
                let Some(kept) = state.deliveries.get_mut(&key) else { continue };
                kept.state.standing = Standing::Waiting(until);
                kept.claims = kept.claims.saturating_add(1);
                let (attempts, claims) = (kept.state.attempts, kept.claims);
                taken.deliveries.push(ClaimedDelivery { key, lane, attempts, claims, until });
            }
        }
        Ok(taken)
    }

    async fn load(&self, keys: Vec<EventKey>) -> Result<Vec<ListedEvent>, StoreError> {
        let state = self.state();
        Ok(keys.into_iter().filter_map(|key| state.event(key)).collect())
    }

    async fn endpoints_of(&self, ids: Vec<EndpointId>) -> Result<Vec<Endpoint>, StoreError> {
        let state = self.state();
        Ok(ids.iter().filter_map(|id| state.endpoints.get(id).cloned()).collect())
    }

    async fn tell(&self, reports: Vec<DeliveryReport>, now: Timestamp) -> Result<u64, StoreError> {
        let mut state = self.state();
        let mut changed = 0_u64;
        for report in reports {
            match report.endpoint {
                EndpointNews::Nothing => {}
                EndpointNews::Works(id) => {
                    if state.endpoints.get(&id).is_some_and(|kept| kept.off.is_none()) {
                        state.endpoints.remove(&id);
                    }
                }
                EndpointNews::Fails(news) => {
                    let endpoint = match state.endpoints.get(&news.id) {
                        Some(kept) => news.after(kept),
                        None => news.anew(),
                    };
                    state.endpoints.insert(endpoint.id, endpoint);
                }
            }
            let claimed = report.claimed;
            let Some(kept) = state.deliveries.get_mut(&claimed.key) else { continue };
            let tried = u32::from(report.attempt.is_some());
            kept.attempts.extend(report.attempt);
            if kept.state.standing != Standing::Waiting(claimed.until) || kept.claims != claimed.claims {
                continue;
            }
            kept.state =
                DeliveryState { standing: report.standing, attempts: claimed.attempts.saturating_add(tried) };
            changed = changed.saturating_add(1);
            if matches!(report.standing, Standing::Waiting(_)) {
                continue;
            }
            // The next one of the record needn't wait for the end of anything.
            let next = state.deliveries.iter_mut().find(|(key, kept)| {
                key.resource == claimed.key.resource
                    && key.sequence > claimed.key.sequence
                    && matches!(kept.state.standing, Standing::Waiting(_))
            });
            if let Some((_, kept)) = next
                && kept.state.attempts == 0
            {
                kept.state.standing = Standing::Waiting(now);
            }
        }
        Ok(changed)
    }

    async fn attempts(&self, key: EventKey) -> Result<Vec<Attempt>, StoreError> {
        let state = self.state();
        let mut attempts = state.deliveries.get(&key).map_or_else(Vec::new, |kept| kept.attempts.clone());
        attempts.sort_by_key(|attempt| (attempt.at, attempt.id));
        let surplus =
            attempts.len().saturating_sub(usize::try_from(MAX_LISTED_ATTEMPTS).unwrap_or(usize::MAX));
        attempts.drain(..surplus);
        Ok(attempts)
    }

    async fn redeliver(&self, key: EventKey, lane: Lane, now: Timestamp) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(listed) = state.event(key) else { return Ok(false) };
        let waiting = DeliveryState { standing: Standing::Waiting(now), attempts: 0 };
        let kept = state.deliveries.entry(key).or_insert(KeptDelivery {
            at: listed.event.at,
            lane,
            state: waiting,
            claims: 0,
            attempts: Vec::new(),
        });
        kept.state = waiting;
        kept.claims = kept.claims.saturating_add(1);
        Ok(true)
    }

    async fn replay(
        &self,
        integrator_id: IntegratorId,
        query: ReplayQuery,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut state = self.state();
        let Some(tenant) = state.tenants.get(&integrator_id) else { return Ok(0) };
        let wanted: Vec<EventKey> = tenant
            .told
            .iter()
            .filter(|event| {
                query.since.is_none_or(|since| event.at >= since)
                    && query.until.is_none_or(|until| event.at < until)
                    && (query.kinds.is_empty() || query.kinds.contains(&event.kind))
                    && match state.deliveries.get(&event.key).map(|kept| kept.state.standing) {
                        Some(Standing::Dead(_)) => true,
                        Some(Standing::Delivered) => query.delivered,
                        Some(Standing::Waiting(_)) | None => false,
                    }
            })
            .take(usize::try_from(query.limit).unwrap_or(usize::MAX))
            .map(|event| event.key)
            .collect();
        for key in &wanted {
            if let Some(kept) = state.deliveries.get_mut(key) {
                kept.state = DeliveryState { standing: Standing::Waiting(now), attempts: 0 };
                kept.claims = kept.claims.saturating_add(1);
            }
        }
        Ok(u64::try_from(wanted.len()).unwrap_or(u64::MAX))
    }

    async fn endpoints(&self, integrator_id: IntegratorId) -> Result<Vec<Endpoint>, StoreError> {
        let state = self.state();
        Ok(state.endpoints.values().filter(|kept| kept.integrator_id == integrator_id).cloned().collect())
    }

    async fn forget_endpoint(&self, integrator_id: IntegratorId, id: EndpointId) -> Result<bool, StoreError> {
        let mut state = self.state();
        let own = state.endpoints.get(&id).is_some_and(|kept| kept.integrator_id == integrator_id);
        if own {
            state.endpoints.remove(&id);
        }
        Ok(own)
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let mut state = self.state();
        let mut old: Vec<(Timestamp, EventKey)> = state
            .deliveries
            .iter()
            .filter(|(_, kept)| !matches!(kept.state.standing, Standing::Waiting(_)) && kept.at < before)
            .map(|(key, kept)| (kept.at, *key))
            .collect();
        old.sort_unstable();
        old.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        for (_, key) in &old {
            state.deliveries.remove(key);
        }
        Ok(u64::try_from(old.len()).unwrap_or(u64::MAX))
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let state = self.state();
        let count = |wanted: &dyn Fn(&Standing) -> bool| {
            let found = state.deliveries.values().filter(|kept| wanted(&kept.state.standing)).count();
            u64::try_from(found).unwrap_or(u64::MAX).min(u64::from(MAX_COUNTED))
        };
        let waits = |standing: &Standing| matches!(standing, Standing::Waiting(_));
        let off = state.endpoints.values().filter(|kept| kept.off.is_some()).count();
        Ok(Backlog {
            waiting: count(&waits),
            dead: count(&|standing| matches!(standing, Standing::Dead(_))),
            endpoints_off: u64::try_from(off).unwrap_or(u64::MAX),
            oldest_at: state
                .deliveries
                .values()
                .filter(|kept| waits(&kept.state.standing))
                .map(|kept| kept.at)
                .min(),
        })
    }
}

#[async_trait]
impl PostbackSecretStore for MemoryStore {
    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<SecretVersion>, StoreError> {
        Ok(self.state().tenants.get(&integrator_id).map_or_else(Vec::new, |tenant| tenant.secrets.clone()))
    }

    async fn add(&self, version: SecretVersion) -> Result<bool, StoreError> {
        let mut state = self.state();
        let tenant = state
            .tenants
            .get_mut(&version.integrator_id)
            .ok_or_else(|| StoreError::Rejected("no such integrator".into()))?;
        let taken = tenant.secrets.iter().any(|kept| kept.number == version.number);
        if !taken {
            tenant.secrets.push(version);
            tenant.secrets.sort_by_key(|kept| kept.number);
        }
        Ok(!taken)
    }

    async fn retire(
        &self,
        integrator_id: IntegratorId,
        number: u32,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(tenant) = state.tenants.get_mut(&integrator_id) else { return Ok(false) };
        let Some(kept) = tenant.secrets.iter_mut().find(|kept| kept.number == number) else {
            return Ok(false);
        };
        kept.retired_at = Some(at);
        Ok(true)
    }
}
