//! Messages of the Language Server Protocol over standard input and output. A faulty message is answered with
//! an error, and the session goes on.

use lsp_server::{Connection, ErrorCode, Message};
use serde_json::{Value, json};
use std::io::{self, BufRead, Read as _, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// Maximum size of a message in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum size of a header line in bytes.
const MOST_HEADER_BYTES: u64 = 4 << 10;

/// The header that every message has; what follows a faulty message is searched for it.
const LENGTH: &str = "content-length:";

/// Threads that read and write messages.
pub(crate) struct Transport {
    writer: JoinHandle<io::Result<()>>,
    /// The error that ended the reading.
    reading: Receiver<io::Error>,
}

impl Transport {
    /// Starts the threads; returns the server's side of the connection.
    pub(crate) fn start() -> (Connection, Self) {
        let (server, client) = Connection::memory();
        let Connection { sender, receiver } = client;
        let (failed, reading) = channel();
        // Not joined: it may wait for input when the session ends.
        std::thread::spawn(move || {
            let mut input = Input { from: io::stdin().lock(), header: None };
            let mut answer = |fault: &Value| write_frame(&fault.to_string());
            loop {
                match input.read_message(&mut answer) {
                    Ok(Some(message)) => {
                        let is_exit = matches!(&message, Message::Notification(one) if one.method == "exit");
                        if sender.send(message).is_err() || is_exit {
                            return;
                        }
                    }
                    Ok(None) => return,
                    Err(error) => {
                        let _ = failed.send(error);
                        return;
                    }
                }
            }
        });
        let writer = std::thread::spawn(move || {
            receiver.into_iter().try_for_each(|message| {
                let mut bytes = Vec::new();
                message.write(&mut bytes)?;
                let mut out = io::stdout().lock();
                out.write_all(&bytes)?;
                out.flush()
            })
        });
        (server, Self { writer, reading })
    }

    /// Waits until everything is written, after the connection was dropped.
    pub(crate) fn join(self) -> io::Result<()> {
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread ended")))?;
        self.reading.try_recv().map_or(Ok(()), Err)
    }
}

fn write_frame(body: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    out.flush()
}

/// Standard input.
struct Input<R> {
    from: R,
    /// A length that was found while searching for the next message.
    header: Option<String>,
}

impl<R: BufRead> Input<R> {
    /// Reads the next valid message; `None` at the end of the input. Faulty messages are passed to `answer`.
    fn read_message(
        &mut self,
        answer: &mut dyn FnMut(&Value) -> io::Result<()>,
    ) -> io::Result<Option<Message>> {
        loop {
            let body = match self.read_body()? {
                Body::Text(body) => body,
                Body::End => return Ok(None),
                Body::Fault(why) => {
                    answer(&fault(Value::Null, ErrorCode::ParseError, &why))?;
                    if !self.find_next_message()? {
                        return Ok(None);
                    }
                    continue;
                }
            };
            let value: Value = match serde_json::from_slice(&body) {
                Ok(value) => value,
                Err(error) => {
                    answer(&fault(Value::Null, ErrorCode::ParseError, &format!("invalid JSON: {error}")))?;
                    continue;
                }
            };
            let id = value.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
            if let Ok(message) = serde_json::from_value(value) {
                return Ok(Some(message));
            }
            let why = "not a request, notification or response";
            answer(&fault(id.unwrap_or_default(), ErrorCode::InvalidRequest, why))?;
        }
    }

    fn read_body(&mut self) -> io::Result<Body> {
        let mut length = None;
        let mut headers = 0;
        loop {
            let line = if let Some(line) = self.header.take() {
                line
            } else {
                let mut line = Vec::new();
                let read = (&mut self.from).take(MOST_HEADER_BYTES).read_until(b'\n', &mut line)?;
                if read == 0 {
                    return Ok(Body::End);
                }
                if !line.ends_with(b"\n") {
                    return Ok(Body::Fault("an unterminated header line".to_owned()));
                }
                String::from_utf8_lossy(&line).trim_end().to_owned()
            };
            headers += 1;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':').filter(|_| headers < 100) else {
                return Ok(Body::Fault("a header without a colon".to_owned()));
            };
            if name.trim().eq_ignore_ascii_case("content-length") {
                let Ok(bytes) = value.trim().parse::<u64>() else {
                    return Ok(Body::Fault("`Content-Length` is not a number of bytes".to_owned()));
                };
                length = Some(bytes);
            }
        }
        let Some(length) = length else {
            return Ok(Body::Fault("a message without `Content-Length`".to_owned()));
        };
        if length > MOST_BYTES {
            let most = trainc_diag::text::bytes(MOST_BYTES);
            return Ok(Body::Fault(format!("a message of {length} bytes; the maximum is {most}")));
        }
        let mut body = Vec::new();
        (&mut self.from).take(length).read_to_end(&mut body)?;
        if (body.len() as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Body::Text(body))
    }

    /// Skips to the header of the next message, wherever the faulty one ends; false at the end of the input.
    fn find_next_message(&mut self) -> io::Result<bool> {
        let mut last = String::new();
        loop {
            let mut byte = [0];
            if self.from.read(&mut byte)? == 0 {
                return Ok(false);
            }
            last.push(char::from(byte[0].to_ascii_lowercase()));
            if last.ends_with(LENGTH) {
                let mut rest = Vec::new();
                (&mut self.from).take(MOST_HEADER_BYTES).read_until(b'\n', &mut rest)?;
                self.header = Some(format!("{LENGTH}{}", String::from_utf8_lossy(&rest).trim_end()));
                return Ok(true);
            }
            if last.len() > 2 * LENGTH.len() {
                last = last.chars().skip(LENGTH.len()).collect();
            }
        }
    }
}

enum Body {
    Text(Vec<u8>),
    Fault(String),
    End,
}

fn fault(id: Value, code: ErrorCode, why: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code as i32, "message": why}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &str) -> String {
        format!("Content-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn faulty_messages_are_answered_and_the_next_is_read() {
        let good = frame(r#"{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}"#);
        for faulty in [
            frame("{"),
            frame("\u{fffd}[1, 2]"),
            frame("[[[[]]]]"),
            frame(&"[".repeat(100_000)),
            frame(r#"{"id": 7}"#),
            "Content-Length: 18446744073709551615\r\n\r\n{}".to_owned(),
            "Content-Length: 9223372036854775807\r\n\r\n{}".to_owned(),
            "Content-Length: 99999999999\r\n\r\n".to_owned(),
            "Content-Length: -1\r\n\r\n".to_owned(),
            "Content-Length: \r\n\r\n".to_owned(),
            "Content-Type: x\r\n\r\n{}".to_owned(),
            "banana\r\n\r\n".to_owned(),
            "x".repeat(100_000),
            "\r\n".to_owned(),
        ] {
            let text = format!("{faulty}{good}");
            let mut input = Input { from: text.as_bytes(), header: None };
            let mut answers = Vec::new();
            let mut answer = |fault: &Value| {
                answers.push(fault["error"]["code"].as_i64().unwrap());
                Ok(())
            };
            let read = input.read_message(&mut answer).unwrap();
            let start: String = faulty.chars().take(60).collect();
            assert!(matches!(read, Some(Message::Request(one)) if one.method == "shutdown"), "{start:?}");
            assert!(matches!(answers.as_slice(), [-32700 | -32600]), "{start:?}: {answers:?}");
        }
    }
}
