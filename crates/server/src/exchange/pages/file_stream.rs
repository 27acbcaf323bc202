//! The bytes of a file as a stream. A helper thread reads what the kernel does not have in memory.

use std::io;

use crate::disk::Work;
use crate::files::beneath::Wait;
use crate::files::open;
use crate::response::{BodyStream, FilePart, NextChunk};
use crate::services::Services;

/// Bytes that are read at once.
const CHUNK: u64 = 64 * 1024;

pub struct FileStream(FilePart);

impl FileStream {
    pub fn new(part: FilePart) -> FileStream {
        FileStream(part)
    }

    /// Errors: the file cannot be read, or has changed.
    async fn next_chunk(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        let FilePart { file, at, left } = &mut self.0;
        if *left == 0 {
            return Ok(None);
        }
        let (fd, from, length) = (file.fd.clone(), *at, (*left).min(CHUNK));
        let end = from + length;
        let read = match file.bytes_in_memory(from, end, services.clock.now()) == length {
            true => open::read(&fd, from, length as usize, Wait::Never).ok(),
            false => None,
        };
        let read = match read {
            Some(read) => read,
            None => {
                let work = move || open::read(&fd, from, length as usize, Wait::Allowed);
                let read = services.disk.run(file.stamp.device, Work::File, work).await;
                let read = read.map_err(|_| io::Error::other("the disk is too slow"))?;
                read.map_err(|_| io::Error::other("the file cannot be read"))?
            }
        };
        (*at, *left) = (end, *left - length);
        match read {
            Some(bytes) if *left > 0 || file.is_unchanged() => Ok(Some(bytes)),
            Some(_) | None => Err(io::Error::other("the file has changed")),
        }
    }
}

impl BodyStream for FileStream {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_chunk(services))
    }
}
