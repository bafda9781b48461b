-- When charges are asked about next, in a table of its own: so a payment, which ends that, changes no column of a charge that
-- an index has, and its new version stays on its page without a further entry in any index (PostgreSQL, heap-only tuples). For
-- that there is room on the page for a second version of each charge.
--
-- `charges.follow_up_at` stays for programs before this migration, which write there, and is NULL in every row that a later one
-- has written. What is due is looked for in both places. Nothing is moved: whatever changes a charge, or puts it off, finds it
-- where it is. No table is rewritten or read.

CREATE TABLE charge_follow_ups (
    integrator_id uuid NOT NULL,
    id uuid NOT NULL,
    due_at bigint NOT NULL,
    attempts bigint NOT NULL CONSTRAINT charge_follow_ups_attempts_check CHECK (attempts BETWEEN 0 AND 4294967295),
    CONSTRAINT charge_follow_ups_pkey PRIMARY KEY (integrator_id, id)
) WITH (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000
);
CREATE INDEX charge_follow_ups_due ON charge_follow_ups (due_at);

ALTER TABLE charges SET (fillfactor = 50);
