//! Scratch buffers that the connections of a worker share one after the other. Bytes of one client are never visible to
//! another.

use std::rc::Rc;

use site::memory;
use site::model::Limits;
use taipan_h2::fields::FieldList;
use taipan_http::client::section::FieldSection;
use taipan_http::response::ResponseHead;

use crate::log::access::Records;

pub struct Scratch {
    buffer: Box<[u8]>,
    /// The bytes of `buffer` for the input of one client.
    input: usize,
    output: OutputBuffers,
    head: SpareHead,
    /// For the fields of an upstream's response.
    section: FieldSection,
    /// The field list of an HTTP/2 request.
    pub fields: FieldList,
}

/// What an output is made in.
#[derive(Default)]
pub struct OutputBuffers {
    pub out: Vec<u8>,
    /// The log lines of what is in `out`.
    pub records: Records,
}

/// The memory of a response head, and the body behind it, that has been sent.
#[derive(Default)]
pub struct SpareHead(Option<Rc<ResponseHead>>);

impl SpareHead {
    /// An empty buffer for another head, which then goes to `fill`.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        // Nothing else has it, so that nothing is copied.
        self.0.as_mut().map(|head| Rc::make_mut(head).take_buffer()).unwrap_or_default()
    }

    pub fn fill(self, head: ResponseHead) -> Rc<ResponseHead> {
        match self.0 {
            None => head.into(),
            Some(mut spare) => {
                *Rc::make_mut(&mut spare) = head;
                spare
            }
        }
    }

    fn capacity(&self) -> usize {
        self.0.as_ref().map_or(0, |head| head.capacity())
    }
}

/// What a response of an upstream is received in, and made in for the client.
pub struct ResponseBuffers<'a> {
    pub space: &'a mut [u8],
    /// It can be taken for the response to the client.
    pub head: &'a mut SpareHead,
    /// Its memory can be taken for the fields.
    pub section: &'a mut FieldSection,
}

/// Input of a connection in the worker's buffer. After the next `await`, that of another connection may be in its
/// place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScratchInput {
    start: usize,
    end: usize,
}

impl ScratchInput {
    /// The first `bytes` bytes of the buffer.
    #[inline]
    pub fn first(bytes: usize) -> ScratchInput {
        ScratchInput { start: 0, end: bytes }
    }

    /// The rest behind the first `used` bytes.
    #[inline]
    pub fn behind(self, used: usize) -> ScratchInput {
        ScratchInput { start: self.start + used, end: self.end }
    }

    #[inline]
    pub fn len(self) -> usize {
        self.end - self.start
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl Scratch {
    pub fn new(limits: &Limits) -> Scratch {
        let input = memory::input(limits) as usize;
        let buffer = vec![0; memory::buffer(limits) as usize].into();
        Scratch {
            buffer,
            input,
            output: OutputBuffers::default(),
            head: SpareHead::default(),
            section: FieldSection::default(),
            fields: FieldList::new(),
        }
    }

    /// Copies input that is not used yet to the start of the buffer, and returns the space behind it for more. Together
    /// they are as large as the input that a connection may keep.
    #[inline]
    pub fn space_behind(&mut self, rest: &[u8]) -> &mut [u8] {
        self.buffer[..rest.len()].copy_from_slice(rest);
        &mut self.buffer[rest.len()..self.input]
    }

    /// Copies input that is not used yet to the buffer.
    pub fn put(&mut self, rest: &[u8]) -> ScratchInput {
        self.space_behind(rest);
        ScratchInput::first(rest.len())
    }

    #[inline]
    pub fn input(&self, input: ScratchInput) -> &[u8] {
        &self.buffer[input.start..input.end]
    }

    /// Space for the output of a script.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[..memory::BUFFER as usize]
    }

    #[inline]
    pub fn lend(&mut self) -> OutputBuffers {
        std::mem::take(&mut self.output)
    }

    pub fn response_buffers(&mut self) -> ResponseBuffers<'_> {
        let space = &mut self.buffer[..memory::BUFFER as usize];
        ResponseBuffers { space, head: &mut self.head, section: &mut self.section }
    }

    /// Keeps the memory of a response that has been sent, if it is larger than the one that is kept.
    #[inline]
    pub fn take_back_head(&mut self, mut head: Rc<ResponseHead>) {
        let larger = self.head.capacity() + 1..=memory::KEPT_RESPONSE as usize;
        if larger.contains(&head.capacity()) && Rc::get_mut(&mut head).is_some() {
            self.head = SpareHead(Some(head));
        }
    }

    #[inline]
    pub fn take_back(&mut self, OutputBuffers { mut out, mut records }: OutputBuffers) {
        out.clear();
        records.clear();
        // The buffer of a large response is not kept.
        if out.capacity() <= memory::KEPT_RESPONSE as usize {
            self.output.out = out;
        }
        self.output.records = records;
    }
}
