//! How a case is run, what it is compared by, and the list of all of them.

use std::future::Future;

use pix_domain::audit::{self, Book, StoredFinding};
use pix_domain::ids::IntegratorId;
use pix_domain::splits::service::{compare, trace};

use crate::cases::seals::assert_books_can_be_sealed;
use crate::harness::{StoreHarness, StoreSet};

/// Runs one case on two worker threads.
pub fn run(case: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().expect("a runtime").block_on(case);
}

/// Asserts that the books of every integrator are right, that what charges gave is what their recipients have, and that all
/// of it can be sealed and proven: what every case ends with.
pub async fn assert_books_are_right(harness: &dyn StoreHarness) {
    let stores = harness.stores();
    let (charges, splits) = (stores.domain.charges.as_ref(), stores.domain.splits.as_ref());
    for integrator in stores.integrators.list().await.expect("the integrators") {
        let book = stores.books.book(integrator.id).await.expect("a book");
        assert_eq!(audit::check(integrator.id, &book), Vec::new(), "the audit found differences");
        for charge in book.charges.into_iter().filter(|charge| !charge.split.is_empty()) {
            let differences = compare(charges, splits, charge).await.expect("a comparison");
            assert_eq!(differences, Vec::new(), "a charge and its splits differ");
        }
        for split in &book.splits {
            assert_eq!(trace(charges, split).await, Ok(None), "a split came from nowhere");
        }
    }
    assert_books_can_be_sealed(harness).await;
}

/// Everything of every integrator, in an order that does not depend on the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot(Vec<(IntegratorId, Book, Vec<StoredFinding>)>);

/// Everything of every integrator as it is now.
pub async fn snapshot(stores: &StoreSet) -> Snapshot {
    let mut all = Vec::new();
    for integrator in stores.integrators.list().await.expect("the integrators") {
        let mut book = stores.books.book(integrator.id).await.expect("a book");
        book.charges.sort_by_key(|charge| charge.id);
        book.withdrawals.sort_by_key(|withdrawal| withdrawal.id);
        book.refunds.sort_by_key(|refund| refund.id);
        book.splits.sort_by_key(|split| split.id);
        book.receipts.sort_by_key(|receipt| receipt.payment.key.to_text());
        let findings = stores.books.findings(integrator.id).await.expect("findings");
        all.push((integrator.id, book, findings));
    }
    Snapshot(all)
}

