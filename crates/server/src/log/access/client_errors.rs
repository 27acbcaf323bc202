//! The lines of the error log about requests that got a status from 400 to 499.

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;

use site::client_errors;
use site::host::Hosts;
use site::log_line::{self, Line, TimeText};
use site::model::{ErrorFormat, Level, LoggedHost, Site};
use tokio::sync::Notify;

use super::{Buffer, LoggedRequest};
use crate::log::{ERRORS, LOGS, is_written};

pub(super) struct ClientErrors {
    hosts: Hosts,
    format: ErrorFormat,
    pub(super) host: LoggedHost,
    pub(super) lines: RefCell<(Buffer, TimeText)>,
}

impl ClientErrors {
    /// `None`: the error log has no line of them.
    pub(super) fn of(site: &Site) -> Option<ClientErrors> {
        let host = site.log.client_errors?;
        let time = TimeText::new(0, site.log.errors.zone.clone());
        // Without a log thread, nothing writes the lines.
        LOGS.get()?;
        Some(ClientErrors {
            hosts: site.hosts.clone(),
            format: site.log.errors.format,
            host,
            lines: RefCell::new((Buffer::of(ERRORS), time)),
        })
    }

    /// What the request was for. Empty: no file.
    #[cold]
    #[inline(never)]
    pub(super) fn file(&self, request: &LoggedRequest<'_>) -> Box<[u8]> {
        let file = |head| client_errors::file(&self.hosts, request.host, head, request.server());
        let file = request.head.and_then(file);
        file.map_or_else(Default::default, |file| file.as_os_str().as_bytes().into())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn write(&self, line: &Line<'_>, file: &[u8], begun: &Notify) {
        if !is_written(Level::Warn) {
            return;
        }
        let (buffer, time) = &mut *self.lines.borrow_mut();
        buffer.add(begun, |bytes| {
            let file = Some(file).filter(|file| !file.is_empty());
            log_line::client_error(self.format, self.host, line, file, time, bytes);
            1
        });
    }
}
