//! RFC 1952.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Effort, Encode};

pub struct Gzip(GzEncoder<Vec<u8>>);

impl Gzip {
    pub fn new(effort: Effort) -> Gzip {
        let level = match effort {
            Effort::Quick => 5,
            Effort::Strong => 9,
        };
        Gzip(GzEncoder::new(Vec::new(), Compression::new(level)))
    }
}

impl Encode for Gzip {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.0.write_all(input)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.flush()?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut self.0.finish()?);
        Ok(())
    }
}
