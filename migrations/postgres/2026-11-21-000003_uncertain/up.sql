-- What an integrator owes, what the provider takes back or settles late, its callbacks, and the journal of
-- administrative acts. No table is rewritten: PostgreSQL keeps the default of an added column apart from the rows.
--
-- A rule of postings and of charges that is made wider is NOT VALID: it is asked of every row that is written from now
-- on, and those that are there kept a narrower one. So nobody waits for a large table to be read.

-- A wallet never has money and a debt side by side. The program decides by the same rule; it knows a refusal of this
-- one by its name.
ALTER TABLE wallets
    ADD COLUMN owed_cents bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT wallets_owed_alone CHECK (owed_cents >= 0 AND (owed_cents = 0 OR available_cents = 0));

ALTER TABLE postings
    DROP CONSTRAINT postings_debit_check,
    DROP CONSTRAINT postings_credit_check,
    ADD CONSTRAINT postings_debit_check CHECK (
        debit IN ('available', 'held', 'clearing', 'fees', 'owed')
    ) NOT VALID,
    ADD CONSTRAINT postings_credit_check CHECK (
        credit IN ('available', 'held', 'clearing', 'fees', 'owed')
    ) NOT VALID;

-- The part of a payment that the provider sent back though nobody here asked for it counts as gone.
ALTER TABLE charges
    ADD COLUMN taken_back_cents bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT charges_refunds_within_payment,
    ADD CONSTRAINT charges_taken_back_cents_check CHECK (taken_back_cents >= 0) NOT VALID,
    ADD CONSTRAINT charges_refunds_within_payment CHECK (
        refund_reserved_cents + refunded_cents + taken_back_cents <= amount_paid_cents
    ) NOT VALID;

ALTER TABLE withdrawals ADD COLUMN settled_late boolean NOT NULL DEFAULT false;

-- What the provider called back, as it came. A callback that waits has a time when it is looked at; one that ended has
-- none. No integrator is in front: whose it is isn't known before it is looked at, and a forged one is nobody's.
--
-- Rows come, change and go all day: a vacuum after a number of them, however many there are.
CREATE TABLE callbacks (
    id uuid NOT NULL,
    reference uuid,
    body text NOT NULL,
    digest uuid NOT NULL,
    received_at bigint NOT NULL,
    state text COLLATE "C" NOT NULL CONSTRAINT callbacks_state_check CHECK (
        state IN ('waiting', 'learnt', 'unmatched', 'unreadable', 'given_up')
    ),
    due_at bigint,
    attempts bigint NOT NULL CONSTRAINT callbacks_attempts_check CHECK (attempts BETWEEN 0 AND 4294967295),
    CONSTRAINT callbacks_pkey PRIMARY KEY (id),
    CONSTRAINT callbacks_due_while_waiting CHECK ((state = 'waiting') = (due_at IS NOT NULL))
) WITH (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000
);
-- Of those that say the same, one waits.
CREATE UNIQUE INDEX callbacks_waiting_key ON callbacks (digest) WHERE due_at IS NOT NULL;
CREATE INDEX callbacks_due ON callbacks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX callbacks_ended ON callbacks (received_at) WHERE due_at IS NULL;

-- Who did what to what, in a chain of hashes over all of it: one row follows from the one before. No integrator is in
-- front: the chain is one, of the whole deployment.
CREATE TABLE audit_log (
    number bigint NOT NULL CONSTRAINT audit_log_number_check CHECK (number > 0),
    created_at bigint NOT NULL,
    operator text NOT NULL,
    action text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    detail text NOT NULL,
    previous text COLLATE "C" NOT NULL CONSTRAINT audit_log_previous_check CHECK (length(previous) = 64),
    hash text COLLATE "C" NOT NULL CONSTRAINT audit_log_hash_check CHECK (length(hash) = 64),
    CONSTRAINT audit_log_pkey PRIMARY KEY (number)
);
CREATE INDEX audit_log_by_subject ON audit_log (subject, number);

-- Whoever owns the table can take this away, and the chain of hashes still tells.
CREATE FUNCTION audit_log_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is only ever added to' USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER audit_log_is_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_only_added_to();
