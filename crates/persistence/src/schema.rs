//! The tables, as `migrations/` makes them. Column by column in the same order.

use diesel::table;

table! {
    use diesel::sql_types::{Nullable, Text};
    use crate::codec::{Id, Instant};

    integrators (id) {
        id -> Id,
        name -> Text,
        status -> Text,
        created_at -> Instant,
        postback_scope -> Nullable<Text>,
        split_postback -> Nullable<Text>,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    api_keys (public_id) {
        public_id -> Text,
        integrator_id -> Id,
        number -> BigInt,
        secret_hash -> Text,
        created_at -> Instant,
        revoked_at -> Nullable<Instant>,
        secret_number -> BigInt,
        secret_made_at -> Nullable<Instant>,
        secrets_made -> BigInt,
        second_secret_hash -> Nullable<Text>,
        second_secret_made_at -> Nullable<Instant>,
        scopes -> Nullable<Text>,
        expires_at -> Nullable<Instant>,
        allowed_ips -> Text,
        last_used_at -> Nullable<Instant>,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    fee_schedules (integrator_id, version) {
        integrator_id -> Id,
        version -> BigInt,
        cash_in_fixed_cents -> BigInt,
        cash_in_percent -> Text,
        cash_in_min_cents -> BigInt,
        cash_in_max_cents -> Nullable<BigInt>,
        cash_out_fixed_cents -> BigInt,
        cash_out_percent -> Text,
        cash_out_min_cents -> BigInt,
        cash_out_max_cents -> Nullable<BigInt>,
        refund_fixed_cents -> BigInt,
        refund_percent -> Text,
        refund_min_cents -> BigInt,
        refund_max_cents -> Nullable<BigInt>,
        created_at -> Instant,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    limits (integrator_id, version, kind) {
        integrator_id -> Id,
        version -> BigInt,
        kind -> Text,
        most -> Nullable<BigInt>,
        then_most -> Nullable<BigInt>,
        then_at -> Nullable<Instant>,
        created_at -> Instant,
    }
}

table! {
    use diesel::sql_types::BigInt;
    use crate::codec::Id;

    wallets (integrator_id) {
        integrator_id -> Id,
        available_cents -> BigInt,
        held_cents -> BigInt,
        entries -> BigInt,
        owed_cents -> BigInt,
        told -> BigInt,
    }
}

table! {
    use diesel::sql_types::{BigInt, Text};
    use crate::codec::{Id, Instant};

    postings (integrator_id, entry) {
        integrator_id -> Id,
        entry -> BigInt,
        debit -> Text,
        credit -> Text,
        amount_cents -> BigInt,
        reason -> Text,
        resource_kind -> Text,
        resource_id -> Id,
        available_after_cents -> BigInt,
        held_after_cents -> BigInt,
        created_at -> Instant,
    }
}

table! {
    use diesel::sql_types::{BigInt, Bool, Nullable, Text};
    use crate::codec::{Id, Instant};

    charges (integrator_id, id) {
        integrator_id -> Id,
        id -> Id,
        version -> BigInt,
        external_id -> Text,
        external_id_given -> Bool,
        amount_cents -> BigInt,
        payer_name -> Nullable<Text>,
        payer_document -> Nullable<Text>,
        payer_email -> Nullable<Text>,
        payer_question -> Nullable<Text>,
        postback_url -> Nullable<Text>,
        fee_version -> BigInt,
        state -> Text,
        failure_code -> Nullable<Text>,
        failure_message -> Nullable<Text>,
        provider_id -> Nullable<Text>,
        qrcode -> Nullable<Text>,
        provider_body -> Nullable<Text>,
        amount_paid_cents -> BigInt,
        paid_fee_cents -> Nullable<BigInt>,
        first_receipt_key -> Nullable<Text>,
        paid_by_name -> Nullable<Text>,
        paid_by_document -> Nullable<Text>,
        paid_at -> Nullable<Instant>,
        late -> Nullable<Bool>,
        payments -> Nullable<BigInt>,
        refund_reserved_cents -> BigInt,
        refunded_cents -> BigInt,
        expires_at -> Instant,
        created_at -> Instant,
        updated_at -> Instant,
        follow_up_at -> Nullable<Instant>,
        follow_up_attempts -> BigInt,
        taken_back_cents -> BigInt,
        postback_all -> Bool,
        metadata -> Nullable<Text>,
        split -> Nullable<Text>,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    receipts (integrator_id, receipt_key) {
        integrator_id -> Id,
        receipt_key -> Text,
        charge_id -> Id,
        number -> BigInt,
        amount_cents -> BigInt,
        paid_at -> Instant,
        payer_name -> Nullable<Text>,
        payer_document -> Nullable<Text>,
        created_at -> Instant,
    }
}

table! {
    use diesel::sql_types::{BigInt, Bool, Nullable, Text};
    use crate::codec::{Id, Instant};

    withdrawals (integrator_id, id) {
        integrator_id -> Id,
        id -> Id,
        version -> BigInt,
        external_id -> Text,
        external_id_given -> Bool,
        amount_cents -> BigInt,
        fee_cents -> BigInt,
        fee_version -> BigInt,
        payee_name -> Nullable<Text>,
        payee_document -> Nullable<Text>,
        payee_key_type -> Text,
        payee_key -> Text,
        description -> Nullable<Text>,
        postback_url -> Nullable<Text>,
        state -> Text,
        failure_code -> Nullable<Text>,
        failure_message -> Nullable<Text>,
        provider_id -> Nullable<Text>,
        provider_body -> Nullable<Text>,
        end_to_end_id -> Nullable<Text>,
        returned_cents -> BigInt,
        submitted_at -> Instant,
        completed_at -> Nullable<Instant>,
        created_at -> Instant,
        updated_at -> Instant,
        follow_up_at -> Nullable<Instant>,
        follow_up_attempts -> BigInt,
        settled_late -> Bool,
        postback_all -> Bool,
        metadata -> Nullable<Text>,
    }
}

table! {
    use diesel::sql_types::{BigInt, Bool, Nullable, Text};
    use crate::codec::{Id, Instant};

    refunds (integrator_id, id) {
        integrator_id -> Id,
        id -> Id,
        version -> BigInt,
        charge_id -> Id,
        charge_provider_id -> Text,
        external_id -> Text,
        external_id_given -> Bool,
        amount_cents -> BigInt,
        amount_given -> Bool,
        fee_cents -> BigInt,
        fee_version -> BigInt,
        description -> Nullable<Text>,
        state -> Text,
        failure_code -> Nullable<Text>,
        failure_message -> Nullable<Text>,
        provider_id -> Nullable<Text>,
        provider_body -> Nullable<Text>,
        return_id -> Nullable<Text>,
        submitted_at -> Instant,
        completed_at -> Nullable<Instant>,
        created_at -> Instant,
        updated_at -> Instant,
        follow_up_at -> Nullable<Instant>,
        follow_up_attempts -> BigInt,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    splits (integrator_id, id) {
        integrator_id -> Id,
        id -> Id,
        version -> BigInt,
        from_id -> Id,
        charge_id -> Id,
        amount_cents -> BigInt,
        taken_back_cents -> BigInt,
        postback_url -> Nullable<Text>,
        created_at -> Instant,
        updated_at -> Instant,
    }
}

table! {
    use diesel::sql_types::Text;
    use crate::codec::{Id, Instant};

    handles (integrator_id, kind, key) {
        integrator_id -> Id,
        kind -> Text,
        key -> Text,
        resource_id -> Id,
        created_at -> Instant,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    events (integrator_id, resource_kind, resource_id, sequence) {
        integrator_id -> Id,
        resource_kind -> Text,
        resource_id -> Id,
        sequence -> BigInt,
        kind -> Text,
        created_at -> Instant,
        number -> Nullable<BigInt>,
        moved_cents -> Nullable<BigInt>,
        related_id -> Nullable<Id>,
        snapshot -> Nullable<Text>,
    }
}

table! {
    use diesel::sql_types::{BigInt, Text};
    use crate::codec::{Id, Instant};

    findings (integrator_id, number) {
        integrator_id -> Id,
        number -> BigInt,
        resource_kind -> Text,
        resource_id -> Id,
        code -> Text,
        detail -> Text,
        created_at -> Instant,
    }
}

table! {
    facts (name) {
        name -> Text,
        value -> Text,
    }
}

table! {
    use diesel::sql_types::Text;
    use crate::codec::{Id, Instant};

    evidence (integrator_id, resource_kind, resource_id, id) {
        integrator_id -> Id,
        resource_kind -> Text,
        resource_id -> Id,
        id -> Id,
        kind -> Text,
        proof -> Text,
        detail -> Text,
        created_at -> Instant,
    }
}

table! {
    use diesel::sql_types::Text;
    use crate::codec::{Id, Instant};

    twins (integrator_id, key) {
        integrator_id -> Id,
        key -> Id,
        resource_id -> Id,
        others -> Text,
        created_at -> Instant,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    callbacks (id) {
        id -> Id,
        reference -> Nullable<Id>,
        body -> Text,
        digest -> Id,
        received_at -> Instant,
        state -> Text,
        due_at -> Nullable<Instant>,
        attempts -> BigInt,
    }
}

table! {
    use diesel::sql_types::{BigInt, Text};
    use crate::codec::Instant;

    audit_log (number) {
        number -> BigInt,
        created_at -> Instant,
        operator -> Text,
        action -> Text,
        subject -> Text,
        detail -> Text,
        previous -> Text,
        hash -> Text,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    deliveries (integrator_id, resource_kind, resource_id, sequence) {
        integrator_id -> Id,
        resource_kind -> Text,
        resource_id -> Id,
        sequence -> BigInt,
        lane -> Id,
        state -> Text,
        reason -> Nullable<Text>,
        due_at -> Nullable<Instant>,
        attempts -> BigInt,
        claims -> BigInt,
        created_at -> Instant,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    delivery_attempts (integrator_id, resource_kind, resource_id, sequence, id) {
        integrator_id -> Id,
        resource_kind -> Text,
        resource_id -> Id,
        sequence -> BigInt,
        id -> Id,
        created_at -> Instant,
        took_ms -> BigInt,
        status -> Nullable<BigInt>,
        outcome -> Text,
        excerpt -> Text,
    }
}

table! {
    use diesel::sql_types::{Nullable, Text};
    use crate::codec::{Id, Instant};

    endpoints (integrator_id, id) {
        integrator_id -> Id,
        id -> Id,
        address -> Text,
        failing_since -> Instant,
        failed_at -> Instant,
        failure -> Text,
        off_at -> Nullable<Instant>,
        off_reason -> Nullable<Text>,
    }
}

table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::codec::{Id, Instant};

    postback_secrets (integrator_id, number) {
        integrator_id -> Id,
        number -> BigInt,
        key_id -> Text,
        created_at -> Instant,
        retired_at -> Nullable<Instant>,
    }
}

table! {
    use diesel::sql_types::{BigInt, Text};
    use crate::codec::{Id, Instant};

    seals (integrator_id, number) {
        integrator_id -> Id,
        number -> BigInt,
        through_entry -> BigInt,
        available_cents -> BigInt,
        held_cents -> BigInt,
        owed_cents -> BigInt,
        fees_cents -> BigInt,
        clearing_cents -> BigInt,
        entries_hash -> Text,
        sealed_at -> Instant,
    }
}

table! {
    use diesel::sql_types::{BigInt, Text};
    use crate::codec::{Id, Instant};

    seal_differences (integrator_id) {
        integrator_id -> Id,
        number -> BigInt,
        from_entry -> BigInt,
        through_entry -> BigInt,
        code -> Text,
        detail -> Text,
        found_at -> Instant,
    }
}

table! {
    use diesel::sql_types::Text;
    use crate::codec::Id;

    people (integrator_id, id) {
        integrator_id -> Id,
        id -> Id,
        subject -> Text,
        key -> Text,
    }
}

table! {
    use diesel::sql_types::Text;
    use crate::codec::Id;

    payee_keys (integrator_id, payee_key, person_id) {
        integrator_id -> Id,
        payee_key -> Text,
        pseudonym -> Id,
        person_id -> Id,
    }
}

table! {
    use diesel::sql_types::{BigInt, Text};
    use crate::codec::Id;

    locked_parts (integrator_id, resource_id, part, number) {
        integrator_id -> Id,
        resource_id -> Id,
        part -> Text,
        number -> BigInt,
        person_id -> Id,
        sealed -> Text,
    }
}

diesel::allow_tables_to_appear_in_same_query!(events, deliveries);
diesel::allow_tables_to_appear_in_same_query!(people, locked_parts);
