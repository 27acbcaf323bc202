//! Asking a script or an application: whether it may run, how its request goes out with the body, and which
//! server is asked again.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{SeekFrom, fstat, major, minor, seek};
use script::environment::Additions;
use site::application::Application;
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;

use super::collected::{Collected, NoRoom, Room};
use super::order::{Call, Order, Repeats, Run};
use super::turn::Turns;
use super::{Input, Outcome, converse, line, start};
use crate::buffer::append;
use crate::disk::Work;
use crate::log;
use crate::pool::{Pool, Refusal};
use crate::request::Request;
use crate::request::body::{Length, RequestBody};
use crate::services::Services;
use crate::spawner::Spawner;
use crate::stats::Count;

/// A collected body is written when there is this much of it; the next read brings it to what an answer may have
/// at most, for which there is no need yet.
const COLLECT: usize = 32 * 1024;

/// What starts scripts, and what has connections to applications.
pub struct Upstreams {
    pub services: Rc<Services>,
    /// Which requests may have a script run.
    pub turns: Turns,
    /// `None`: the site has no scripts.
    pub spawner: Option<Rc<Spawner>>,
    /// Of the applications of the site, in their order.
    pub pools: Vec<Rc<Pool>>,
}

/// Has a script or an application answer `request`, with `variables` besides those of its route.
pub async fn ask(
    upstreams: &Upstreams,
    request: Request<'_>,
    run: &Run,
    variables: &Additions,
    body: RequestBody,
) -> Outcome {
    try_ask(upstreams, request, run, variables, &body).await.unwrap_or_else(|failed| failed)
}

async fn try_ask(
    upstreams: &Upstreams,
    request: Request<'_>,
    run: &Run,
    variables: &Additions,
    body: &RequestBody,
) -> Result<Outcome, Outcome> {
    let services = &upstreams.services;
    let (collected, length) = match body.length() {
        Length::Unknown => {
            let collected = collect(upstreams, run, body).await?;
            let length = collected.length;
            (Some(collected), Some(length))
        }
        Length::Sized(bytes) if bytes > run.max_body => {
            return Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE).into());
        }
        Length::Sized(bytes) => (None, Some(bytes)),
        Length::None => (None, None),
    };
    let order = run.order(services, request.head, request.ends, length, variables)?;
    let Call::Program(program) = &order.call else {
        return ask_application(upstreams, run, &order, body, collected).await;
    };
    let spawner = upstreams.spawner.as_ref().ok_or(Status::SERVICE_UNAVAILABLE)?;
    let turn = upstreams.turns.take(run.route(services), run.processes(services)).await.map_err(|_| {
        services.counts.add(Count::ScriptsRefused, 1);
        Status::SERVICE_UNAVAILABLE
    })?;
    let input = match (collected, length) {
        (Some(collected), _) => Input::File(collected),
        (None, Some(_)) => Input::Pipe,
        (None, None) => Input::Nothing,
    };
    let (conversation, feed) = start(services, spawner, &order, program, input, turn).await?;
    Ok(conversation.fed_by(body, run.max_body, feed).outcome(run, order.wanted).await)
}

/// Asks an application, and another one of its servers if the first has not answered.
async fn ask_application(
    upstreams: &Upstreams,
    run: &Run,
    order: &Order,
    body: &RequestBody,
    collected: Option<Collected>,
) -> Result<Outcome, Outcome> {
    let services = &upstreams.services;
    let found = run
        .application(services)
        .and_then(|id| Some((services.site.applications.get(id)?, upstreams.pools.get(id)?)));
    let (application, pool) = found.ok_or(Status::SERVICE_UNAVAILABLE)?;
    let collected = collected.map(Rc::new);
    let (mut failed, mut again, mut crowded) = (None, true, false);
    loop {
        let way = pool.connection(failed).await;
        let way = way.map_err(|refusal| refused(services, order, application, refusal))?;
        let content = match (&collected, body.length()) {
            (Some(collected), _) => line::Content::File(collected.clone()),
            (None, Length::Sized(_)) => line::Content::Coming,
            (None, _) => line::Content::Nothing,
        };
        let (conversation, feed) = converse(services, application, way, order, content);
        // What has been handed on cannot be handed on again.
        let repeats = feed.is_none() && order.repeats == Repeats::Yes && again;
        let outcome = conversation.fed_by(body, run.max_body, feed).outcome(run, order.wanted).await;
        let Order { who, what, .. } = order;
        match outcome {
            Outcome::Unanswered(_, unanswered) if repeats => {
                (failed, again) = (unanswered.server, unanswered.kept);
                // That a kept connection is closed says little. The next one is new.
                if !unanswered.kept {
                    let why = unanswered.why;
                    log::warn(format_args!(
                        "{who}: {what} gave nothing on a new connection ({why}); asked again"
                    ));
                }
            }
            // The application has not looked at it: it may be made again, if all of it is still there.
            Outcome::Crowded(..) if (collected.is_some() || body.is_whole()) && !crowded => crowded = true,
            Outcome::Unanswered(status, unanswered) | Outcome::Crowded(status, unanswered) => {
                log::error(format_args!("{who}: {what} did not answer: {}", unanswered.why));
                services.counts.add(Count::ScriptsFailed, 1);
                return Err(status.into());
            }
            outcome => return Ok(outcome),
        }
    }
}

fn refused(services: &Services, order: &Order, application: &Application, refusal: Refusal) -> Status {
    log::error(format_args!("{}: {application} cannot be asked: {}", order.who, refusal.why()));
    services.counts.add(Count::ScriptsRefused, 1);
    match refusal {
        Refusal::Unreachable => Status::BAD_GATEWAY,
        Refusal::Full | Refusal::Late | Refusal::Failing | Refusal::Lost => Status::SERVICE_UNAVAILABLE,
    }
}

/// Collects a body whose length is not known in a file: a script is told how much it will read.
async fn collect(upstreams: &Upstreams, run: &Run, body: &RequestBody) -> Result<Collected, Outcome> {
    let services = &upstreams.services;
    let spawner = upstreams.spawner.as_ref().ok_or(Status::LENGTH_REQUIRED)?;
    let folder = services.site.scripts.spool.display();
    let mut file = spawner.spool().await.map_err(|error| {
        log::error(format_args!("cannot make a file in {folder} for a chunked body: {error}"));
        Status::LENGTH_REQUIRED
    })?;
    let (mut room, limit) = (Room::none(), services.site.scripts.spool_bytes);
    loop {
        let mut bytes = Vec::new();
        let mut is_through = false;
        while bytes.len() < COLLECT && !is_through {
            match body.read(run.max_body).await? {
                Some(more) => append(&mut bytes, &more),
                None => is_through = true,
            }
        }
        match room.grow(bytes.len() as u64, limit) {
            Ok(()) => {}
            Err(NoRoom::TooLong) => return Err(Status::CONTENT_TOO_LARGE.into()),
            Err(NoRoom::Taken) => return Err(no_room(services, limit).into()),
        }
        file = spool(services, file, bytes).await?;
        if is_through {
            return Ok(Collected::new(file, room));
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
