-- Limits of what may go out, and what finds the withdrawals that count against them. Both indexes say what is true of every
-- row: a statement that doesn't say it too never goes by them.

-- One row a limit and version. A version has a row for every kind that there was when it was set.
CREATE TABLE limits (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
    kind TEXT NOT NULL CHECK (
        kind = 'per_transaction' OR kind = 'per_day' OR kind = 'at_night' OR kind = 'late_at_night'
        OR kind = 'per_payee' OR kind = 'new_payee' OR kind = 'per_hour'
    ),
    most INTEGER CHECK (most >= 0),
    then_most INTEGER CHECK (then_most >= 0),
    then_at INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, version, kind),
    CHECK (then_most IS NULL OR then_at IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX withdrawals_by_time ON withdrawals (integrator_id, created_at) WHERE amount_cents > 0;
CREATE INDEX withdrawals_by_payee ON withdrawals (integrator_id, payee_key, created_at) WHERE amount_cents > 0;
