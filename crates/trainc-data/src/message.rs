//! Messages between `trainc data pack` and the processes in which it reads tokenizers, templates and
//! documents.
//!
//! A message is a kind, a length in eight bytes, and that many bytes.

use super::document::Document;
use super::fault::{self, Fault};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// To the process, first: a [`Setup`] as JSON.
    Setup = b'S',
    /// To the process: `tokenizer_config.json`, if there is one.
    Config = b'C',
    /// To the process: `tokenizer.json`. It answers with a [`Tokens`] or a fault, as JSON.
    Tokenizer = b'T',
    /// To the process: a chat template. It answers with nothing or a fault, as JSON.
    Template = b'J',
    /// To the process: lines of JSON as [`encode_parts`] writes them. It answers with documents.
    Lines = b'L',
    /// To the process: a text, which is one document. It answers with documents.
    Text = b'D',
    /// From the process: the template has been rendered, and the text is tokenized. Only of one line alone.
    Rendered = b'R',
    /// From the process: the answer.
    Answer = b'A',
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Setup,
        Self::Config,
        Self::Tokenizer,
        Self::Template,
        Self::Lines,
        Self::Text,
        Self::Rendered,
        Self::Answer,
    ];

    /// Returns the kind of the first byte of a message.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Bytes before those of a message's content.
pub const HEAD: usize = 9;

/// Writes a message.
pub fn write(out: &mut impl Write, kind: Kind, content: &[u8]) -> io::Result<()> {
    out.write_all(&[kind as u8])?;
    out.write_all(&(content.len() as u64).to_le_bytes())?;
    out.write_all(content)?;
    out.flush()
}

/// Reads the kind and the length of a message.
pub fn parse_head(head: [u8; HEAD]) -> io::Result<(Kind, usize)> {
    let [kind, length @ ..] = head;
    let length = usize::try_from(u64::from_le_bytes(length)).ok();
    Kind::from_byte(kind).zip(length).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Reads a message; `None` at the end.
pub fn read(input: &mut impl Read) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut head = [0; HEAD];
    match input.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        found => found?,
    }
    let (kind, length) = parse_head(head)?;
    let mut content = vec![0; length];
    input.read_exact(&mut content)?;
    Ok(Some((kind, content)))
}

/// How documents are read, and the limits of the process that reads them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The token that the user named as the end of a document.
    pub eos: Option<String>,
    /// The size of the model's vocabulary.
    pub width: Option<usize>,
    /// Every token is learnt, not only those of answers.
    pub all: bool,
    /// Today's date.
    pub today: String,
    /// Maximum bytes of memory.
    pub memory: u64,
}

/// The tokens of a tokenizer that concern the caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tokens {
    /// The token that ends a document.
    pub eos: String,
    /// Its number.
    pub eos_id: u32,
    /// One more than the highest token.
    pub size: usize,
}

/// A [`Fault`] with its code by name.
#[derive(Serialize, Deserialize)]
struct FaultMessage {
    code: String,
    message: String,
    at: (usize, usize),
    help: Option<String>,
    note: Option<String>,
}

impl From<&Fault> for FaultMessage {
    fn from(fault: &Fault) -> Self {
        let Fault { code, message, at, help, note } = fault.clone();
        Self { code: code.id.to_owned(), message, at, help, note }
    }
}

impl FaultMessage {
    fn into_fault(self) -> Option<Fault> {
        let Self { code, message, at, help, note } = self;
        let code = fault::CODES.iter().find(|known| known.id == code)?;
        Some(Fault { code, message, at, help, note })
    }
}

/// Writes a value, or the fault in its place, as JSON.
pub fn encode_result<T: Serialize>(result: &Result<T, Fault>) -> Vec<u8> {
    serde_json::to_vec(&result.as_ref().map_err(FaultMessage::from)).unwrap_or_default()
}

/// Reads what [`encode_result`] wrote.
pub fn decode_result<T: for<'a> Deserialize<'a>>(content: &[u8]) -> io::Result<Result<T, Fault>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    match serde_json::from_slice::<Result<T, FaultMessage>>(content)? {
        Ok(value) => Ok(Ok(value)),
        Err(fault) => fault.into_fault().map(Err).ok_or_else(invalid),
    }
}

