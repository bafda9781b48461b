-- Rewrites postings, events and deliveries, which may be large: SQLite can't change the CHECK that lists the kinds of records.
--
-- Splits: parts of a charge's payments that go to other integrators' wallets. A charge keeps who gets what part of it, and what
-- came of that, as a JSON list, without one when nobody does; a recipient keeps a row of its own.

ALTER TABLE integrators ADD COLUMN split_postback TEXT;
ALTER TABLE charges ADD COLUMN split TEXT;

CREATE TABLE splits (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    id TEXT NOT NULL CHECK (length(id) = 36),
    version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
    from_id TEXT NOT NULL CHECK (length(from_id) = 36),
    charge_id TEXT NOT NULL CHECK (length(charge_id) = 36),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    taken_back_cents INTEGER NOT NULL,
    postback_url TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, id),
    CONSTRAINT splits_taken_back_within_amount CHECK (taken_back_cents BETWEEN 0 AND amount_cents),
    CHECK (from_id <> integrator_id)
) STRICT;
CREATE INDEX splits_by_id ON splits (id);

CREATE TABLE postings_with_splits (
    integrator_id TEXT NOT NULL REFERENCES wallets (integrator_id),
    entry INTEGER NOT NULL CHECK (entry > 0),
    debit TEXT NOT NULL CHECK (
        debit = 'available' OR debit = 'held' OR debit = 'clearing' OR debit = 'fees' OR debit = 'owed'
    ),
    credit TEXT NOT NULL CHECK (
        credit = 'available' OR credit = 'held' OR credit = 'clearing' OR credit = 'fees' OR credit = 'owed'
    ),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    reason TEXT NOT NULL,
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund' OR resource_kind = 'split'
    ),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    available_after_cents INTEGER NOT NULL CHECK (available_after_cents >= 0),
    held_after_cents INTEGER NOT NULL CHECK (held_after_cents >= 0),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, entry),
    CHECK (debit <> credit)
) STRICT, WITHOUT ROWID;
INSERT INTO postings_with_splits (
    integrator_id, entry, debit, credit, amount_cents, reason, resource_kind, resource_id, available_after_cents,
    held_after_cents, created_at
)
SELECT
    integrator_id, entry, debit, credit, amount_cents, reason, resource_kind, resource_id, available_after_cents,
    held_after_cents, created_at
FROM postings
ORDER BY integrator_id, entry;
DROP TABLE postings;
ALTER TABLE postings_with_splits RENAME TO postings;

CREATE TABLE events_with_splits (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund' OR resource_kind = 'split'
    ),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    sequence INTEGER NOT NULL CHECK (sequence BETWEEN 1 AND 4294967295),
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    number INTEGER CHECK (number > 0),
    moved_cents INTEGER CHECK ((number IS NULL) = (moved_cents IS NULL)),
    related_id TEXT CHECK (length(related_id) = 36),
    snapshot TEXT CHECK ((number IS NULL) = (snapshot IS NULL)),
    PRIMARY KEY (integrator_id, resource_kind, resource_id, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO events_with_splits (
    integrator_id, resource_kind, resource_id, sequence, kind, created_at, number, moved_cents, related_id, snapshot
)
SELECT
    integrator_id, resource_kind, resource_id, sequence, kind, created_at, number, moved_cents, related_id, snapshot
FROM events
ORDER BY integrator_id, resource_kind, resource_id, sequence;
DROP TABLE events;
ALTER TABLE events_with_splits RENAME TO events;
CREATE UNIQUE INDEX events_number_key ON events (integrator_id, number) WHERE number IS NOT NULL;

CREATE TABLE deliveries_with_splits (
    integrator_id TEXT NOT NULL CHECK (length(integrator_id) = 36),
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund' OR resource_kind = 'split'
    ),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    sequence INTEGER NOT NULL CHECK (sequence BETWEEN 1 AND 4294967295),
    lane TEXT NOT NULL CHECK (length(lane) = 36),
    state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'delivered' OR state = 'dead'),
    reason TEXT,
    due_at INTEGER,
    attempts INTEGER NOT NULL CHECK (attempts BETWEEN 0 AND 4294967295),
    claims INTEGER NOT NULL CHECK (claims BETWEEN 0 AND 4294967295),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, resource_kind, resource_id, sequence),
    CONSTRAINT deliveries_due_while_waiting CHECK ((state = 'waiting') = (due_at IS NOT NULL)),
    CONSTRAINT deliveries_dead_for_a_reason CHECK ((state = 'dead') = (reason IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO deliveries_with_splits (
    integrator_id, resource_kind, resource_id, sequence, lane, state, reason, due_at, attempts, claims, created_at
)
SELECT
    integrator_id, resource_kind, resource_id, sequence, lane, state, reason, due_at, attempts, claims, created_at
FROM deliveries
ORDER BY integrator_id, resource_kind, resource_id, sequence;
DROP TABLE deliveries;
ALTER TABLE deliveries_with_splits RENAME TO deliveries;
CREATE INDEX deliveries_due ON deliveries (lane, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_ended ON deliveries (created_at) WHERE due_at IS NULL;
CREATE INDEX deliveries_dead ON deliveries (integrator_id, created_at) WHERE state = 'dead';
