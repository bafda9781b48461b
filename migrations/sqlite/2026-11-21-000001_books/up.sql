-- Everything the gateway keeps. Money is integer centavos, times are integer microseconds since 1970 (UTC), ids are
-- hyphenated lower-case UUIDs, booleans are 0 or 1. The CHECKs are a second wall behind the domain's own rules.
-- Names are compared with OR: for a list of more than two after IN, SQLite makes a temporary b-tree at every insert.

CREATE TABLE integrators (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    name TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The one key without the integrator in front: a public id is what tells whose it is.
CREATE TABLE api_keys (
    public_id TEXT NOT NULL PRIMARY KEY,
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    number INTEGER NOT NULL CHECK (number > 0),
    secret_hash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    UNIQUE (integrator_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE fee_schedules (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
    cash_in_fixed_cents INTEGER NOT NULL CHECK (cash_in_fixed_cents >= 0),
    cash_in_percent TEXT NOT NULL,
    cash_in_min_cents INTEGER NOT NULL CHECK (cash_in_min_cents >= 0),
    cash_in_max_cents INTEGER CHECK (cash_in_max_cents >= cash_in_min_cents),
    cash_out_fixed_cents INTEGER NOT NULL CHECK (cash_out_fixed_cents >= 0),
    cash_out_percent TEXT NOT NULL,
    cash_out_min_cents INTEGER NOT NULL CHECK (cash_out_min_cents >= 0),
    cash_out_max_cents INTEGER CHECK (cash_out_max_cents >= cash_out_min_cents),
    refund_fixed_cents INTEGER NOT NULL CHECK (refund_fixed_cents >= 0),
    refund_percent TEXT NOT NULL,
    refund_min_cents INTEGER NOT NULL CHECK (refund_min_cents >= 0),
    refund_max_cents INTEGER CHECK (refund_max_cents >= refund_min_cents),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE wallets (
    integrator_id TEXT NOT NULL PRIMARY KEY REFERENCES integrators (id),
    available_cents INTEGER NOT NULL CHECK (available_cents >= 0),
    held_cents INTEGER NOT NULL CHECK (held_cents >= 0),
    entries INTEGER NOT NULL CHECK (entries >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE postings (
    integrator_id TEXT NOT NULL REFERENCES wallets (integrator_id),
    entry INTEGER NOT NULL CHECK (entry > 0),
    debit TEXT NOT NULL CHECK (debit = 'available' OR debit = 'held' OR debit = 'clearing' OR debit = 'fees'),
    credit TEXT NOT NULL CHECK (credit = 'available' OR credit = 'held' OR credit = 'clearing' OR credit = 'fees'),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    reason TEXT NOT NULL,
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund'
    ),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    available_after_cents INTEGER NOT NULL CHECK (available_after_cents >= 0),
    held_after_cents INTEGER NOT NULL CHECK (held_after_cents >= 0),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, entry),
    CHECK (debit <> credit)
) STRICT, WITHOUT ROWID;

CREATE TABLE charges (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    id TEXT NOT NULL CHECK (length(id) = 36),
    version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
    external_id TEXT NOT NULL,
    external_id_given INTEGER NOT NULL CHECK (external_id_given IN (0, 1)),
    amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 999999999999),
    payer_name TEXT,
    payer_document TEXT,
    payer_email TEXT,
    payer_question TEXT,
    postback_url TEXT,
    fee_version INTEGER NOT NULL CHECK (fee_version BETWEEN 0 AND 4294967295),
    state TEXT NOT NULL CHECK (
        state = 'creating' OR state = 'pending' OR state = 'paid' OR state = 'expired' OR state = 'canceled'
        OR state = 'failed'
    ),
    failure_code TEXT,
    failure_message TEXT,
    provider_id TEXT,
    qrcode TEXT,
    provider_body TEXT,
    amount_paid_cents INTEGER NOT NULL CHECK (amount_paid_cents >= 0),
    paid_fee_cents INTEGER CHECK (paid_fee_cents BETWEEN 0 AND amount_paid_cents),
    first_receipt_key TEXT,
    paid_by_name TEXT,
    paid_by_document TEXT,
    paid_at INTEGER,
    late INTEGER CHECK (late IN (0, 1)),
    payments INTEGER CHECK (payments BETWEEN 1 AND 4294967295),
    refund_reserved_cents INTEGER NOT NULL CHECK (refund_reserved_cents >= 0),
    refunded_cents INTEGER NOT NULL CHECK (refunded_cents >= 0),
    expires_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    follow_up_at INTEGER,
    follow_up_attempts INTEGER NOT NULL CHECK (follow_up_attempts BETWEEN 0 AND 4294967295),
    PRIMARY KEY (integrator_id, id),
    UNIQUE (integrator_id, external_id),
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
) STRICT;
CREATE INDEX charges_by_id ON charges (id);
CREATE INDEX charges_by_provider_id ON charges (integrator_id, provider_id, id) WHERE provider_id IS NOT NULL;
CREATE INDEX charges_due ON charges (follow_up_at) WHERE follow_up_at IS NOT NULL;

CREATE TABLE receipts (
    integrator_id TEXT NOT NULL,
    receipt_key TEXT NOT NULL,
    charge_id TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 999999999999),
    paid_at INTEGER NOT NULL,
    payer_name TEXT,
    payer_document TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, receipt_key),
    UNIQUE (integrator_id, charge_id, number),
    FOREIGN KEY (integrator_id, charge_id) REFERENCES charges (integrator_id, id)
) STRICT;

CREATE TABLE withdrawals (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    id TEXT NOT NULL CHECK (length(id) = 36),
    version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
    external_id TEXT NOT NULL,
    external_id_given INTEGER NOT NULL CHECK (external_id_given IN (0, 1)),
    amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 999999999999),
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0),
    fee_version INTEGER NOT NULL CHECK (fee_version BETWEEN 0 AND 4294967295),
    payee_name TEXT,
    payee_document TEXT,
    payee_key_type TEXT NOT NULL CHECK (
        payee_key_type = 'CPF' OR payee_key_type = 'CNPJ' OR payee_key_type = 'PHONE' OR payee_key_type = 'EMAIL'
        OR payee_key_type = 'EVP'
    ),
    payee_key TEXT NOT NULL,
    description TEXT,
    postback_url TEXT,
    state TEXT NOT NULL CHECK (
        state = 'queued' OR state = 'submitting' OR state = 'accepted' OR state = 'uncertain'
        OR state = 'needs_review' OR state = 'completed' OR state = 'failed' OR state = 'canceled'
        OR state = 'returned'
    ),
    failure_code TEXT,
    failure_message TEXT,
    provider_id TEXT,
    provider_body TEXT,
    end_to_end_id TEXT,
    returned_cents INTEGER NOT NULL CHECK (returned_cents BETWEEN 0 AND amount_cents),
    submitted_at INTEGER NOT NULL,
    completed_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    follow_up_at INTEGER,
    follow_up_attempts INTEGER NOT NULL CHECK (follow_up_attempts BETWEEN 0 AND 4294967295),
    PRIMARY KEY (integrator_id, id),
    UNIQUE (integrator_id, external_id),
    CONSTRAINT withdrawals_failure_with_state CHECK (
        (state = 'failed') = (failure_code IS NOT NULL) AND (failure_code IS NULL) = (failure_message IS NULL)
    )
) STRICT;
CREATE INDEX withdrawals_by_id ON withdrawals (id);
CREATE INDEX withdrawals_by_provider_id ON withdrawals (integrator_id, provider_id, id) WHERE provider_id IS NOT NULL;
CREATE INDEX withdrawals_by_end_to_end_id ON withdrawals (integrator_id, end_to_end_id, id)
WHERE end_to_end_id IS NOT NULL;
CREATE INDEX withdrawals_due ON withdrawals (follow_up_at) WHERE follow_up_at IS NOT NULL;

