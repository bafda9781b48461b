-- What was done and heard about an outgoing movement, and what makes two requests twins.

CREATE TABLE evidence (
    integrator_id uuid NOT NULL,
    resource_kind text COLLATE "C" NOT NULL CONSTRAINT evidence_resource_kind_check CHECK (
        resource_kind IN ('charge', 'withdrawal', 'refund')
    ),
    resource_id uuid NOT NULL,
    id uuid NOT NULL,
    kind text COLLATE "C" NOT NULL,
    proof text COLLATE "C" NOT NULL,
    detail text NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT evidence_pkey PRIMARY KEY (integrator_id, resource_kind, resource_id, id)
);

-- The newest of withdrawals that are alike, and the earlier ones that are still on their way or were just done, as
-- hyphenated ids with spaces between.
CREATE TABLE twins (
    integrator_id uuid NOT NULL,
    key uuid NOT NULL,
    resource_id uuid NOT NULL,
    others text NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT twins_pkey PRIMARY KEY (integrator_id, key)
) WITH (fillfactor = 80);
