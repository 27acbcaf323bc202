//! The content of a page, made while it is sent: texts as they are, and what stands in the place of each directive.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use ssi::evaluate::{Evaluator, Inclusion as Wanted, OnFailure, Step};
use ssi::reference::Reference;
use ssi::scan::{Languages, Node, Scanner};
use taipan_http::status::Status;

use super::assembly::{Audience, Facts, Inclusion};
use super::file_stream::FileStream;
use super::problem::Problem;
use crate::files::page::{PageContent, PageFile};
use crate::limits::Throttle;
use crate::log::{self, EndReason};
use crate::response::{Body, BodyStream, NextChunk, Response};
use crate::services::Services;

/// From so many bytes on, what is made is sent.
const ENOUGH: usize = 16 * 1024;
/// The most bytes of content whose length is found out before it is sent.
const BEGIN: usize = 64 * 1024;
/// Nodes that are evaluated in one turn of the worker's loop.
const NODES_PER_TURN: usize = 128;

const INCOMPLETE: EndReason = EndReason::NotIncluded;
const TOO_LARGE: EndReason = EndReason::TooMuchIncluded;

/// Where the nodes of a page come from.
pub enum Source {
    /// All of them, and the number of the next one.
    Parsed(Rc<PageFile>, usize),
    /// Found while the page is received. `None`: all of it was.
    Scanned(Option<Box<dyn BodyStream>>, Scanner, VecDeque<Node>),
}

impl Source {
    pub fn parsed(page: Rc<PageFile>) -> Source {
        Source::Parsed(page, 0)
    }

    pub fn scanned(inner: Box<dyn BodyStream>, languages: Languages) -> Source {
        Source::Scanned(Some(inner), Scanner::new(languages), VecDeque::new())
    }
}

pub struct PageStream {
    inclusion: Inclusion,
    source: Source,
    evaluator: Evaluator,
    /// What the last directive has left to do.
    steps: VecDeque<Step>,
    task: Task,
    /// Content that was made before the head was sent.
    first: Vec<u8>,
    /// Why the content is incomplete.
    abort_reason: EndReason,
}

/// The step that waits for something.
enum Task {
    None,
    Request(Wanted, Waiting<Response>),
    Facts(FileFact, Reference, Waiting<Facts>),
    /// The content of a response that is included, with the permits of its request.
    Part(Wanted, Box<dyn BodyStream>, Option<Box<Throttle>>),
}

/// It owns all that it needs.
type Waiting<T> = Pin<Box<dyn Future<Output = Result<T, Problem>>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileFact {
    Size,
    Modified,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// The head is to be sent first.
    None,
    /// If there is nothing else to send.
    Some,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    More,
    /// No more can be made without waiting.
    Paused,
    Ended,
}

/// What could be made before the head is sent.
pub enum FirstContent {
    /// All of the content.
    All(Vec<u8>),
    /// The stream has the rest.
    Part,
    /// It cannot be completed.
    Failed,
}

impl PageStream {
    pub fn new(inclusion: Inclusion, source: Source) -> PageStream {
        PageStream {
            inclusion,
            source,
            evaluator: Evaluator::default(),
            steps: VecDeque::new(),
            task: Task::None,
            first: Vec::new(),
            abort_reason: INCOMPLETE,
        }
    }

    /// Whom the content that was made so far is for.
    pub fn audience(&self) -> Audience {
        self.inclusion.assembly.audience()
    }

    /// Makes what needs no waiting.
    pub async fn begin(&mut self, services: &Services) -> FirstContent {
        let mut content = Vec::new();
        match self.advance(services, &mut content, BEGIN, Patience::None).await {
            Ok(Progress::Ended) => FirstContent::All(content),
            Ok(Progress::More | Progress::Paused) => {
                self.first = content;
                FirstContent::Part
            }
            Err(_) => FirstContent::Failed,
        }
    }

    /// The next chunk. Errors: the content cannot be completed.
    async fn next_chunk(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        if !self.first.is_empty() {
            return Ok(Some(std::mem::take(&mut self.first)));
        }
        let mut out = Vec::new();
        self.advance(services, &mut out, ENOUGH, Patience::Some).await?;
        Ok((!out.is_empty()).then_some(out))
    }

    /// Appends content until it is `enough`.
    async fn advance(
        &mut self,
        services: &Services,
        out: &mut Vec<u8>,
        enough: usize,
        patience: Patience,
    ) -> io::Result<Progress> {
        let mut nodes = 0;
        while out.len() < enough {
            let progress = if !matches!(self.task, Task::None) {
                self.go_on(services, out, patience).await?
            } else if let Some(step) = self.steps.pop_front() {
                self.begin_step(step, out)?;
                Progress::More
            } else {
                nodes += 1;
                if nodes % NODES_PER_TURN == 0 {
                    tokio::task::yield_now().await;
                }
                self.next_node(services, out, patience).await?
            };
            match progress {
                Progress::More => {}
                Progress::Paused | Progress::Ended => return Ok(progress),
            }
        }
        Ok(Progress::Paused)
    }

