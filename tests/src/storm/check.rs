//! What must hold after a storm, judged by the receiver's own notes and the rows of the database. It must never know how
//! the program goes about it.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context;
use uuid::Uuid;

use super::receiver::Arrival;

/// How many problems of a kind are told one by one.
const MAX_TOLD: usize = 10;

/// The rows of one delivery.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The integrator.
    pub integrator: Uuid,
    /// The record.
    pub resource: Uuid,
    /// Its version after the event.
    pub sequence: u64,
    /// Where it stands.
    pub state: String,
}

impl Delivery {
    /// The query of all of them, in the order in which they must arrive.
    pub const QUERY: &str = "SELECT integrator_id, resource_id, sequence, state FROM deliveries \
                             ORDER BY integrator_id, resource_kind, resource_id, sequence";

    /// A line of the answer.
    pub fn parse(line: &str) -> anyhow::Result<Self> {
        let mut parts = line.split('|');
        let mut part = || parts.next().with_context(|| format!("{line} is no delivery"));
        Ok(Self {
            integrator: part()?.parse()?,
            resource: part()?.parse()?,
            sequence: part()?.parse()?,
            state: part()?.to_owned(),
        })
    }
}

/// What arrived how often.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Arrivals.
    pub arrivals: u64,
    /// Of these, of events that had been answered 2xx before.
    pub repeats: u64,
    /// Of these repeats, those that came when a later event of the record had arrived already.
    pub repeats_behind: u64,
    /// Arrivals of events that had come before and had not been answered 2xx.
    pub retries: u64,
}

/// Collects problems of one kind, so that a thousand of them are no thousand lines.
struct Problems<'a> {
    all: &'a mut Vec<String>,
    count: usize,
}

impl<'a> Problems<'a> {
    fn of(all: &'a mut Vec<String>) -> Self {
        Self { all, count: 0 }
    }

    fn add(&mut self, problem: impl FnOnce() -> String) {
        self.count += 1;
        if self.count <= MAX_TOLD {
            self.all.push(problem());
        }
    }

    fn end(self, what: &str) {
        if self.count > MAX_TOLD {
            self.all.push(format!("{} {what} in all", self.count));
        }
    }
}

/// What a receiver has of one record.
#[derive(Default)]
struct Record {
    /// Its events, in order.
    sequences: Vec<u64>,
    /// How many of these, from the first on, were answered 2xx.
    done: usize,
    /// One past the furthest that has arrived.
    reached: usize,
    /// How often each has arrived.
    arrivals: HashMap<u64, u32>,
}