CREATE TABLE refunds (
    integrator_id TEXT NOT NULL,
    id TEXT NOT NULL CHECK (length(id) = 36),
    version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
    charge_id TEXT NOT NULL,
    charge_provider_id TEXT NOT NULL,
    external_id TEXT NOT NULL,
    external_id_given INTEGER NOT NULL CHECK (external_id_given IN (0, 1)),
    amount_cents INTEGER NOT NULL CHECK (amount_cents BETWEEN 1 AND 999999999999),
    amount_given INTEGER NOT NULL CHECK (amount_given IN (0, 1)),
    fee_cents INTEGER NOT NULL CHECK (fee_cents >= 0),
    fee_version INTEGER NOT NULL CHECK (fee_version BETWEEN 0 AND 4294967295),
    description TEXT,
    state TEXT NOT NULL CHECK (
        state = 'queued' OR state = 'submitting' OR state = 'accepted' OR state = 'uncertain'
        OR state = 'needs_review' OR state = 'completed' OR state = 'failed'
    ),
    failure_code TEXT,
    failure_message TEXT,
    provider_id TEXT,
    provider_body TEXT,
    return_id TEXT,
    submitted_at INTEGER NOT NULL,
    completed_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    follow_up_at INTEGER,
    follow_up_attempts INTEGER NOT NULL CHECK (follow_up_attempts BETWEEN 0 AND 4294967295),
    PRIMARY KEY (integrator_id, id),
    UNIQUE (integrator_id, external_id),
    FOREIGN KEY (integrator_id, charge_id) REFERENCES charges (integrator_id, id),
    CONSTRAINT refunds_failure_with_state CHECK (
        (state = 'failed') = (failure_code IS NOT NULL) AND (failure_code IS NULL) = (failure_message IS NULL)
    )
) STRICT;
CREATE INDEX refunds_by_id ON refunds (id);
CREATE INDEX refunds_by_charge ON refunds (integrator_id, charge_id, id);
CREATE INDEX refunds_by_provider_id ON refunds (integrator_id, provider_id, id) WHERE provider_id IS NOT NULL;
CREATE INDEX refunds_by_return_id ON refunds (integrator_id, return_id, id) WHERE return_id IS NOT NULL;
CREATE INDEX refunds_due ON refunds (follow_up_at) WHERE follow_up_at IS NOT NULL;

CREATE TABLE handles (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    kind TEXT NOT NULL CHECK (kind = 'charge' OR kind = 'withdrawal' OR kind = 'refund'),
    key TEXT NOT NULL,
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund'
    ),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    sequence INTEGER NOT NULL CHECK (sequence BETWEEN 1 AND 4294967295),
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, resource_kind, resource_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE findings (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    number INTEGER NOT NULL CHECK (number > 0),
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund'
    ),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    code TEXT NOT NULL,
    detail TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, number),
    UNIQUE (integrator_id, resource_kind, resource_id, code)
) STRICT, WITHOUT ROWID;

-- What holds of the whole deployment, such as which provider the money is at.
CREATE TABLE facts (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