    async fn next_node(
        &mut self,
        services: &Services,
        out: &mut Vec<u8>,
        patience: Patience,
    ) -> io::Result<Progress> {
        match &mut self.source {
            Source::Parsed(page, at) => {
                let (page, number) = (page.clone(), *at);
                *at += 1;
                let node = match &page.content {
                    PageContent::Parsed(page) => page.nodes.get(number),
                    PageContent::File(_) => None,
                };
                match node {
                    Some(node) => self.evaluate(node, out),
                    None => return Ok(self.end()),
                }
            }
            Source::Scanned(inner, scanner, nodes) => {
                if let Some(node) = nodes.pop_front() {
                    self.evaluate(&node, out);
                    return Ok(Progress::More);
                }
                let Some(stream) = inner else { return Ok(self.end()) };
                if !may_wait(&mut **stream, out, patience) {
                    return Ok(Progress::Paused);
                }
                self.abort_reason = stream.abort_reason();
                let mut found = Vec::new();
                match stream.next(services).await? {
                    Some(chunk) => scanner.push(chunk, &mut found),
                    None => {
                        scanner.finish(&mut found);
                        *inner = None;
                    }
                }
                self.abort_reason = INCOMPLETE;
                nodes.extend(found);
            }
        }
        Ok(Progress::More)
    }

    fn end(&self) -> Progress {
        if self.evaluator.is_open() {
            self.log(format_args!("an \"if\" has no \"endif\""));
        }
        Progress::Ended
    }

    fn evaluate(&mut self, node: &Node, out: &mut Vec<u8>) {
        match node {
            Node::Text(text) if self.evaluator.is_active() => out.extend_from_slice(text),
            Node::Text(_) => {}
            Node::Directive(directive) => {
                let assembly = &self.inclusion.assembly;
                let mut steps = Vec::new();
                let mut variables = assembly.variables.borrow_mut();
                self.evaluator.evaluate(directive, &**assembly, &mut variables, &mut steps);
                self.steps.extend(steps);
            }
        }
    }

    /// Errors: the content cannot be completed.
    fn begin_step(&mut self, step: Step, out: &mut Vec<u8>) -> io::Result<()> {
        match step {
            Step::Output(text) => self.add(text.as_bytes(), out)?,
            Step::Failed(mistake) => {
                self.log(format_args!("{mistake}"));
                self.add_message(out)?;
            }
            Step::Include(wanted) => match self.inclusion.enter(&wanted.reference) {
                Ok((inclusion, target)) => {
                    self.task = Task::Request(wanted, Box::pin(inclusion.request(target)));
                }
                Err(problem) => self.on_problem(wanted, problem, out)?,
            },
            Step::Size(reference) => self.ask(FileFact::Size, reference, out)?,
            Step::Modified(reference) => self.ask(FileFact::Modified, reference, out)?,
        }
        Ok(())
    }

    fn ask(&mut self, asked: FileFact, reference: Reference, out: &mut Vec<u8>) -> io::Result<()> {
        match self.inclusion.enter(&reference) {
            Ok((inclusion, target)) => {
                self.task = Task::Facts(asked, reference, Box::pin(inclusion.facts(target)));
                Ok(())
            }
            Err(problem) => self.on_unknown(&reference, problem, out),
        }
    }

    /// Goes on with the step that waits for something.
    async fn go_on(
        &mut self,
        services: &Services,
        out: &mut Vec<u8>,
        patience: Patience,
    ) -> io::Result<Progress> {
        let of_task = if out.is_empty() { patience } else { Patience::None };
        match std::mem::replace(&mut self.task, Task::None) {
            Task::None => {}
            Task::Request(wanted, mut waiting) => match poll(&mut waiting, of_task).await {
                None => return Ok(self.pause(Task::Request(wanted, waiting))),
                Some(Ok(response)) => self.include(wanted, response, out)?,
                Some(Err(problem)) => self.on_problem(wanted, problem, out)?,
            },
            Task::Facts(asked, reference, mut waiting) => match poll(&mut waiting, of_task).await {
                None => return Ok(self.pause(Task::Facts(asked, reference, waiting))),
                Some(Ok(facts)) => {
                    let text = match asked {
                        FileFact::Size => self.evaluator.size(facts.size),
                        FileFact::Modified => self.evaluator.time(facts.modified),
                    };
                    self.add(text.as_bytes(), out)?;
                }
                Some(Err(problem)) => self.on_unknown(&reference, problem, out)?,
            },
            Task::Part(wanted, mut part, permits) => {
                if !may_wait(&mut *part, out, patience) {
                    return Ok(self.pause(Task::Part(wanted, part, permits)));
                }
                match part.next(services).await {
                    Ok(Some(chunk)) => {
                        self.add(&chunk, out)?;
                        self.task = Task::Part(wanted, part, permits);
                    }
                    Ok(None) => {}
                    Err(_) => {
                        let wanted = Wanted { alternative: None, ..wanted };
                        self.on_problem(wanted, Problem::Cut, out)?;
                    }
                }
            }
        }
        Ok(Progress::More)
    }

