use super::*;

fn at(day: i64, hour: i64, minute: i64) -> Timestamp {
    // In local time, from 2026-11-01 (day 1).
    const FIRST_UTC: i64 = 1_793_502_000_000_000;
    Timestamp::from_micros(
        FIRST_UTC + (day - 1) * MICROS_PER_DAY + hour * MICROS_PER_HOUR + minute * 60_000_000,
    )
}

#[expect(clippy::unnecessary_wraps, reason = "as a limit is set")]
fn reais(kind: LimitKind, reais: i64) -> Option<Most> {
    Some(Most::new(kind, reais * 100).unwrap())
}

const DAY: LimitKind = LimitKind::PerDay;

#[test]
fn days_and_nights_are_those_of_brasilia() {
    let noon = Windows::at(at(3, 12, 0));
    assert_eq!((noon.day, noon.night, noon.late_night), (at(3, 0, 0), None, None));
    assert_eq!(noon.hour, at(3, 11, 0));
    let evening = Windows::at(at(3, 20, 0));
    assert_eq!((evening.day, evening.night, evening.late_night), (at(3, 0, 0), Some(at(3, 20, 0)), None));
    let late = Windows::at(at(3, 23, 59));
    assert_eq!((late.night, late.late_night), (Some(at(3, 20, 0)), Some(at(3, 22, 0))));
    // After midnight it is another day, and still the same night.
    let small_hours = Windows::at(at(4, 5, 59));
    assert_eq!(small_hours.day, at(4, 0, 0));
    assert_eq!((small_hours.night, small_hours.late_night), (Some(at(3, 20, 0)), Some(at(3, 22, 0))));
    assert_eq!(small_hours.from, at(3, 20, 0));
    assert_eq!(Windows::at(at(4, 6, 0)).night, None);
    assert_eq!(Windows::at(at(4, 0, 30)).from, at(3, 20, 0));
    assert_eq!(noon.from, at(3, 0, 0));
    let policy = |kind| LimitPolicy::off().set(kind, Some(Most::new(kind, 1).unwrap()), noon.now);
    let narrow = |windows: Windows, kind| windows.narrowed_to(&policy(kind)).from;
    assert_eq!(narrow(small_hours, LimitKind::PerHour), at(4, 4, 59));
    assert_eq!(narrow(small_hours, LimitKind::PerDay), at(4, 0, 0));
    assert_eq!(narrow(small_hours, LimitKind::LateAtNight), at(3, 22, 0));
    assert_eq!(narrow(noon, LimitKind::AtNight), noon.now, "nothing counts by day");
}

#[test]
fn what_is_used_is_forgotten_at_midnight_or_at_six() {
    let night = Windows::at(at(3, 23, 0));
    assert_eq!(night.ends(LimitKind::PerDay), Some(at(4, 0, 0)));
    assert_eq!(night.ends(LimitKind::AtNight), Some(at(4, 6, 0)));
    assert_eq!(night.ends(LimitKind::LateAtNight), Some(at(4, 6, 0)));
    assert_eq!(Windows::at(at(4, 3, 0)).ends(LimitKind::AtNight), Some(at(4, 6, 0)));
    assert_eq!(night.ends(LimitKind::PerHour), None);
}

#[test]
fn lowering_holds_at_once_and_raising_after_a_day() {
    let (now, later) = (at(3, 12, 0), at(4, 12, 0));
    let none = Limit::default();
    let first = none.set(reais(DAY, 500), now);
    assert_eq!((first.at(now), first.then), (reais(DAY, 500), None), "from no limit to one is lowering");
    let lower = first.set(reais(DAY, 300), now);
    assert_eq!((lower.at(now), lower.then), (reais(DAY, 300), None));
    let higher = lower.set(reais(DAY, 900), now);
    assert_eq!(higher.at(now), reais(DAY, 300));
    assert_eq!(higher.at(Timestamp::from_micros(later.micros() - 1)), reais(DAY, 300));
    assert_eq!(higher.at(later), reais(DAY, 900));
    let off = lower.set(None, now);
    assert_eq!((off.at(now), off.at(later)), (reais(DAY, 300), None), "no limit is a raise");
    let nothing = none.set(Some(Most::new(DAY, 0).unwrap()), now);
    assert_eq!(nothing.at(now), Some(Most(0)), "nothing at all is the strictest limit");
}

#[test]
fn a_raise_that_waits_keeps_its_place_and_another_one_takes_it() {
    let (now, soon) = (at(3, 12, 0), at(3, 18, 0));
    let waiting = Limit::default().set(reais(DAY, 100), now).set(reais(DAY, 900), now);
    assert_eq!(waiting.set(reais(DAY, 900), soon), waiting, "the same wish again waits no longer");
    let other = waiting.set(reais(DAY, 800), soon);
    assert_eq!(other.then, Some(Raise { to: reais(DAY, 800), at: at(4, 18, 0) }));
    let lowered = waiting.set(reais(DAY, 50), soon);
    assert_eq!(lowered, Limit { most: reais(DAY, 50), then: None }, "lowering ends a raise that waits");
    let same = waiting.set(reais(DAY, 100), soon);
    assert_eq!(same.then, None, "so does setting what holds");
    // Once it holds, it is what the next change is measured by.
    let next_day = at(5, 0, 0);
    assert_eq!(waiting.set(reais(DAY, 500), next_day), Limit { most: reais(DAY, 500), then: None });
}

