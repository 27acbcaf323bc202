//! Asking a script or an application: whether it may handler, how its request goes out with the body, and which
//! server is asked again.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{SeekFrom, fstat, major, minor, seek};
use script::environment::Additions;
use site::upstream::Upstream;
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;

use super::concurrency::ConcurrencyLimit;
use super::request::{Call, Handler, Repeats, UpstreamRequest};
use super::spool::{NoSpace, SpoolSpace, SpooledBody};
use super::transport::BodySource;
use super::{Input, Outcome, start, start_exchange};
use crate::buffer::append;
use crate::disk::Work;
use crate::log;
use crate::pool::{Pool, PoolError};
use crate::request::Request;
use crate::request::body::{Length, RequestBody};
use crate::services::Services;
use crate::spawner::Spawner;
use crate::stats::Count;

/// A spooled body is written when there is this much of it; the next read brings it to what an answer may have
/// at most, for which there is no need yet.
const SPOOL_CHUNK: usize = 32 * 1024;

/// What starts scripts, and what has connections to applications.
pub struct Upstreams {
    pub services: Rc<Services>,
    /// Which requests may have a script handler.
    pub concurrency: ConcurrencyLimit,
    /// `None`: the site has no scripts.
    pub spawner: Option<Rc<Spawner>>,
    /// Of the applications of the site, in their request.
    pub pools: Vec<Rc<Pool>>,
}

/// Has a script or an application answer `request`, with `variables` besides those of its route.
pub async fn forward(
    upstreams: &Upstreams,
    request: Request<'_>,
    handler: &Handler,
    variables: &Additions,
    body: RequestBody,
) -> Outcome {
    try_forward(upstreams, request, handler, variables, &body).await.unwrap_or_else(|failed| failed)
}

async fn try_forward(
    upstreams: &Upstreams,
    request: Request<'_>,
    handler: &Handler,
    variables: &Additions,
    body: &RequestBody,
) -> Result<Outcome, Outcome> {
    let services = &upstreams.services;
    let (spooled, length) = match body.length() {
        Length::Unknown => {
            let spooled = spool_body(upstreams, handler, body).await?;
            let length = spooled.length;
            (Some(spooled), Some(length))
        }
        Length::Sized(bytes) if bytes > handler.max_body => {
            return Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into());
        }
        Length::Sized(bytes) => (None, Some(bytes)),
        Length::None => (None, None),
    };
    let request = handler.request(services, request.head, request.ends, length, variables)?;
    let Call::Program(program) = &request.call else {
        return forward_to_application(upstreams, handler, &request, body, spooled).await;
    };
    let spawner = upstreams.spawner.as_ref().ok_or(Status::SERVICE_UNAVAILABLE)?;
    let permit =
        upstreams.concurrency.take(handler.route(services), handler.processes(services)).await.map_err(
            |_| {
                services.counts.add(Count::ScriptsRefused, 1);
                Status::SERVICE_UNAVAILABLE
            },
        )?;
    let input = match (spooled, length) {
        (Some(spooled), _) => Input::File(spooled),
        (None, Some(_)) => Input::Pipe,
        (None, None) => Input::Nothing,
    };
    let (exchange, writer) = start(services, spawner, &request, program, input, permit).await?;
    Ok(exchange.with_body(body, handler.max_body, writer).outcome(handler, request.wanted).await)
}

/// Asks an application, and another one of its servers if the first has not answered.
async fn forward_to_application(
    upstreams: &Upstreams,
    handler: &Handler,
    request: &UpstreamRequest,
    body: &RequestBody,
    spooled: Option<SpooledBody>,
) -> Result<Outcome, Outcome> {
    let services = &upstreams.services;
    let found = handler
        .application(services)
        .and_then(|id| Some((services.site.upstreams.get(id)?, upstreams.pools.get(id)?)));
    let (application, pool) = found.ok_or(Status::SERVICE_UNAVAILABLE)?;
    let spooled = spooled.map(Rc::new);
    let (mut failed, mut again, mut repeated_alone) = (None, true, false);
    loop {
        let way = pool.check_out(failed).await;
        let way = way.map_err(|refusal| refused(services, request, application, refusal))?;
        let content = match (&spooled, body.length()) {
            (Some(spooled), _) => BodySource::File(spooled.clone()),
            (None, Length::Sized(_)) => BodySource::Coming,
            (None, _) => BodySource::Nothing,
        };
        let (exchange, writer) = start_exchange(services, application, way, request, content);
        // What has been handed on cannot be handed on again.
        let repeats = writer.is_none() && request.repeats == Repeats::Yes && again;
        let outcome =
            exchange.with_body(body, handler.max_body, writer).outcome(handler, request.wanted).await;
        let UpstreamRequest { who, what, .. } = request;
        match outcome {
            Outcome::NoResponse(_, no_response) if repeats => {
                (failed, again) = (no_response.endpoint, no_response.kept);
                // That a kept connection is closed says little. The next one is new.
                if !no_response.kept {
                    let why = no_response.why;
                    log::warn(format_args!(
                        "{who}: {what} gave nothing on a new connection ({why}); asked again"
                    ));
                }
            }
            // The application has not looked at it: it may be made again, if all of it is still there.
            Outcome::CannotMultiplex(..) if (spooled.is_some() || body.is_whole()) && !repeated_alone => {
                repeated_alone = true
            }
            Outcome::NoResponse(status, no_response) | Outcome::CannotMultiplex(status, no_response) => {
                log::error(format_args!("{who}: {what} did not answer: {}", no_response.why));
                services.counts.add(Count::ScriptsFailed, 1);
                return Err(status.into());
            }
            outcome => return Ok(outcome),
        }
    }
}