    fn pause(&mut self, task: Task) -> Progress {
        self.task = task;
        Progress::Paused
    }

    fn include(&mut self, wanted: Wanted, response: Response, out: &mut Vec<u8>) -> io::Result<()> {
        self.add(response.small_body(), out)?;
        let mut part: Box<dyn BodyStream> = match response.body {
            Body::Nothing => return Ok(()),
            Body::Stream(part) | Body::Sized(part, _) => part,
            Body::File(part) => Box::new(FileStream::new(part)),
            Body::Parts(_) | Body::Tunnel(_) => return self.on_problem(wanted, Problem::Cut, out),
        };
        self.add(&part.take_buffered(), out)?;
        self.task = Task::Part(wanted, part, response.throttle);
        Ok(())
    }

    /// Adds what was made or included. Errors: it is too much.
    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        // What an included page adds is counted once, where the first page includes it.
        if self.inclusion.place.is_first() && !self.inclusion.assembly.count_bytes(bytes.len()) {
            self.abort_reason = TOO_LARGE;
            self.log(format_args!("{}", TOO_LARGE.text()));
            return Err(io::Error::other(TOO_LARGE.text()));
        }
        out.extend_from_slice(bytes);
        Ok(())
    }

    /// Something is not included. Errors: the content cannot be completed without it.
    fn on_problem(&mut self, wanted: Wanted, problem: Problem, out: &mut Vec<u8>) -> io::Result<()> {
        let is_withheld = matches!(problem, Problem::Status(Status::SERVICE_UNAVAILABLE))
            && self.inclusion.assembly.responder().has_withheld();
        if !is_withheld {
            let what = wanted.reference.text().escape_debug();
            self.log(format_args!("\"{what}\" is not included: {problem}"));
        }
        let Wanted { alternative, on_failure, .. } = wanted;
        match (alternative, on_failure) {
            (Some(reference), _) => {
                self.steps.push_front(Step::Include(Wanted { reference, alternative: None, on_failure }));
            }
            (None, OnFailure::Message) => self.add_message(out)?,
            (None, OnFailure::Nothing) => {}
            (None, OnFailure::Abort) => return Err(io::Error::other(INCOMPLETE.text())),
        }
        Ok(())
    }

    /// The size or the time of something is not known.
    fn on_unknown(&mut self, reference: &Reference, problem: Problem, out: &mut Vec<u8>) -> io::Result<()> {
        self.log(format_args!("nothing is known of \"{}\": {problem}", reference.text().escape_debug()));
        self.add_message(out)
    }

    fn add_message(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let message = self.evaluator.error_message().to_owned();
        self.add(message.as_bytes(), out)
    }

    /// Clients cause these lines, so there is at most one a second.
    fn log(&self, what: fmt::Arguments<'_>) {
        let responder = self.inclusion.assembly.responder();
        if let Some(omitted) = responder.mistakes.admit(responder.services.clock.now()) {
            log::warn(format_args!("the page {}: {what}{omitted}", self.inclusion.place.path));
        }
    }
}

impl BodyStream for PageStream {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_chunk(services))
    }

    fn abort_reason(&self) -> EndReason {
        self.abort_reason
    }

    fn has_more(&mut self) -> bool {
        match (&mut self.task, &mut self.source) {
            _ if !self.first.is_empty() => true,
            (Task::Request(..) | Task::Facts(..), _) => false,
            (Task::Part(_, part, _), _) => part.has_more(),
            (Task::None, Source::Scanned(Some(inner), _, nodes)) if nodes.is_empty() => inner.has_more(),
            (Task::None, _) => true,
        }
    }

    fn take_buffered(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.first)
    }

    fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            Source::Scanned(Some(inner), ..) => inner.poll_request_body(cx),
            Source::Scanned(None, ..) | Source::Parsed(..) => Poll::Ready(()),
        }
    }

    /// Of the page, too, while a part of it is sent: otherwise its upstream would wait for what others send.
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) {
        if let Task::Part(_, part, _) = &mut self.task {
            part.poll_read_ahead(cx);
        }
        if let Source::Scanned(Some(inner), ..) = &mut self.source {
            inner.poll_read_ahead(cx);
        }
    }
}

/// Whether the next chunk of a stream can be awaited now.
fn may_wait(stream: &mut dyn BodyStream, out: &[u8], patience: Patience) -> bool {
    patience == Patience::Some && (out.is_empty() || stream.has_more())
}

/// The result, if it is there, or if it may be awaited.
async fn poll<T>(waiting: &mut Waiting<T>, patience: Patience) -> Option<Result<T, Problem>> {
    poll_fn(|cx| match (waiting.as_mut().poll(cx), patience) {
        (Poll::Ready(result), _) => Poll::Ready(Some(result)),
        (Poll::Pending, Patience::Some) => Poll::Pending,
        (Poll::Pending, Patience::None) => Poll::Ready(None),
    })
    .await
}