/// Writes byte strings, each with its length.
pub fn encode_parts<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        put_length(part.len(), &mut out);
        out.extend_from_slice(part);
    }
    out
}

/// Reads what [`encode_parts`] wrote.
pub fn decode_parts(content: &[u8]) -> io::Result<Vec<&[u8]>> {
    let mut cursor = Cursor(content);
    let mut out = Vec::new();
    while !cursor.0.is_empty() {
        let length = cursor.length()?;
        out.push(cursor.bytes(length)?);
    }
    Ok(out)
}

/// A line's document, `None` for an empty line, or its fault.
pub type LineResult = Result<Option<Document>, Fault>;

/// Writes the documents of lines.
pub fn encode_documents(documents: &[LineResult]) -> Vec<u8> {
    let mut out = Vec::new();
    for document in documents {
        match document {
            Ok(None) => out.push(0),
            Ok(Some(document)) => {
                out.push(1);
                put_length(document.ids.len(), &mut out);
                document.ids.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
                out.extend(document.trained.iter().map(|trained| u8::from(*trained)));
            }
            Err(fault) => {
                out.push(2);
                let fault = serde_json::to_vec(&FaultMessage::from(fault)).unwrap_or_default();
                put_length(fault.len(), &mut out);
                out.extend(fault);
            }
        }
    }
    out
}

/// Reads what [`encode_documents`] wrote.
pub fn decode_documents(content: &[u8]) -> io::Result<Vec<LineResult>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut cursor = Cursor(content);
    let mut out = Vec::new();
    while let Some((kind, after)) = cursor.0.split_first() {
        cursor.0 = after;
        out.push(match kind {
            0 => Ok(None),
            1 => {
                let length = cursor.length()?;
                let ids = cursor.bytes(length.saturating_mul(4))?.as_chunks::<4>().0;
                let ids = ids.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
                let trained = cursor.bytes(length)?.iter().map(|byte| *byte == 1).collect();
                Ok(Some(Document { ids, trained }))
            }
            _ => {
                let length = cursor.length()?;
                let fault: FaultMessage = serde_json::from_slice(cursor.bytes(length)?)?;
                Err(fault.into_fault().ok_or_else(invalid)?)
            }
        });
    }
    Ok(out)
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}

/// Bytes of which parts are taken.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let parts = self.0.split_at_checked(length);
        let (bytes, after) = parts.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        self.0 = after;
        Ok(bytes)
    }

    fn length(&mut self) -> io::Result<usize> {
        let bytes = self.bytes(8)?.first_chunk::<8>().copied().unwrap_or_default();
        usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::T0521;
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write(&mut bytes, Kind::Lines, b"abc").unwrap();
        write(&mut bytes, Kind::Answer, b"").unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(read(&mut input).unwrap(), Some((Kind::Lines, b"abc".to_vec())));
        assert_eq!(read(&mut input).unwrap(), Some((Kind::Answer, Vec::new())));
        assert_eq!(read(&mut input).unwrap(), None);
        assert!(read(&mut &bytes[..10]).is_err() && read(&mut &b"?00000000"[..]).is_err());
        let parts = [&b"a"[..], b"", b"bc\n"];
        assert_eq!(decode_parts(&encode_parts(parts.into_iter())).unwrap(), parts);
    }

    #[test]
    fn documents_and_faults_are_read_as_they_were_written() {
        let document = Document { ids: vec![1, 70_000, u32::MAX], trained: vec![true, false, true] };
        let fault = Fault::new(&T0521, "a `b`").at(3, 4).help("c").note("d");
        let all = [Ok(Some(document)), Ok(None), Err(fault), Ok(Some(Document::default()))];
        let bytes = encode_documents(&all);
        assert_eq!(format!("{:?}", decode_documents(&bytes).unwrap()), format!("{all:?}"));
        assert!(decode_documents(&bytes[..bytes.len() - 1]).is_err());
        let result: Result<usize, Fault> = Err(Fault::new(&T0521, "x"));
        let read = decode_result::<usize>(&encode_result(&result)).unwrap();
        assert_eq!(format!("{read:?}"), format!("{result:?}"));
        assert_eq!(decode_result::<usize>(&encode_result(&Ok(3))).unwrap().unwrap(), 3);
    }
}
