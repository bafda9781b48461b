-- Everything the gateway keeps. Money is bigint centavos, times are bigint microseconds since 1970 (UTC; a timestamptz
-- has not their range), ids are uuid, whose byte order is the order of lists. The CHECKs are a second wall behind the
-- domain's own rules. Every constraint has a name: the program knows a refusal by it.
--
-- Texts that are compared or ordered have COLLATE "C": byte by byte, the same on every machine and after every upgrade
-- of its libraries.
--
-- Foreign keys are kept where they cost little: from an integrator's settings, and from a refund to its charge. A receipt
-- is written together with its charge, whose version guards it. One from charges, withdrawals, postings, events, handles or findings to the integrator would make
-- every insert lock one and the same row, and all inserts at once would queue to write that lock down. The statement
-- that inserts them looks for the integrator's wallet instead, and inserts nothing without.
--
-- A table whose rows change leaves room in its pages (fillfactor) for their next versions. Its indexes hold nothing
-- that changes often, but for when the record is due.
--
-- The second key of receipts begins with the charge, and not with the integrator: a prepared statement that was planned
-- on an empty table must have no other index to look a receipt's key up in than the primary one.
--
-- An index by the id alone has NULLS FIRST (there are none): so the planner can look an id up in it, and never takes it
-- for the order of a list, where it would read through the records of every integrator. Lists go by the primary key.

CREATE TABLE integrators (
    id uuid NOT NULL,
    name text NOT NULL,
    status text COLLATE "C" NOT NULL CONSTRAINT integrators_status_check CHECK (status IN ('active', 'suspended')),
    created_at bigint NOT NULL,
    CONSTRAINT integrators_pkey PRIMARY KEY (id)
);

-- The one key without the integrator in front: a public id is what tells whose it is.
CREATE TABLE api_keys (
    public_id text COLLATE "C" NOT NULL,
    integrator_id uuid NOT NULL,
    number bigint NOT NULL CONSTRAINT api_keys_number_check CHECK (number > 0),
    secret_hash text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint,
    CONSTRAINT api_keys_pkey PRIMARY KEY (public_id),
    CONSTRAINT api_keys_number_key UNIQUE (integrator_id, number),
    CONSTRAINT api_keys_integrator_id_fkey FOREIGN KEY (integrator_id) REFERENCES integrators (id)
);

CREATE TABLE fee_schedules (
    integrator_id uuid NOT NULL,
    version bigint NOT NULL CONSTRAINT fee_schedules_version_check CHECK (version BETWEEN 1 AND 4294967295),
    cash_in_fixed_cents bigint NOT NULL CONSTRAINT fee_schedules_cash_in_fixed_cents_check CHECK (
        cash_in_fixed_cents >= 0
    ),
    cash_in_percent text NOT NULL,
    cash_in_min_cents bigint NOT NULL CONSTRAINT fee_schedules_cash_in_min_cents_check CHECK (cash_in_min_cents >= 0),
    cash_in_max_cents bigint CONSTRAINT fee_schedules_cash_in_max_cents_check CHECK (
        cash_in_max_cents >= cash_in_min_cents
    ),
    cash_out_fixed_cents bigint NOT NULL CONSTRAINT fee_schedules_cash_out_fixed_cents_check CHECK (
        cash_out_fixed_cents >= 0
    ),
    cash_out_percent text NOT NULL,
    cash_out_min_cents bigint NOT NULL CONSTRAINT fee_schedules_cash_out_min_cents_check CHECK (
        cash_out_min_cents >= 0
    ),
    cash_out_max_cents bigint CONSTRAINT fee_schedules_cash_out_max_cents_check CHECK (
        cash_out_max_cents >= cash_out_min_cents
    ),
    refund_fixed_cents bigint NOT NULL CONSTRAINT fee_schedules_refund_fixed_cents_check CHECK (
        refund_fixed_cents >= 0
    ),
    refund_percent text NOT NULL,
    refund_min_cents bigint NOT NULL CONSTRAINT fee_schedules_refund_min_cents_check CHECK (refund_min_cents >= 0),
    refund_max_cents bigint CONSTRAINT fee_schedules_refund_max_cents_check CHECK (
        refund_max_cents >= refund_min_cents
    ),
    created_at bigint NOT NULL,
    CONSTRAINT fee_schedules_pkey PRIMARY KEY (integrator_id, version),
    CONSTRAINT fee_schedules_integrator_id_fkey FOREIGN KEY (integrator_id) REFERENCES integrators (id)
);