/// Expands to one `#[test]` for every promise of a store.
///
/// Takes an expression, of names of the module it stands in, that makes a future of a
/// [`StoreHarness`](crate::StoreHarness); it is evaluated in every test, so that each has a store of its own.
#[macro_export]
macro_rules! store_suite {
    ($harness:expr) => {
        $crate::store_cases! { $harness;
            guards {
                a_stale_version_writes_nothing,
                a_version_that_was_never_reached_writes_nothing,
                a_duplicate_id_writes_nothing,
                the_same_transition_twice_writes_once,
                a_duplicate_external_id_writes_nothing,
                a_name_twice_in_one_transition_writes_nothing,
                a_record_twice_in_one_transition_writes_nothing,
                external_ids_that_only_look_alike_are_different,
                a_duplicate_idempotency_key_writes_nothing,
                a_refused_transition_takes_no_idempotency_key,
                a_duplicate_receipt_writes_nothing,
                a_receipt_without_end_to_end_id_is_unique_too,
                too_little_available_writes_nothing,
                too_little_held_writes_nothing,
                a_balance_below_zero_between_two_postings_writes_nothing,
                a_stale_second_write_undoes_the_first,
                a_duplicate_is_told_before_missing_funds,
                a_stale_record_is_told_before_missing_funds,
                a_transition_of_two_integrators_is_rejected,
                a_version_out_of_turn_is_rejected,
                a_refused_write_leaves_the_follow_up_as_it_was,
                many_transitions_are_applied_each_on_its_own,
            }
            money {
                a_wallet_without_movements_is_empty,
                entries_have_no_gaps_and_carry_the_balances_after,
                entries_are_read_in_pieces,
                an_entry_is_kept_exactly,
                money_is_conserved,
                the_largest_amounts_are_exact,
                a_finding_is_kept_once,
                a_book_is_one_view_while_others_write,
            }
            statements {
                entries_are_read_by_what_is_asked_for,
                a_statement_neither_skips_nor_repeats,
                a_statement_of_a_time_is_whole,
            }
            tenancy {
                a_foreign_integrator_finds_nothing,
                names_keys_and_receipts_are_each_integrators_own,
                a_record_of_another_can_not_be_written,
                a_reference_leads_to_its_owner,
            }
            races {
                withdrawals_never_take_more_than_there_is,
                holds_never_take_more_than_there_is,
                refunds_never_sum_above_what_was_paid,
                one_of_many_decisions_on_one_version_is_applied,
                requests_with_one_external_id_make_one_withdrawal,
                requests_with_one_idempotency_key_make_one_withdrawal,
                requests_with_one_external_id_make_one_charge,
                requests_with_one_external_id_make_one_refund,
                one_payment_told_many_times_is_credited_once,
                one_receipt_is_credited_once,
                many_payments_of_one_charge_are_all_credited,
                many_payments_told_at_once_are_each_credited_once,
                what_waits_is_sent_by_one_of_many_workers,
                a_storm_leaves_the_books_right,
                who_decides_again_gets_through,
            }
            idempotency {
                the_same_request_again_is_the_same_record,
                names_that_only_look_alike_are_two_names,
                a_replay_is_the_record_as_it_is_now,
                another_body_under_the_same_handle_is_refused,
                a_refusal_for_lack_of_money_burns_nothing,
                a_definite_failure_sticks_to_its_handle,
                a_refused_charge_sticks_to_its_handle,
                a_charge_without_answer_is_made_when_asked_for_again,
                requests_without_a_handle_are_each_their_own,
                a_slower_request_is_told_of_the_quicker_refund,
                a_twin_refund_without_a_handle_is_refused,
            }
            uncertain {
                a_lost_answer_is_settled_when_the_provider_is_asked,
                not_known_is_no_proof_before_the_horizon,
                not_known_is_no_proof_the_first_time,
                a_clock_that_was_set_proves_nothing,
                by_a_clock_that_is_not_right_nothing_is_sent,
                by_a_clock_that_is_not_right_nothing_ends,
                what_is_dated_ahead_keeps_nothing_held,
                what_stays_unknown_is_held_for_an_operator,
                a_failing_question_proves_nothing,
                what_was_not_sent_is_sent_once_by_the_worker,
                what_was_not_sent_may_be_told_late,
                what_waits_too_long_is_given_up,
                a_record_left_while_sending_is_asked_about_and_not_sent,
                an_accepted_withdrawal_that_fails_is_released_once,
                a_contradicting_report_makes_one_finding_and_changes_nothing,
                what_comes_back_is_credited_once,
                a_refund_without_answer_holds_until_there_is_evidence,
                a_late_payment_is_credited,
                a_running_operation_keeps_its_fee,
                a_worker_that_was_overtaken_does_no_harm,
            }
            lists {
                a_list_has_as_many_rows_as_asked_for,
                a_cursor_needs_no_row_of_its_own,
                the_way_back_shows_the_same_rows,
                a_walk_neither_skips_nor_repeats_while_others_insert,
                filters_take_away_what_they_say,
                withdrawals_are_listed_alike,
                records_are_listed_by_what_is_attached_to_them,
                refunds_of_a_charge_are_listed_oldest_first,
                a_change_keeps_a_row_in_its_place,
            }
            pix_ids {
                a_charge_is_found_by_every_payment_on_it,
                outgoing_movements_are_found_by_both_ids,
                our_own_id_will_do_and_an_unknown_one_will_not,
            }
            follow_ups {
                the_most_overdue_are_claimed_first,
                a_claim_is_a_lease,
                two_workers_never_claim_the_same,
                to_postpone_keeps_the_count,
                who_was_overtaken_postpones_nothing,
                open_movements_are_counted,
                a_change_begins_the_count_anew,
                a_finding_leaves_the_follow_up_alone,
            }
            fees {
                all_is_free_until_fees_are_set,
                every_version_stays,
                fees_of_an_unknown_integrator_are_rejected,
                fees_come_back_exactly,
                versions_set_at_once_are_all_kept,
            }
            limits {
                nothing_is_limited_until_limits_are_set,
                limits_come_back_and_old_ones_change_nothing,
                what_counts_is_what_may_have_gone,
                what_counts_for_a_payee_is_what_went_to_that_key,
                one_handle_is_one_withdrawal_also_where_a_limit_has_room_for_one,
                a_crowd_within_a_limit_is_let_through,
                what_counts_is_forgotten_with_its_window,
                no_limit_is_passed_by_any_crowd,
                a_limit_is_given_back_by_a_definite_failure_only,
                a_quote_takes_nothing_of_a_limit,
                who_found_another_newest_one_has_to_look_again,
            }
            credentials {
                integrators_are_kept_and_listed,
                a_taken_integrator_id_is_rejected,
                a_status_changes_there_and_back,
                keys_are_kept_and_listed,
                a_taken_or_ownerless_key_is_rejected,
                a_key_is_revoked_once,
                a_key_is_changed_in_what_is_named,
                secrets_of_a_key_are_replaced_by_who_knows_them,
                the_last_use_of_a_key_is_kept,
            }
            round_trips {
                charges_come_back_exactly,
                a_changed_charge_comes_back_exactly,
                withdrawals_come_back_exactly,
                a_changed_withdrawal_comes_back_exactly,
                refunds_come_back_exactly,
                a_changed_refund_comes_back_exactly,
                the_longest_texts_come_back_exactly,
            }
            durability {
                everything_is_there_after_reopening,
                work_goes_on_after_reopening,
            }
            evidence {
                the_story_of_a_withdrawal_is_kept_in_order,
                the_story_of_a_refund_is_kept_in_order,
                a_repeated_answer_is_kept_once_in_a_while,
                evidence_is_kept_once_and_with_its_transition,
            }
            twins {
                a_twin_without_a_handle_is_refused_and_named,
                a_quote_names_the_twin,
                a_handle_or_another_amount_tells_twins_apart,
                a_failed_twin_is_none,
                a_twin_on_purpose_passes_and_says_so,
                a_twin_refund_is_refused_just_after_the_first,
                of_many_twins_at_once_one_is_sent,
                a_crowd_to_one_payee_is_let_through,
                an_uncertain_twin_is_not_hidden_by_a_later_one,
                an_uncertain_twin_is_not_hidden_by_any_number_of_later_ones,
                a_twins_key_is_taken_as_expected,
            }
            debts {
                a_forced_return_is_taken_once,
                what_the_wallet_lacks_is_owed_and_repaid_first,
                releases_and_returns_repay,
                a_late_settlement_is_taken_once,
                money_never_stands_beside_a_debt,
                what_comes_in_together_is_booked_each_on_its_own,
                payments_that_come_together_are_booked_each_on_its_own,
                forced_returns_race_with_everything,
                a_refund_in_progress_hides_nothing_for_good,
                a_refund_that_went_back_after_all_is_taken_from_its_charge,
            }
            splits {
                a_payment_gives_every_recipient_its_share,
                a_charge_comes_back_with_its_shares,
                odd_centavos_are_the_owners,
                a_further_payment_is_shared_again,
                refunds_take_shares_back_by_their_sum,
                what_a_recipient_has_spent_is_the_owners_loss,
        refunds_are_paid_by_those_who_have_money,
                what_the_provider_takes_back_takes_shares_back,
                an_owner_who_owes_gives_what_was_promised_before,
                a_refused_part_undoes_the_whole,
                a_part_without_its_money_undoes_the_whole,
                parts_of_another_shape_are_rejected,
                many_with_and_without_parts_are_applied_in_order,
                owners_pay_each_other_at_once,
                taking_back_races_with_spending,
                one_payment_told_many_times_is_shared_once,
                a_split_is_its_recipients_alone,
                splits_are_listed_newest_first,
                recipients_are_told_in_order,
                splits_are_told_where_their_recipient_wants_it,
                the_place_for_splits_is_kept,
                a_split_that_can_not_be_paid_burns_nothing,
                another_split_under_the_same_handle_is_refused,
            }
            callbacks {
                a_callback_leads_to_a_question_and_not_to_money,
                a_repeated_callback_waits_once,
                a_callback_outlives_whoever_took_it_up,
                an_early_callback_is_looked_at_again,
                what_leads_nowhere_is_given_up,
                a_callback_is_evidence_of_itself,
                an_answer_older_than_its_callback_is_asked_for_again,
                two_workers_never_take_up_the_same,
                a_callback_after_the_end_is_credited,
            }
            decisions {
                two_operators_decide,
                nothing_is_decided_by_a_clock_that_is_not_right,
                evidence_goes_before_opinion,
                what_was_taken_or_is_on_its_way_is_not_decided,
                what_the_provider_has_forgotten_for_a_day_is_decided,
                who_disagrees_confirms_nothing,
                who_has_not_seen_a_proposal_confirms_none,
                a_reason_that_could_look_like_another_line_is_refused,
                a_confirmed_decision_is_finished,
                a_decision_holds_for_its_sending_only,
                what_the_provider_takes_meanwhile_is_not_called_failed,
                a_refund_is_decided_with_its_charge,
                a_wrong_decision_is_paid_for,
                the_journal_is_a_chain,
                many_write_the_journal_at_once,
            }
            seals {
                a_book_is_sealed_as_it_goes_on,
                what_waits_is_read_in_pieces,
                a_seal_out_of_turn_is_not_kept,
                wallets_are_listed_with_their_newest_seals,
                many_seal_at_once_and_one_chain_comes_of_it,
                sealing_is_right_while_others_write,
                a_difference_is_kept_once_an_integrator,
                a_chain_goes_on_after_reopening,
            }
            people {
                what_is_locked_reads_as_it_was,
                what_goes_on_is_not_locked,
                what_is_locked_can_change,
                locking_and_changing_at_once_loses_nothing,
                erasing_and_changing_at_once_ends_with_nobody_named,
                an_erased_person_is_gone,
                limits_know_who_is_locked,
                twins_of_the_erased_are_forgotten,
                a_double_is_told_whoever_is_erased,
                nobody_is_found_nowhere,
            }
            postbacks {
                what_happened_is_numbered_and_what_was_answered_is_not,
                an_event_shows_its_record_as_it_was,
                what_is_refused_tells_nothing,
                outcomes_go_everywhere_and_the_rest_where_it_is_wanted,
                the_feed_is_read_in_pieces,
                a_reader_of_the_feed_misses_nothing_while_many_write,
                a_delivery_is_one_workers_for_a_lease,
                a_later_event_waits_for_the_earlier_one,
                a_long_lane_is_in_nobodys_way,
                many_workers_share_what_is_due,
                what_has_ended_is_asked_for_again,
                old_deliveries_are_forgotten,
                an_endpoint_is_known_while_it_fails,
                secrets_have_numbers_and_dates,
                the_scope_of_an_integrator_is_kept,
            }
            scripts {
                the_script_of_seed_1_observes_what_it_must,
                the_script_of_seed_2_observes_what_it_must,
            }
        }
    };
}

/// The expansion of [`store_suite!`]; nobody else's business.
#[doc(hidden)]
#[macro_export]
macro_rules! store_cases {
    ($harness:expr; $($group:ident { $($case:ident,)* })*) => {$(
        mod $group {
            // What the expression names.
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::run(async {
                        let mut harness = $harness.await;
                        $crate::cases::$group::$case(&mut harness).await;
                        $crate::assert_books_are_right(&harness).await;
                    });
                }
            )*
        }
    )*};
}
