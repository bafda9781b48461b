//! Runs what never waits.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The answer of a call to the reference store, which never waits.
///
/// # Panics
///
/// When it does wait.
pub fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the reference store never waits"),
    }
}