-- The rows that change most. No index but the key, and half of each page free, so that a new version stays on its page;
-- and a vacuum after a number of updates, however many wallets there are.
CREATE TABLE wallets (
    integrator_id uuid NOT NULL,
    available_cents bigint NOT NULL CONSTRAINT wallets_available_cents_check CHECK (available_cents >= 0),
    held_cents bigint NOT NULL CONSTRAINT wallets_held_cents_check CHECK (held_cents >= 0),
    entries bigint NOT NULL CONSTRAINT wallets_entries_check CHECK (entries >= 0),
    CONSTRAINT wallets_pkey PRIMARY KEY (integrator_id),
    CONSTRAINT wallets_integrator_id_fkey FOREIGN KEY (integrator_id) REFERENCES integrators (id)
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);

CREATE TABLE postings (
    integrator_id uuid NOT NULL,
    entry bigint NOT NULL CONSTRAINT postings_entry_check CHECK (entry > 0),
    debit text COLLATE "C" NOT NULL CONSTRAINT postings_debit_check CHECK (
        debit IN ('available', 'held', 'clearing', 'fees')
    ),
    credit text COLLATE "C" NOT NULL CONSTRAINT postings_credit_check CHECK (
        credit IN ('available', 'held', 'clearing', 'fees')
    ),
    amount_cents bigint NOT NULL CONSTRAINT postings_amount_cents_check CHECK (amount_cents > 0),
    reason text NOT NULL,
    resource_kind text COLLATE "C" NOT NULL CONSTRAINT postings_resource_kind_check CHECK (
        resource_kind IN ('charge', 'withdrawal', 'refund')
    ),
    resource_id uuid NOT NULL,
    available_after_cents bigint NOT NULL CONSTRAINT postings_available_after_cents_check CHECK (
        available_after_cents >= 0
    ),
    held_after_cents bigint NOT NULL CONSTRAINT postings_held_after_cents_check CHECK (held_after_cents >= 0),
    created_at bigint NOT NULL,
    CONSTRAINT postings_pkey PRIMARY KEY (integrator_id, entry),
    CONSTRAINT postings_two_accounts CHECK (debit <> credit)
);

CREATE TABLE charges (
    integrator_id uuid NOT NULL,
    id uuid NOT NULL,
    version bigint NOT NULL CONSTRAINT charges_version_check CHECK (version BETWEEN 1 AND 4294967295),
    external_id text COLLATE "C" NOT NULL,
    external_id_given boolean NOT NULL,
    amount_cents bigint NOT NULL CONSTRAINT charges_amount_cents_check CHECK (
        amount_cents BETWEEN 1 AND 999999999999
    ),
    payer_name text,
    payer_document text,
    payer_email text,
    payer_question text,
    postback_url text,
    fee_version bigint NOT NULL CONSTRAINT charges_fee_version_check CHECK (fee_version BETWEEN 0 AND 4294967295),
    state text COLLATE "C" NOT NULL CONSTRAINT charges_state_check CHECK (
        state IN ('creating', 'pending', 'paid', 'expired', 'canceled', 'failed')
    ),
    failure_code text,
    failure_message text,
    provider_id text COLLATE "C",
    qrcode text,
    provider_body text,
    amount_paid_cents bigint NOT NULL CONSTRAINT charges_amount_paid_cents_check CHECK (amount_paid_cents >= 0),
    paid_fee_cents bigint CONSTRAINT charges_paid_fee_cents_check CHECK (
        paid_fee_cents BETWEEN 0 AND amount_paid_cents
    ),
    first_receipt_key text COLLATE "C",
    paid_by_name text,
    paid_by_document text,
    paid_at bigint,
    late boolean,
    payments bigint CONSTRAINT charges_payments_check CHECK (payments BETWEEN 1 AND 4294967295),
    refund_reserved_cents bigint NOT NULL CONSTRAINT charges_refund_reserved_cents_check CHECK (
        refund_reserved_cents >= 0
    ),
    refunded_cents bigint NOT NULL CONSTRAINT charges_refunded_cents_check CHECK (refunded_cents >= 0),
    expires_at bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    follow_up_at bigint,
    follow_up_attempts bigint NOT NULL CONSTRAINT charges_follow_up_attempts_check CHECK (
        follow_up_attempts BETWEEN 0 AND 4294967295
    ),
    CONSTRAINT charges_pkey PRIMARY KEY (integrator_id, id),
    CONSTRAINT charges_external_id_key UNIQUE (integrator_id, external_id),
    CONSTRAINT charges_refunds_within_payment CHECK (refund_reserved_cents + refunded_cents <= amount_paid_cents),
    CONSTRAINT charges_failure_with_state CHECK (
        (state = 'failed') = (failure_code IS NOT NULL) AND (failure_code IS NULL) = (failure_message IS NULL)
    ),
    CONSTRAINT charges_ticket_whole CHECK (
        (provider_id IS NULL) = (qrcode IS NULL) AND (provider_id IS NULL) = (provider_body IS NULL)
    ),
    CONSTRAINT charges_credit_whole CHECK (
        (paid_at IS NULL) = (paid_fee_cents IS NULL) AND (paid_at IS NULL) = (first_receipt_key IS NULL)
        AND (paid_at IS NULL) = (late IS NULL) AND (paid_at IS NULL) = (payments IS NULL)
        AND (paid_at IS NULL) = (amount_paid_cents = 0)
    )
) WITH (
    fillfactor = 80
);
CREATE INDEX charges_by_id ON charges (id NULLS FIRST);
CREATE INDEX charges_by_provider_id ON charges (integrator_id, provider_id, id) WHERE provider_id IS NOT NULL;
CREATE INDEX charges_due ON charges (follow_up_at) WHERE follow_up_at IS NOT NULL;

