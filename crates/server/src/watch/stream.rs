//! A watcher's end of the control socket: the text of its events, as fast as it reads. It ends when the watcher does,
//! or when the process serves no more.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use site::model::Site;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::{Event, Watch, text};

/// How long it may take until a watcher learns how much was left out.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Runs until the watcher closes its end, or this process serves no more.
pub async fn run(to: StdUnixStream, watch: Arc<Watch>, events: Receiver<Event>, site: Site) {
    let Ok(stream) = open(to) else { return };
    let (mut from, to) = stream.into_split();
    tokio::select! {
        () = closed(&mut from) => {}
        () = watch.ended.notified() => {}
        _ = send(to, &watch, events, &site) => {}
    }
}

fn open(stream: StdUnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Returns when the watcher has closed its end. What it sends is ignored.
async fn closed(from: &mut OwnedReadHalf) {
    let mut ignored = [0; 64];
    loop {
        if from.readable().await.is_err() {
            return;
        }
        match from.try_read(&mut ignored) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}

async fn send(
    mut to: OwnedWriteHalf,
    watch: &Watch,
    mut events: Receiver<Event>,
    site: &Site,
) -> io::Result<()> {
    loop {
        let mut lines = match timeout(TELL_AFTER, events.recv()).await {
            Ok(Some(event)) => text::lines(&event, site),
            // Workers and this task have the sender.
            Ok(None) => return Ok(()),
            Err(_) => String::new(),
        };
        let left_out = watch.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            lines.push_str(&format!("# {left_out} requests or parts of them were left out\n"));
        }
        to.write_all(lines.as_bytes()).await?;
    }
}