enum Happened<'a> {
    Arrived(&'a Arrival),
    Answered(&'a Arrival),
}

/// That per record no event arrives before all earlier ones have been answered 2xx, and that all are in the end.
pub fn order(deliveries: &[Delivery], arrivals: &[Arrival], problems: &mut Vec<String>) -> Counts {
    let mut records: HashMap<Uuid, Record> = HashMap::new();
    for delivery in deliveries {
        records.entry(delivery.resource).or_default().sequences.push(delivery.sequence);
    }
    let mut happened: Vec<(u64, Happened)> = Vec::new();
    for arrival in arrivals {
        happened.push((arrival.arrived, Happened::Arrived(arrival)));
        happened.extend(arrival.answered.map(|tick| (tick, Happened::Answered(arrival))));
    }
    happened.sort_unstable_by_key(|(tick, _)| *tick);
    let mut counts = Counts::default();
    let mut wrong = Problems::of(problems);
    for (_, what) in happened {
        let (Happened::Arrived(arrival) | Happened::Answered(arrival)) = &what;
        let record = records.entry(arrival.resource).or_default();
        let Ok(place) = record.sequences.binary_search(&arrival.sequence) else {
            wrong.add(|| format!("{} arrived and has no delivery", arrival.event_id));
            continue;
        };
        if matches!(what, Happened::Answered(_)) {
            if place == record.done {
                record.done += 1;
            }
            continue;
        }
        counts.arrivals += 1;
        let before = record.arrivals.entry(arrival.sequence).or_default();
        *before += 1;
        if place < record.done {
            counts.repeats += 1;
            counts.repeats_behind += u64::from(record.reached > place + 1);
        } else if *before > 1 {
            counts.retries += 1;
        }
        if place > record.done {
            let missed = record.sequences.get(record.done).copied().unwrap_or_default();
            let id = &arrival.event_id;
            wrong.add(|| format!("{id} arrived before sequence {missed} of its record was answered 2xx"));
        }
        record.reached = record.reached.max(place + 1);
    }
    wrong.end("arrivals out of order");
    let mut missing = Problems::of(problems);
    for (resource, record) in &records {
        if record.done < record.sequences.len() {
            let sequence = record.sequences.get(record.done).copied().unwrap_or_default();
            missing.add(|| format!("sequence {sequence} of {resource} was never answered 2xx"));
        }
    }
    missing.end("records not wholly delivered");
    counts
}

/// That there are as many deliveries as were made, and that each is delivered.
pub fn delivered(deliveries: &[Delivery], made: &BTreeMap<Uuid, u64>, problems: &mut Vec<String>) {
    let mut counts: BTreeMap<Uuid, u64> = BTreeMap::new();
    let mut wrong = Problems::of(problems);
    for delivery in deliveries {
        *counts.entry(delivery.integrator).or_default() += 1;
        if delivery.state != "delivered" {
            let Delivery { resource, sequence, state, .. } = delivery;
            wrong.add(|| format!("sequence {sequence} of {resource} is {state}, not delivered"));
        }
    }
    for (integrator, count) in made {
        let found = counts.get(integrator).copied().unwrap_or_default();
        if found != *count {
            wrong.add(|| format!("{integrator} has {found} deliveries and must have {count}"));
        }
    }
    wrong.end("deliveries not as they must be");
}

/// The query of feeds: each integrator's least number, largest, how many there are, and how many different ones.
pub const FEEDS_QUERY: &str = "SELECT integrator_id, min(number), max(number), count(number), count(DISTINCT number) \
                               FROM events WHERE number IS NOT NULL GROUP BY integrator_id";

/// That the feed of each of `integrators` has the numbers from 1 on, without gaps; how many events there are in all.
pub fn feeds(lines: &str, integrators: usize, problems: &mut Vec<String>) -> anyhow::Result<u64> {
    let (mut total, mut seen) = (0, 0);
    for line in lines.lines() {
        let (integrator, numbers) = line.split_once('|').context("no feed")?;
        let numbers = numbers.split('|').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [1, last, count, different] = numbers[..] else {
            problems.push(format!("the feed of {integrator} does not begin with 1: {line}"));
            continue;
        };
        if last != count || last != different {
            problems.push(format!("the feed of {integrator} has gaps: {line}"));
        }
        total += count;
        seen += 1;
    }
    if seen != integrators {
        problems.push(format!("{seen} feeds and {integrators} integrators"));
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::storm::receiver::Fate;

    const RECORD: Uuid = Uuid::from_u128(7);

    fn deliveries(sequences: &[u64]) -> Vec<Delivery> {
        let one = |sequence: &u64| Delivery {
            integrator: Uuid::nil(),
            resource: RECORD,
            sequence: *sequence,
            state: "delivered".to_owned(),
        };
        sequences.iter().map(one).collect()
    }

    fn judge(sequences: &[u64], arrivals: &[(u64, u64, Option<u64>)]) -> (Counts, Vec<String>) {
        let one = |(sequence, arrived, answered): &(u64, u64, Option<u64>)| Arrival {
            resource: RECORD,
            sequence: *sequence,
            event_id: format!("evt_{sequence}"),
            fate: Fate::Taken,
            arrived: *arrived,
            answered: *answered,
            at: Instant::now(),
        };
        let arrivals: Vec<Arrival> = arrivals.iter().map(one).collect();
        let mut problems = Vec::new();
        (order(&deliveries(sequences), &arrivals, &mut problems), problems)
    }

    #[test]
    fn retries_and_repeats_in_order_are_in_order() {
        let arrivals =
            [(1, 1, None), (1, 2, Some(3)), (4, 4, None), (4, 5, Some(6)), (1, 7, Some(8)), (4, 9, Some(10))];
        let (counts, problems) = judge(&[1, 4], &arrivals);
        assert_eq!(problems, Vec::<String>::new());
        let Counts { arrivals, repeats, repeats_behind, retries } = counts;
        assert_eq!((arrivals, repeats, repeats_behind, retries), (6, 2, 1, 2));
    }

    #[test]
    fn an_event_that_arrives_before_the_one_before_it_was_answered_is_told() {
        for early in [
            &[(4, 1, Some(2)), (1, 3, Some(4)), (4, 5, Some(6))][..],
            &[(1, 1, None), (4, 2, Some(3)), (1, 4, Some(5)), (4, 6, Some(7))],
            &[(1, 1, Some(3)), (4, 2, Some(4)), (4, 5, Some(6))],
        ] {
            let (_, problems) = judge(&[1, 4], early);
            assert_eq!(
                problems,
                ["evt_4 arrived before sequence 1 of its record was answered 2xx"],
                "{early:?}"
            );
        }
    }

    #[test]
    fn what_never_arrives_or_never_was_is_told() {
        let (_, problems) = judge(&[1, 4], &[(1, 1, Some(2)), (5, 3, Some(4))]);
        let expected = [
            "evt_5 arrived and has no delivery".to_owned(),
            "evt_5 arrived and has no delivery".to_owned(),
            format!("sequence 4 of {RECORD} was never answered 2xx"),
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn deliveries_that_wait_or_are_missing_are_told() {
        let mut some = deliveries(&[1, 4]);
        some[1].state = "waiting".to_owned();
        let mut problems = Vec::new();
        delivered(&some, &BTreeMap::from([(Uuid::nil(), 3)]), &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn a_feed_with_a_gap_or_a_double_number_is_told() {
        let id = Uuid::nil();
        for (line, wrong) in [("1|3|3|3", 0), ("1|4|3|3", 1), ("1|3|4|3", 1), ("2|4|3|3", 2)] {
            let mut problems = Vec::new();
            feeds(&format!("{id}|{line}\n"), 1, &mut problems).unwrap();
            assert_eq!(problems.len(), wrong, "{line}: {problems:?}");
        }
    }
}