#[test]
fn a_policy_is_off_until_a_limit_holds_and_once_the_last_one_ended() {
    let now = at(3, 12, 0);
    let counts = |policy: &LimitPolicy, at| policy.counts_others(&Windows::at(at));
    assert!(!counts(&LimitPolicy::off(), now));
    let on = LimitPolicy::off().set(DAY, reais(DAY, 10), now);
    assert!(counts(&on, now));
    let ending = on.set(DAY, None, now);
    assert!(counts(&ending, now));
    assert!(!counts(&ending, now.plus(RAISE_AFTER)));
    let only = |kind| LimitPolicy::off().set(kind, Some(Most::new(kind, 5).unwrap()), now);
    assert!(!counts(&only(LimitKind::PerTransaction), now), "others don't count against it");
    assert!(!counts(&only(LimitKind::AtNight), now), "nor does anything by day");
    assert!(counts(&only(LimitKind::AtNight), at(3, 23, 0)) && counts(&only(LimitKind::NewPayee), now));
    assert_eq!(
        LimitPolicy::new(3, [(DAY, Limit::default())]),
        LimitPolicy { version: 3, ..LimitPolicy::off() }
    );
}

#[test]
fn each_limit_is_passed_by_the_first_centavo_or_payment_above_it() {
    let by_day = Windows::at(at(3, 12, 0));
    let night = Windows::at(at(3, 23, 0));
    let sent = Sent { day: 9_000, night: 4_000, late_night: 1_000, hour: 3 };
    let to = SentTo { day: 2_000, lately: 500, is_known: false };
    let check = |kind, most, windows: &Windows, to, cents| {
        let policy = LimitPolicy::off().set(kind, Some(Most::new(kind, most).unwrap()), windows.now);
        let standings = standings(&policy, windows, sent, Some(to));
        passed(&standings, Amount::from_cents(cents).unwrap()).map(|standing| standing.kind)
    };
    for (kind, most, windows, cents) in [
        (LimitKind::PerTransaction, 700, &by_day, 700),
        (LimitKind::PerDay, 9_700, &by_day, 700),
        (LimitKind::AtNight, 4_700, &night, 700),
        (LimitKind::LateAtNight, 1_700, &night, 700),
        (LimitKind::PerPayee, 2_700, &by_day, 700),
        (LimitKind::NewPayee, 1_200, &by_day, 700),
    ] {
        assert_eq!(check(kind, most, windows, to, cents), None, "{kind:?}");
        assert_eq!(check(kind, most, windows, to, cents + 1), Some(kind), "{kind:?}");
        assert_eq!(check(kind, 0, windows, to, 1), Some(kind), "{kind:?}");
    }
    assert_eq!(check(LimitKind::PerHour, 4, &by_day, to, 700), None);
    assert_eq!(check(LimitKind::PerHour, 3, &by_day, to, 1), Some(LimitKind::PerHour));
    assert_eq!(check(LimitKind::AtNight, 0, &by_day, to, 700), None, "by day the night is not limited");
    let evening = Windows::at(at(3, 21, 0));
    assert_eq!(check(LimitKind::LateAtNight, 0, &evening, to, 700), None);
    let known = SentTo { is_known: true, ..to };
    assert_eq!(check(LimitKind::NewPayee, 0, &by_day, known, 700), None, "a known payee is not new");
}

#[test]
fn a_refusal_says_which_limit_and_what_is_left_of_it() {
    let now = at(3, 12, 0);
    let windows = Windows::at(now);
    let policy = LimitPolicy::off().set(DAY, reais(DAY, 1_000), now).set(
        LimitKind::PerHour,
        Some(Most::new(LimitKind::PerHour, 2).unwrap()),
        now,
    );
    let standings = standings(&policy, &windows, Sent { day: 95_000, hour: 2, ..Sent::default() }, None);
    let told: Vec<_> = standings.iter().map(Standing::refusal).collect();
    assert_eq!(
        told,
        [
            "this would pass the limit per_day: 50.00 is left of 1000.00",
            "this would pass the limit per_hour: 0 is left of 2",
        ]
    );
}

#[test]
fn limits_have_bounds_and_names() {
    for kind in LimitKind::ALL {
        assert_eq!(LimitKind::from_name(kind.as_str()), Some(kind));
        assert!(Most::new(kind, -1).is_err() && Most::new(kind, kind.highest() + 1).is_err());
        assert_eq!(Most::new(kind, kind.highest()).map(Most::get), Ok(kind.highest()));
    }
    assert_eq!(LimitKind::from_name("per_year"), None);
}
