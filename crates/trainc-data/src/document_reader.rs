//! Reads documents from files of training data, in several threads but in order.

use crate::document::Document;
use crate::fault::Fault;
use crate::fence::Fence;
use crate::message::LineResult;
use crate::record::{self, Lines};
use crate::vocabulary::{MOST_DOCUMENT_BYTES, MOST_LINE_BYTES, check_size};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Bytes of a line with a fault that are shown.
const MOST_SHOWN_BYTES: usize = 64 << 10;

/// Bytes of lines per batch of a thread.
const BATCH: usize = 256 << 10;

/// A document, or the fault of its line.
pub(crate) type ReadDocument = Result<Document, Box<RejectedLine>>;

/// A line that is not a valid document.
#[derive(Debug)]
pub(crate) struct RejectedLine {
    /// Line number, from 0.
    pub line: usize,
    /// The line's bytes, as text.
    pub text: String,
    /// Its fault.
    pub fault: Fault,
}

/// Size and digest of an input file.
#[derive(Debug)]
pub(crate) struct InputSummary {
    /// Bytes.
    pub bytes: u64,
    /// sha256, hexadecimal.
    pub sha256: String,
}

struct Batch {
    number: usize,
    first_line: usize,
    lines: Vec<Vec<u8>>,
}

/// The documents of a batch.
struct ReadBatch {
    number: usize,
    /// Bytes of its lines.
    bytes: u64,
    documents: Vec<ReadDocument>,
}

/// Reads a file and passes its documents to `take` in order, with the bytes read for them. The result does
/// not depend on the number of threads.
pub(crate) fn read_documents(
    fence: &Fence,
    name: &str,
    reader: &mut (dyn BufRead + Send),
    threads: usize,
    take: &mut dyn FnMut(Vec<ReadDocument>, u64),
) -> std::io::Result<InputSummary> {
    let kind = record::detect_format(name, reader.fill_buf()?);
    if kind == Lines::Text {
        return read_as_one_document(fence, reader, take);
    }
    let (send, batches) = sync_channel::<Batch>(threads);
    let batches = Mutex::new(batches);
    std::thread::scope(|scope| {
        let (done, made) = sync_channel::<std::io::Result<ReadBatch>>(threads);
        for _ in 0..threads {
            let (done, batches) = (done.clone(), &batches);
            scope.spawn(move || process_batches(fence, batches, &done));
        }
        drop(done);
        let reading = scope.spawn(move || split(reader, &send));
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        let mut failure = None;
        for read in made {
            match read {
                Ok(ReadBatch { number, bytes, documents }) => waiting.insert(number, (bytes, documents)),
                // The batches that follow are read to their end: the thread that reads the file waits for
                // them.
                Err(error) => {
                    failure.get_or_insert(error);
                    continue;
                }
            };
            while let Some((bytes, documents)) = waiting.remove(&next) {
                take(documents, bytes);
                next += 1;
            }
        }
        let summary =
            reading.join().unwrap_or_else(|_| Err(std::io::Error::other("the reading thread ended")));
        failure.map_or(summary, Err)
    })
}

/// Splits the file into batches of lines.
fn split(reader: &mut dyn BufRead, send: &SyncSender<Batch>) -> std::io::Result<InputSummary> {
    let mut hash = Sha256::new();
    let (mut bytes, mut number, mut line, mut ended) = (0, 0, 0, false);
    while !ended {
        let mut batch = Batch { number, first_line: line, lines: Vec::new() };
        let mut taken = 0;
        while taken < BATCH {
            let (text, read) = read_line(reader, &mut hash)?;
            if read == 0 {
                ended = true;
                break;
            }
            bytes += read as u64;
            taken += read;
            line += 1;
            batch.lines.push(text);
        }
        number += 1;
        if send.send(batch).is_err() {
            break;
        }
    }
    Ok(InputSummary { bytes, sha256: hex(&hash.finalize()) })
}

/// Reads a line, and returns it with the number of bytes read. Of a line that is too long, only the start is
/// kept.
fn read_line(reader: &mut dyn BufRead, hash: &mut Sha256) -> std::io::Result<(Vec<u8>, usize)> {
    let (mut line, mut read) = (Vec::new(), 0);
    loop {
        let part = reader.fill_buf()?;
        let end = part.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let part = part.get(..end.unwrap_or(part.len())).unwrap_or(part);
        hash.update(part);
        let kept = part.len().min((MOST_LINE_BYTES + 1).saturating_sub(line.len()));
        line.extend_from_slice(part.get(..kept).unwrap_or(part));
        let taken = part.len();
        read += taken;
        reader.consume(taken);
        if taken == 0 || end.is_some() {
            return Ok((line, read));
        }
    }
}

fn process_batches(
    fence: &Fence,
    batches: &Mutex<Receiver<Batch>>,
    done: &SyncSender<std::io::Result<ReadBatch>>,
) {
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = batch else { return };
        let Batch { number, first_line, lines } = batch;
        let bytes = lines.iter().map(|line| line.len() as u64).sum();
        let bare: Vec<&[u8]> = lines
            .iter()
            .map(|line| line.strip_suffix(b"\n").unwrap_or(line))
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .collect();
        let read = fence.read_lines(&bare).map(|results| {
            let place = |((at, line), result): ((usize, &&[u8]), LineResult)| match result {
                Ok(document) => document.map(Ok),
                Err(fault) => Some(Err(Box::new(reject(first_line + at, line, fault)))),
            };
            let documents = bare.iter().enumerate().zip(results).filter_map(place).collect();
            ReadBatch { number, bytes, documents }
        });
        if done.send(read).is_err() {
            return;
        }
    }
}

/// Shows a line that has a fault.
fn reject(line: usize, bytes: &[u8], fault: Fault) -> RejectedLine {
    let shown = bytes.get(..MOST_SHOWN_BYTES).unwrap_or(bytes);
    let text = String::from_utf8_lossy(shown).into_owned();
    let is_shown = fault.at.1 > 0 && fault.at.0 < text.len();
    let fault = if is_shown { fault } else { fault.at(0, text.len()) };
    RejectedLine { line, text, fault }
}

/// Reads a plain text file as one document.
fn read_as_one_document(
    fence: &Fence,
    reader: &mut dyn BufRead,
    take: &mut dyn FnMut(Vec<ReadDocument>, u64),
) -> std::io::Result<InputSummary> {
    let mut bytes = Vec::new();
    reader.take(MOST_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if let Err(fault) = check_size(bytes.len()) {
        take(vec![Err(Box::new(RejectedLine { line: 0, text: String::new(), fault }))], bytes.len() as u64);
        return Ok(InputSummary { bytes: bytes.len() as u64, sha256: String::new() });
    }
    let seen = InputSummary { bytes: bytes.len() as u64, sha256: hex(&Sha256::digest(&bytes)) };
    let text = String::from_utf8(bytes)
        .map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidData, "not UTF-8 text"))?;
    if !text.trim().is_empty() {
        let reject = |fault| Box::new(RejectedLine { line: 0, text: String::new(), fault });
        let made = fence.read_text(&text)?.into_iter().filter_map(|made| made.map_err(reject).transpose());
        take(made.collect(), seen.bytes);
    }
    Ok(seen)
}

/// Formats bytes as lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
