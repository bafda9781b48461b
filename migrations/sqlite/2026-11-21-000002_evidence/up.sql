-- What was done and heard about an outgoing movement, and what makes two requests twins.

CREATE TABLE evidence (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund'
    ),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    id TEXT NOT NULL CHECK (length(id) = 36),
    kind TEXT NOT NULL,
    proof TEXT NOT NULL,
    detail TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, resource_kind, resource_id, id)
) STRICT, WITHOUT ROWID;

-- The newest of withdrawals that are alike, and the earlier ones that are still on their way or were just done, as
-- hyphenated ids with spaces between.
CREATE TABLE twins (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    key TEXT NOT NULL CHECK (length(key) = 36),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    others TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, key)
) STRICT, WITHOUT ROWID;