CREATE TABLE receipts (
    integrator_id uuid NOT NULL,
    receipt_key text COLLATE "C" NOT NULL,
    charge_id uuid NOT NULL,
    number bigint NOT NULL CONSTRAINT receipts_number_check CHECK (number > 0),
    amount_cents bigint NOT NULL CONSTRAINT receipts_amount_cents_check CHECK (
        amount_cents BETWEEN 1 AND 999999999999
    ),
    paid_at bigint NOT NULL,
    payer_name text,
    payer_document text,
    created_at bigint NOT NULL,
    CONSTRAINT receipts_pkey PRIMARY KEY (integrator_id, receipt_key),
    CONSTRAINT receipts_number_key UNIQUE (charge_id, integrator_id, number)
);

CREATE TABLE withdrawals (
    integrator_id uuid NOT NULL,
    id uuid NOT NULL,
    version bigint NOT NULL CONSTRAINT withdrawals_version_check CHECK (version BETWEEN 1 AND 4294967295),
    external_id text COLLATE "C" NOT NULL,
    external_id_given boolean NOT NULL,
    amount_cents bigint NOT NULL CONSTRAINT withdrawals_amount_cents_check CHECK (
        amount_cents BETWEEN 1 AND 999999999999
    ),
    fee_cents bigint NOT NULL CONSTRAINT withdrawals_fee_cents_check CHECK (fee_cents >= 0),
    fee_version bigint NOT NULL CONSTRAINT withdrawals_fee_version_check CHECK (fee_version BETWEEN 0 AND 4294967295),
    payee_name text,
    payee_document text,
    payee_key_type text COLLATE "C" NOT NULL CONSTRAINT withdrawals_payee_key_type_check CHECK (
        payee_key_type IN ('CPF', 'CNPJ', 'PHONE', 'EMAIL', 'EVP')
    ),
    payee_key text NOT NULL,
    description text,
    postback_url text,
    state text COLLATE "C" NOT NULL CONSTRAINT withdrawals_state_check CHECK (
        state IN ('queued', 'submitting', 'accepted', 'uncertain', 'needs_review', 'completed', 'failed',
            'canceled', 'returned')
    ),
    failure_code text,
    failure_message text,
    provider_id text COLLATE "C",
    provider_body text,
    end_to_end_id text COLLATE "C",
    returned_cents bigint NOT NULL CONSTRAINT withdrawals_returned_cents_check CHECK (
        returned_cents BETWEEN 0 AND amount_cents
    ),
    submitted_at bigint NOT NULL,
    completed_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    follow_up_at bigint,
    follow_up_attempts bigint NOT NULL CONSTRAINT withdrawals_follow_up_attempts_check CHECK (
        follow_up_attempts BETWEEN 0 AND 4294967295
    ),
    CONSTRAINT withdrawals_pkey PRIMARY KEY (integrator_id, id),
    CONSTRAINT withdrawals_external_id_key UNIQUE (integrator_id, external_id),
    CONSTRAINT withdrawals_failure_with_state CHECK (
        (state = 'failed') = (failure_code IS NOT NULL) AND (failure_code IS NULL) = (failure_message IS NULL)
    )
) WITH (
    fillfactor = 80
);
CREATE INDEX withdrawals_by_id ON withdrawals (id NULLS FIRST);
CREATE INDEX withdrawals_by_provider_id ON withdrawals (integrator_id, provider_id, id) WHERE provider_id IS NOT NULL;
CREATE INDEX withdrawals_by_end_to_end_id ON withdrawals (integrator_id, end_to_end_id, id)
WHERE end_to_end_id IS NOT NULL;
CREATE INDEX withdrawals_due ON withdrawals (follow_up_at) WHERE follow_up_at IS NOT NULL;