fn refused(
    services: &Services,
    request: &UpstreamRequest,
    application: &Upstream,
    refusal: PoolError,
) -> Status {
    log::error(format_args!("{}: {application} cannot be asked: {}", request.who, refusal.why()));
    services.counts.add(Count::ScriptsRefused, 1);
    match refusal {
        PoolError::Unreachable => Status::BAD_GATEWAY,
        PoolError::QueueFull | PoolError::TimedOut | PoolError::Failing | PoolError::Lost => {
            Status::SERVICE_UNAVAILABLE
        }
    }
}

/// Collects a body whose length is not known in a file: a script is told how much it will read.
async fn spool_body(
    upstreams: &Upstreams,
    handler: &Handler,
    body: &RequestBody,
) -> Result<SpooledBody, Outcome> {
    let services = &upstreams.services;
    let spawner = upstreams.spawner.as_ref().ok_or(Status::LENGTH_REQUIRED)?;
    let folder = services.site.scripts.spool.display();
    let mut file = spawner.spool().await.map_err(|error| {
        log::error(format_args!("cannot make a file in {folder} for a chunked body: {error}"));
        Status::LENGTH_REQUIRED
    })?;
    let (mut room, limit) = (SpoolSpace::none(), services.site.scripts.spool_bytes);
    loop {
        let mut bytes = Vec::new();
        let mut is_through = false;
        while bytes.len() < SPOOL_CHUNK && !is_through {
            match body.read(handler.max_body).await? {
                Some(more) => append(&mut bytes, &more),
                None => is_through = true,
            }
        }
        match room.grow(bytes.len() as u64, limit) {
            Ok(()) => {}
            Err(NoSpace::TooLong) => return Err(Status::CONTENT_TOO_LARGE.into()),
            Err(NoSpace::Taken) => return Err(no_room(services, limit).into()),
        }
        file = spool(services, file, bytes).await?;
        if is_through {
            return Ok(SpooledBody::new(file, room));
        }
    }
}

fn no_room(services: &Services, limit: u64) -> Status {
    let folder = services.site.scripts.spool.display();
    log::error(format_args!(
        "a chunked body has no room in {folder}: others take the {limit} bytes that all may take together; raise \
         `spool_bytes` in [scripts], or lower `max_body`"
    ));
    services.counts.add(Count::ScriptsRefused, 1);
    Status::SERVICE_UNAVAILABLE
}

/// Writes on a helper thread, and goes back to the start of the file, from where a script reads.
async fn spool(services: &Services, file: OwnedFd, bytes: Vec<u8>) -> Result<OwnedFd, Status> {
    let device = fstat(&file).map_or((0, 0), |stat| (major(stat.st_dev), minor(stat.st_dev)));
    let write = move || {
        seek(&file, SeekFrom::End(0))?;
        let mut left = &bytes[..];
        while !left.is_empty() {
            let n = rustix::io::retry_on_intr(|| rustix::io::write(&file, left))?;
            left = &left[n..];
        }
        seek(&file, SeekFrom::Start(0))?;
        rustix::io::Result::Ok(file)
    };
    let written = services.disk.run(device, Work::File, write).await;
    written.map_err(|_| Status::SERVICE_UNAVAILABLE)?.map_err(|errno| {
        let folder = services.site.scripts.spool.display();
        log::error(format_args!("cannot write a chunked body in {folder}: {errno}"));
        Status::INTERNAL_SERVER_ERROR
    })
}
