//! Tasks without the types of their futures. The runtime has a few kilobytes of code for each type of future that is a
//! task. Here, futures are boxed, so that they have few types. A task that begins for each request is not started here,
//! because it would cost an allocation.

use std::pin::Pin;

use tokio::task::{JoinHandle, JoinSet};

/// A future of one thread, with what it returns as its only type.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// As `tokio::task::spawn_local`.
#[inline]
pub fn spawn_local<T: 'static>(future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    spawn_boxed(Box::pin(future))
}

#[inline(never)]
fn spawn_boxed<T: 'static>(future: LocalFuture<T>) -> JoinHandle<T> {
    tokio::task::spawn_local(future)
}

/// As `JoinSet::spawn_local`.
#[inline]
pub fn spawn_into<T: 'static>(tasks: &mut JoinSet<T>, future: impl Future<Output = T> + 'static) {
    let future: LocalFuture<T> = Box::pin(future);
    tasks.spawn_local(future);
}

/// As `tokio::spawn`, for a task whose result is dropped.
#[inline]
pub fn spawn<T: 'static>(future: impl Future<Output = T> + Send + 'static) {
    let future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move { _ = future.await });
    tokio::spawn(future);
}