CREATE TABLE refunds (
    integrator_id uuid NOT NULL,
    id uuid NOT NULL,
    version bigint NOT NULL CONSTRAINT refunds_version_check CHECK (version BETWEEN 1 AND 4294967295),
    charge_id uuid NOT NULL,
    charge_provider_id text NOT NULL,
    external_id text COLLATE "C" NOT NULL,
    external_id_given boolean NOT NULL,
    amount_cents bigint NOT NULL CONSTRAINT refunds_amount_cents_check CHECK (
        amount_cents BETWEEN 1 AND 999999999999
    ),
    amount_given boolean NOT NULL,
    fee_cents bigint NOT NULL CONSTRAINT refunds_fee_cents_check CHECK (fee_cents >= 0),
    fee_version bigint NOT NULL CONSTRAINT refunds_fee_version_check CHECK (fee_version BETWEEN 0 AND 4294967295),
    description text,
    state text COLLATE "C" NOT NULL CONSTRAINT refunds_state_check CHECK (
        state IN ('queued', 'submitting', 'accepted', 'uncertain', 'needs_review', 'completed', 'failed')
    ),
    failure_code text,
    failure_message text,
    provider_id text COLLATE "C",
    provider_body text,
    return_id text COLLATE "C",
    submitted_at bigint NOT NULL,
    completed_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    follow_up_at bigint,
    follow_up_attempts bigint NOT NULL CONSTRAINT refunds_follow_up_attempts_check CHECK (
        follow_up_attempts BETWEEN 0 AND 4294967295
    ),
    CONSTRAINT refunds_pkey PRIMARY KEY (integrator_id, id),
    CONSTRAINT refunds_external_id_key UNIQUE (integrator_id, external_id),
    CONSTRAINT refunds_charge_id_fkey FOREIGN KEY (integrator_id, charge_id) REFERENCES charges (integrator_id, id),
    CONSTRAINT refunds_failure_with_state CHECK (
        (state = 'failed') = (failure_code IS NOT NULL) AND (failure_code IS NULL) = (failure_message IS NULL)
    )
) WITH (
    fillfactor = 80
);
CREATE INDEX refunds_by_id ON refunds (id NULLS FIRST);
CREATE INDEX refunds_by_charge ON refunds (integrator_id, charge_id, id);
CREATE INDEX refunds_by_provider_id ON refunds (integrator_id, provider_id, id) WHERE provider_id IS NOT NULL;
CREATE INDEX refunds_by_return_id ON refunds (integrator_id, return_id, id) WHERE return_id IS NOT NULL;
CREATE INDEX refunds_due ON refunds (follow_up_at) WHERE follow_up_at IS NOT NULL;

CREATE TABLE handles (
    integrator_id uuid NOT NULL,
    kind text COLLATE "C" NOT NULL CONSTRAINT handles_kind_check CHECK (kind IN ('charge', 'withdrawal', 'refund')),
    key text COLLATE "C" NOT NULL,
    resource_id uuid NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT handles_pkey PRIMARY KEY (integrator_id, kind, key)
);

-- `transition_id` names the apply that wrote the event: when the answer of a commit is lost, it tells whether the
-- commit happened.
CREATE TABLE events (
    integrator_id uuid NOT NULL,
    resource_kind text COLLATE "C" NOT NULL CONSTRAINT events_resource_kind_check CHECK (
        resource_kind IN ('charge', 'withdrawal', 'refund')
    ),
    resource_id uuid NOT NULL,
    sequence bigint NOT NULL CONSTRAINT events_sequence_check CHECK (sequence BETWEEN 1 AND 4294967295),
    kind text NOT NULL,
    created_at bigint NOT NULL,
    transition_id uuid NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (integrator_id, resource_kind, resource_id, sequence)
);

CREATE TABLE findings (
    integrator_id uuid NOT NULL,
    number bigint NOT NULL CONSTRAINT findings_number_check CHECK (number > 0),
    resource_kind text COLLATE "C" NOT NULL CONSTRAINT findings_resource_kind_check CHECK (
        resource_kind IN ('charge', 'withdrawal', 'refund')
    ),
    resource_id uuid NOT NULL,
    code text COLLATE "C" NOT NULL,
    detail text NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT findings_pkey PRIMARY KEY (integrator_id, number),
    CONSTRAINT findings_code_key UNIQUE (integrator_id, resource_kind, resource_id, code)
);

-- What holds of the whole deployment, such as which provider the money is at.
CREATE TABLE facts (
    name text COLLATE "C" NOT NULL,
    value text NOT NULL,
    CONSTRAINT facts_pkey PRIMARY KEY (name)
);
