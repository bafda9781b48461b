-- Splits: parts of a charge's payments that go to other integrators' wallets. A charge keeps who gets what part of it, and what
-- came of that, as a JSON list, without one when nobody does; a recipient keeps a row of its own.
--
-- No table is rewritten or read: a rule that is made wider is NOT VALID, since the rows that are there kept a narrower one.

ALTER TABLE integrators ADD COLUMN split_postback text;
ALTER TABLE charges ADD COLUMN split text;

CREATE TABLE splits (
    integrator_id uuid NOT NULL,
    id uuid NOT NULL,
    version bigint NOT NULL CONSTRAINT splits_version_check CHECK (version BETWEEN 1 AND 4294967295),
    from_id uuid NOT NULL,
    charge_id uuid NOT NULL,
    amount_cents bigint NOT NULL CONSTRAINT splits_amount_cents_check CHECK (amount_cents > 0),
    taken_back_cents bigint NOT NULL,
    postback_url text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CONSTRAINT splits_pkey PRIMARY KEY (integrator_id, id),
    CONSTRAINT splits_taken_back_within_amount CHECK (taken_back_cents BETWEEN 0 AND amount_cents),
    CONSTRAINT splits_of_another CHECK (from_id <> integrator_id)
);
CREATE INDEX splits_by_id ON splits (id);

ALTER TABLE postings
    DROP CONSTRAINT postings_resource_kind_check,
    ADD CONSTRAINT postings_resource_kind_check CHECK (
        resource_kind IN ('charge', 'withdrawal', 'refund', 'split')
    ) NOT VALID;

ALTER TABLE events
    DROP CONSTRAINT events_resource_kind_check,
    ADD CONSTRAINT events_resource_kind_check CHECK (
        resource_kind IN ('charge', 'withdrawal', 'refund', 'split')
    ) NOT VALID;

ALTER TABLE deliveries
    DROP CONSTRAINT deliveries_resource_kind_check,
    ADD CONSTRAINT deliveries_resource_kind_check CHECK (
        resource_kind IN ('charge', 'withdrawal', 'refund', 'split')
    ) NOT VALID;
