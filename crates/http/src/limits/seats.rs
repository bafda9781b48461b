//! A bounded number of buckets for an unbounded number of clients.
//!
//! A bucket belongs to a seat, and there are only so many seats. When all are taken, a client without one gets that of a
//! client that has been idle, *with the bucket as it is*: so changing addresses faster than buckets fill up gains
//! nobody a full one. Who is idle is found as by a clock's hand (second chance): it passes over the seats one by one,
//! and takes the first that wasn't used since it passed there before.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::names::Name;

/// The seats of one kind of client.
pub(crate) struct Seats(Mutex<Table>);

struct Table {
    most: usize,
    of: HashMap<Name, u32>,
    seats: Vec<Seat>,
    hand: usize,
}

struct Seat {
    holder: Name,
    used: bool,
}

impl Seats {
    /// At most so many, and at least one.
    pub(crate) fn new(most: u32) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        Self(Mutex::new(Table { most, of: HashMap::new(), seats: Vec::new(), hand: 0 }))
    }

    /// The seat of `holder`; the next one that is free, if it has none.
    pub(crate) fn seat(&self, holder: Name) -> u32 {
        // Nothing in there can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seat(holder)
    }
}

impl Table {
    fn seat(&mut self, holder: Name) -> u32 {
        if let Some(number) = self.of.get(&holder).copied() {
            if let Some(seat) = self.seats.get_mut(index(number)) {
                seat.used = true;
            }
            return number;
        }
        let number = if self.seats.len() < self.most {
            self.seats.push(Seat { holder, used: false });
            self.seats.len() - 1
        } else {
            self.take_over(holder)
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.of.insert(holder, number);
        number
    }

    /// Goes on until an idle seat: once around at most, since it marks those that it passes.
    fn take_over(&mut self, holder: Name) -> usize {
        loop {
            let here = self.hand;
            self.hand = if here + 1 < self.seats.len() { here + 1 } else { 0 };
            let Some(seat) = self.seats.get_mut(here) else { return here };
            if !std::mem::take(&mut seat.used) {
                self.of.remove(&seat.holder);
                seat.holder = holder;
                return here;
            }
        }
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::names::Namer;
    use super::*;

    fn name(number: u32) -> Name {
        Namer::new("0123456789abcdef").unwrap().name("test", &number.to_be_bytes())
    }

    #[test]
    fn a_client_keeps_its_seat() {
        let seats = Seats::new(3);
        assert_eq!([1, 2, 3, 1, 2, 3].map(|client| seats.seat(name(client))), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn when_all_are_taken_an_idle_one_gives_way() {
        let seats = Seats::new(3);
        for client in [1, 2, 3] {
            seats.seat(name(client));
        }
        seats.seat(name(1));
        assert_eq!(seats.seat(name(4)), 1, "1 was used again, so 2 gives way");
        assert_eq!(seats.seat(name(1)), 0);
        assert_eq!(seats.seat(name(2)), 2, "3 gives way");
    }

    #[test]
    fn however_many_come_there_are_no_more_seats() {
        let seats = Seats::new(10);
        let busy = seats.seat(name(0));
        for client in 1..1_000 {
            assert!(seats.seat(name(client)) < 10);
            assert_eq!(seats.seat(name(0)), busy, "one that is busy keeps its own");
        }
        let table = seats.0.lock().unwrap();
        assert_eq!((table.of.len(), table.seats.len()), (10, 10));
    }
}
