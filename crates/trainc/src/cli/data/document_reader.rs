//! Reads documents from files of training data, in several threads but in order.

use crate::data::document::{Document, Maker};
use crate::data::fault::Fault;
use crate::data::record::{self, Lines, Record};
use crate::data::vocabulary::{MOST_DOCUMENT_BYTES, check_size};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Maximum size of a line in bytes: a document, in which JSON may escape some characters.
const MOST_LINE_BYTES: usize = 2 * MOST_DOCUMENT_BYTES;
/// Stack of a thread that renders templates: a value with a depth of all steps of a template is dropped recursively. Only
/// what is used takes memory.
const STACK_BYTES: usize = 128 << 20;
/// Bytes of a line with a fault that are shown.
const MOST_SHOWN_BYTES: usize = 64 << 10;

/// Bytes of lines per batch of a thread.
const BATCH: usize = 256 << 10;

/// A document, or the fault of its line.
pub(super) type ReadDocument = Result<Document, Box<RejectedLine>>;

/// A line that is not a valid document.
#[derive(Debug)]
pub(super) struct RejectedLine {
    /// Line number, from 0.
    pub line: usize,
    /// The line's bytes, as text.
    pub text: String,
    /// Its fault.
    pub fault: Fault,
}

/// Size and digest of an input file.
#[derive(Debug)]
pub(super) struct InputSummary {
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

/// Reads a file and passes its documents to `take` in order, with the bytes read for them. The result does not depend on
/// the number of threads.
pub(super) fn read_documents(
    maker: &Maker,
    name: &str,
    reader: &mut (dyn BufRead + Send),
    threads: usize,
    take: &mut dyn FnMut(Vec<ReadDocument>, u64),
) -> std::io::Result<InputSummary> {
    let kind = record::detect_format(name, reader.fill_buf()?);
    if kind == Lines::Text {
        return read_as_one_document(maker, reader, take);
    }
    let (send, batches) = sync_channel::<Batch>(threads);
    let batches = Mutex::new(batches);
    std::thread::scope(|scope| {
        let (done, made) = sync_channel::<(usize, u64, Vec<ReadDocument>)>(threads);
        for _ in 0..threads {
            let (done, batches) = (done.clone(), &batches);
            std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || process_batches(maker, batches, &done))?;
        }
        drop(done);
        let reading = scope.spawn(move || split(reader, &send));
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for (number, bytes, documents) in made {
            waiting.insert(number, (bytes, documents));
            while let Some((bytes, documents)) = waiting.remove(&next) {
                take(documents, bytes);
                next += 1;
            }
        }
        reading.join().unwrap_or_else(|_| Err(std::io::Error::other("the reading thread ended")))
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

/// Reads a line, and returns it with the number of bytes read. Of a line that is too long, only the start is kept.
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
    maker: &Maker,
    batches: &Mutex<Receiver<Batch>>,
    done: &SyncSender<(usize, u64, Vec<ReadDocument>)>,
) {
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = batch else { return };
        let bytes = batch.lines.iter().map(|line| line.len() as u64).sum();
        let made = batch
            .lines
            .iter()
            .enumerate()
            .filter_map(|(at, line)| {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let record = if line.len() > MOST_LINE_BYTES {
                    check_size(line.len()).map(|()| None)
                } else {
                    record::read(line)
                };
                let made = record.and_then(|record| record.map(|r| maker.make(&r)).transpose());
                made.transpose().map(|made| {
                    made.map_err(|fault| {
                        let shown = line.get(..MOST_SHOWN_BYTES).unwrap_or(line);
                        let text = String::from_utf8_lossy(shown).into_owned();
                        let is_shown = fault.at.1 > 0 && fault.at.0 < text.len();
                        let fault = if is_shown { fault } else { fault.at(0, text.len()) };
                        Box::new(RejectedLine { line: batch.first_line + at, text, fault })
                    })
                })
            })
            .collect();
        if done.send((batch.number, bytes, made)).is_err() {
            return;
        }
    }
}

/// Reads a plain text file as one document.
fn read_as_one_document(
    maker: &Maker,
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
        let made = maker.make(&Record::Text(text));
        take(
            vec![made.map_err(|fault| Box::new(RejectedLine { line: 0, text: String::new(), fault }))],
            seen.bytes,
        );
    }
    Ok(seen)
}

/// Formats bytes as lowercase hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
