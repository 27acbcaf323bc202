//! The buffers that the connections of a worker lend to one another. What one client sent is never lent to another.

use site::memory;
use site::model::Limits;

use crate::log::access::Records;

pub struct Scratch {
    pub buffer: Box<[u8]>,
    /// How much of it is for the input of one client.
    input: usize,
    out: Vec<u8>,
    records: Records,
}

impl Scratch {
    pub fn new(limits: &Limits) -> Scratch {
        let input = memory::input(limits) as usize;
        let buffer = vec![0; memory::buffer(limits) as usize].into();
        Scratch { buffer, input, out: Vec::new(), records: Records::default() }
    }

    /// Where to read a client's input to: behind what is left of the input before. With that, it is as much as a
    /// connection may keep.
    #[inline]
    pub fn space_behind(&mut self, rest: &[u8]) -> &mut [u8] {
        self.buffer[..rest.len()].copy_from_slice(rest);
        &mut self.buffer[rest.len()..self.input]
    }

    /// Where to read to what a script says.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[..memory::BUFFER as usize]
    }

    #[inline]
    pub fn lend(&mut self) -> (Vec<u8>, Records) {
        (std::mem::take(&mut self.out), std::mem::take(&mut self.records))
    }

    #[inline]
    pub fn take_back(&mut self, (mut out, mut records): (Vec<u8>, Records)) {
        // Nothing of one client's is ever lent to another.
        out.clear();
        records.clear();
        // What one large answer needed is not kept for ever.
        if out.capacity() <= 2 * memory::BATCH as usize {
            self.out = out;
        }
        self.records = records;
    }
}
