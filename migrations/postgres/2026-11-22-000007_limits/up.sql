-- Limits of what may go out, and what finds the withdrawals that count against them. The two indexes read a large table
-- while nobody can write to it: make them by hand before, with CONCURRENTLY (docs/OPERATIONS.md, limits of what goes out).
--
-- Both say what is true of every row. So the planner takes neither for a statement that doesn't say it too: what looks a
-- withdrawal up by its key has no other index to do it by.

-- One row a limit and version. A version has a row for every kind that there was when it was set.
CREATE TABLE limits (
    integrator_id uuid NOT NULL,
    version bigint NOT NULL CONSTRAINT limits_version_check CHECK (version BETWEEN 1 AND 4294967295),
    kind text COLLATE "C" NOT NULL CONSTRAINT limits_kind_check CHECK (
        kind IN ('per_transaction', 'per_day', 'at_night', 'late_at_night', 'per_payee', 'new_payee', 'per_hour')
    ),
    most bigint CONSTRAINT limits_most_check CHECK (most >= 0),
    then_most bigint CONSTRAINT limits_then_most_check CHECK (then_most >= 0),
    then_at bigint,
    created_at bigint NOT NULL,
    CONSTRAINT limits_pkey PRIMARY KEY (integrator_id, version, kind),
    CONSTRAINT limits_integrator_id_fkey FOREIGN KEY (integrator_id) REFERENCES integrators (id),
    CONSTRAINT limits_then_whole CHECK (then_most IS NULL OR then_at IS NOT NULL)
);

CREATE INDEX IF NOT EXISTS withdrawals_by_time ON withdrawals (integrator_id, created_at) WHERE amount_cents > 0;
CREATE INDEX IF NOT EXISTS withdrawals_by_payee ON withdrawals (integrator_id, payee_key, created_at) WHERE amount_cents > 0;
