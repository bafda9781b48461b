-- What integrators are told, and its way to their servers. No table is rewritten: what is added to one that exists has a
-- constant default or none. The index over events has only what is told from now on, but reads the table to find that out.

ALTER TABLE integrators ADD COLUMN postback_scope text COLLATE "C" CONSTRAINT integrators_postback_scope_check CHECK (
    postback_scope IN ('outcomes', 'all')
);
ALTER TABLE charges ADD COLUMN postback_all boolean NOT NULL DEFAULT false;
ALTER TABLE withdrawals ADD COLUMN postback_all boolean NOT NULL DEFAULT false;

-- How many events the integrator was told: the next one's number less one. It is given under the lock of this row, so that
-- whoever sees a number sees every smaller one.
ALTER TABLE wallets ADD COLUMN told bigint NOT NULL DEFAULT 0;

-- An event that integrators are told of has a number, and with it how much money it is about, the refund it is about, and
-- what of the record can change again, as it was right after it: JSON that names nobody.
ALTER TABLE events
    ADD COLUMN number bigint,
    ADD COLUMN moved_cents bigint,
    ADD COLUMN related_id uuid,
    ADD COLUMN snapshot text,
    ADD CONSTRAINT events_told_whole CHECK (
        (number IS NULL) = (moved_cents IS NULL) AND (number IS NULL) = (snapshot IS NULL)
    ) NOT VALID;
CREATE UNIQUE INDEX events_number_key ON events (integrator_id, number) WHERE number IS NOT NULL;

-- An event's way to its receiver. One that waits has a time when it is tried; while it is tried, that is when the lease
-- ends. A lane is what one integrator sends to one receiver.
--
-- Rows come, change and stay for a month: a vacuum after a number of them, however many there are.
CREATE TABLE deliveries (
    integrator_id uuid NOT NULL,
    resource_kind text COLLATE "C" NOT NULL CONSTRAINT deliveries_resource_kind_check CHECK (
        resource_kind IN ('charge', 'withdrawal', 'refund')
    ),
    resource_id uuid NOT NULL,
    sequence bigint NOT NULL CONSTRAINT deliveries_sequence_check CHECK (sequence BETWEEN 1 AND 4294967295),
    lane uuid NOT NULL,
    state text COLLATE "C" NOT NULL CONSTRAINT deliveries_state_check CHECK (state IN ('waiting', 'delivered', 'dead')),
    reason text COLLATE "C",
    due_at bigint,
    attempts bigint NOT NULL CONSTRAINT deliveries_attempts_check CHECK (attempts BETWEEN 0 AND 4294967295),
    claims bigint NOT NULL CONSTRAINT deliveries_claims_check CHECK (claims BETWEEN 0 AND 4294967295),
    created_at bigint NOT NULL,
    CONSTRAINT deliveries_pkey PRIMARY KEY (integrator_id, resource_kind, resource_id, sequence),
    CONSTRAINT deliveries_due_while_waiting CHECK ((state = 'waiting') = (due_at IS NOT NULL)),
    CONSTRAINT deliveries_dead_for_a_reason CHECK ((state = 'dead') = (reason IS NOT NULL))
) WITH (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000
);
CREATE INDEX deliveries_due ON deliveries (lane, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_ended ON deliveries (created_at) WHERE due_at IS NULL;
CREATE INDEX deliveries_dead ON deliveries (integrator_id, created_at) WHERE state = 'dead';

CREATE TABLE delivery_attempts (
    integrator_id uuid NOT NULL,
    resource_kind text COLLATE "C" NOT NULL,
    resource_id uuid NOT NULL,
    sequence bigint NOT NULL,
    id uuid NOT NULL,
    created_at bigint NOT NULL,
    took_ms bigint NOT NULL CONSTRAINT delivery_attempts_took_ms_check CHECK (took_ms BETWEEN 0 AND 4294967295),
    status bigint CONSTRAINT delivery_attempts_status_check CHECK (status BETWEEN 0 AND 65535),
    outcome text COLLATE "C" NOT NULL,
    excerpt text NOT NULL,
    CONSTRAINT delivery_attempts_pkey PRIMARY KEY (integrator_id, resource_kind, resource_id, sequence, id)
);

-- A receiver's address that has failed lately; one that works is not kept.
CREATE TABLE endpoints (
    integrator_id uuid NOT NULL,
    id uuid NOT NULL,
    address text NOT NULL,
    failing_since bigint NOT NULL,
    failed_at bigint NOT NULL,
    failure text NOT NULL,
    off_at bigint,
    off_reason text COLLATE "C",
    CONSTRAINT endpoints_pkey PRIMARY KEY (integrator_id, id),
    CONSTRAINT endpoints_off_whole CHECK ((off_at IS NULL) = (off_reason IS NULL))
) WITH (fillfactor = 80);

-- The numbers and dates of what postbacks are signed with. The secrets themselves are made of a master key, which is
-- nowhere in here.
CREATE TABLE postback_secrets (
    integrator_id uuid NOT NULL CONSTRAINT postback_secrets_integrator_id_fkey REFERENCES integrators (id),
    number bigint NOT NULL CONSTRAINT postback_secrets_number_check CHECK (number BETWEEN 1 AND 4294967295),
    key_id text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    retired_at bigint,
    CONSTRAINT postback_secrets_pkey PRIMARY KEY (integrator_id, number)
);
