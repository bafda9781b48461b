-- What integrators are told, and its way to their servers.

ALTER TABLE integrators ADD COLUMN postback_scope TEXT CHECK (postback_scope = 'outcomes' OR postback_scope = 'all');
ALTER TABLE charges ADD COLUMN postback_all INTEGER NOT NULL DEFAULT 0 CHECK (postback_all IN (0, 1));
ALTER TABLE withdrawals ADD COLUMN postback_all INTEGER NOT NULL DEFAULT 0 CHECK (postback_all IN (0, 1));

-- How many events the integrator was told: the next one's number less one.
ALTER TABLE wallets ADD COLUMN told INTEGER NOT NULL DEFAULT 0 CHECK (told >= 0);

-- An event that integrators are told of has a number, and with it how much money it is about, the refund it is about, and
-- what of the record can change again, as it was right after it: JSON that names nobody.
ALTER TABLE events ADD COLUMN number INTEGER CHECK (number > 0);
ALTER TABLE events ADD COLUMN moved_cents INTEGER CHECK ((number IS NULL) = (moved_cents IS NULL));
ALTER TABLE events ADD COLUMN related_id TEXT CHECK (length(related_id) = 36);
ALTER TABLE events ADD COLUMN snapshot TEXT CHECK ((number IS NULL) = (snapshot IS NULL));
CREATE UNIQUE INDEX events_number_key ON events (integrator_id, number) WHERE number IS NOT NULL;

-- An event's way to its receiver. One that waits has a time when it is tried; while it is tried, that is when the lease
-- ends. A lane is what one integrator sends to one receiver.
CREATE TABLE deliveries (
    integrator_id TEXT NOT NULL CHECK (length(integrator_id) = 36),
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund'
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
CREATE INDEX deliveries_due ON deliveries (lane, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_ended ON deliveries (created_at) WHERE due_at IS NULL;
CREATE INDEX deliveries_dead ON deliveries (integrator_id, created_at) WHERE state = 'dead';

CREATE TABLE delivery_attempts (
    integrator_id TEXT NOT NULL,
    resource_kind TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    id TEXT NOT NULL CHECK (length(id) = 36),
    created_at INTEGER NOT NULL,
    took_ms INTEGER NOT NULL CHECK (took_ms BETWEEN 0 AND 4294967295),
    status INTEGER CHECK (status BETWEEN 0 AND 65535),
    outcome TEXT NOT NULL,
    excerpt TEXT NOT NULL,
    PRIMARY KEY (integrator_id, resource_kind, resource_id, sequence, id)
) STRICT, WITHOUT ROWID;

-- A receiver's address that has failed lately; one that works is not kept.
CREATE TABLE endpoints (
    integrator_id TEXT NOT NULL CHECK (length(integrator_id) = 36),
    id TEXT NOT NULL CHECK (length(id) = 36),
    address TEXT NOT NULL,
    failing_since INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    failure TEXT NOT NULL,
    off_at INTEGER,
    off_reason TEXT,
    PRIMARY KEY (integrator_id, id),
    CHECK ((off_at IS NULL) = (off_reason IS NULL))
) STRICT, WITHOUT ROWID;

-- The numbers and dates of what postbacks are signed with. The secrets themselves are made of a master key, which is
-- nowhere in here.
CREATE TABLE postback_secrets (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    number INTEGER NOT NULL CHECK (number BETWEEN 1 AND 4294967295),
    key_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    retired_at INTEGER,
    PRIMARY KEY (integrator_id, number)
) STRICT, WITHOUT ROWID;
