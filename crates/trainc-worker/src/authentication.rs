//! Authentication of the connections between the hosts of a job by a key that all of them have. Each side
//! sends a nonce and proves with HMAC-SHA256 that it has the key, so that a recorded connection cannot be
//! repeated. Before that, only [`HELLO`] + 2 × 32 bytes are read, within [`HANDSHAKE`], from at most
//! [`PENDING`] connections.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use crate::exit::{Code, Failure};

/// Name of the key file, in the directory of the config.
pub const KEY_FILE: &str = "rendezvous.key";

/// Bytes of the first message, which says what a connection is for.
pub(crate) const HELLO: usize = 16;

/// Time that a connection has to authenticate.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Maximum number of connections that have not authenticated yet; the oldest is closed for a new one.
const PENDING: usize = 64;

/// Maximum length of a message in bytes: the addresses of 16,000 ranks.
const LONGEST: u64 = 1 << 20;

/// Maximum length of a text from another host in characters.
const LONGEST_TEXT: usize = 1000;

type Nonce = [u8; 32];

/// Secret of a job, or of one direction of a connection.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Returns the key of 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text.trim()).map(Self)
    }

    /// Returns the text that [`Key::parse`] reads.
    pub fn to_text(&self) -> String {
        to_hex(&self.0)
    }

    /// Reads the key file next to a config.
    pub fn read(config: &Path, hosts: usize) -> Result<Self, Failure> {
        let path = config.with_file_name(KEY_FILE);
        let fail = |why: &str| {
            let shown = path.display();
            Failure::new(
                Code::Config,
                format!(
                    "{hosts} hosts require a key: {shown}: {why}; write the same 64 hexadecimal \
                        digits to this file on every host, for example with `openssl rand -hex 32`"
                ),
            )
        };
        let mut text = String::new();
        let read = std::fs::File::open(&path).and_then(|file| file.take(1024).read_to_string(&mut text));
        read.map_err(|error| fail(&error.to_string()))?;
        Self::parse(&text).ok_or_else(|| fail("not 64 hexadecimal digits"))
    }

    fn hmac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // HMAC pads a key with zeros to the size of the hash's block.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        for part in parts {
            // The length keeps different parts with the same concatenation apart.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }

    /// Returns the HMAC-SHA256 of these parts.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.hmac(parts).finalize().into_bytes().into()
    }

    /// Returns whether this is their HMAC-SHA256, in constant time.
    fn verify(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.hmac(parts).verify_slice(mac).is_ok()
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Returns text of another host with control and direction characters escaped, shortened.
pub(crate) fn printable(text: &str) -> String {
    let direction = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let mut out = String::new();
    for c in text.chars().take(LONGEST_TEXT) {
        if c.is_control() || direction(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Reads exactly `buffer`; unlike a read timeout, the time limit also holds for a peer that sends byte by
/// byte.
fn read_until(mut stream: &TcpStream, buffer: &mut [u8], until: Instant) -> std::io::Result<()> {
    let mut have = 0;
    while have < buffer.len() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer[have..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn nonce() -> std::io::Result<Nonce> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| Error::other(error.to_string()))?;
    Ok(nonce)
}

/// Purposes of the MACs of a handshake, so that none can stand for another.
const PROOF_OF_CLIENT: &[u8] = b"client";
const PROOF_OF_SERVER: &[u8] = b"server";
const TO_CLIENT: &[u8] = b"to client";
const TO_SERVER: &[u8] = b"to server";

/// Reply of a server to a client with another key.
const REJECTED: [u8; 32] = [0; 32];

/// Authenticates an outgoing connection. `context` must be the same on both sides. An error of kind
/// `InvalidData` means that the keys or contexts differ.
pub(crate) fn connect(
    stream: TcpStream,
    key: &Key,
    hello: &[u8; HELLO],
    context: &[u8],
    until: Instant,
) -> std::io::Result<Connection> {
    let _ = stream.set_nodelay(true);
    let mine = nonce()?;
    (&stream).write_all(&[&hello[..], &mine].concat())?;
    let mut theirs = [0; 32];
    read_until(&stream, &mut theirs, until)?;
    let parts = [&hello[..], context, &mine, &theirs];
    let [a, b, c, d] = parts;
    (&stream).write_all(&key.mac(&[PROOF_OF_CLIENT, a, b, c, d]))?;
    let mut proof = [0; 32];
    read_until(&stream, &mut proof, until)?;
    if proof == REJECTED || !key.verify(&[PROOF_OF_SERVER, a, b, c, d], &proof) {
        return Err(ErrorKind::InvalidData.into());
    }
    let session = |direction: &[u8]| Key(key.mac(&[direction, a, b, c, d]));
    Ok(Connection { hello: *hello, stream, outgoing: session(TO_SERVER), incoming: session(TO_CLIENT) })
}

/// Authenticates an incoming connection; none if that fails.
fn accept(
    stream: TcpStream,
    key: &Key,
    context: impl FnOnce(&[u8; HELLO]) -> Option<Vec<u8>>,
) -> Option<Connection> {
    let until = Instant::now() + HANDSHAKE;
    stream.set_nonblocking(false).ok()?;
    stream.set_write_timeout(Some(HANDSHAKE)).ok()?;
    let _ = stream.set_nodelay(true);
    let (mut hello, mut theirs, mut proof) = ([0; HELLO], [0; 32], [0; 32]);
    read_until(&stream, &mut hello, until).ok()?;
    let context = context(&hello)?;
    read_until(&stream, &mut theirs, until).ok()?;
    let mine = nonce().ok()?;
    (&stream).write_all(&mine).ok()?;
    read_until(&stream, &mut proof, until).ok()?;
    let (a, b, c, d) = (&hello[..], &context[..], &theirs[..], &mine[..]);
    if !key.verify(&[PROOF_OF_CLIENT, a, b, c, d], &proof) {
        let _ = (&stream).write_all(&REJECTED);
        return None;
    }
    (&stream).write_all(&key.mac(&[PROOF_OF_SERVER, a, b, c, d])).ok()?;
    let session = |direction: &[u8]| Key(key.mac(&[direction, a, b, c, d]));
    let (outgoing, incoming) = (session(TO_CLIENT), session(TO_SERVER));
    Some(Connection { hello, stream, outgoing, incoming })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Authenticates incoming connections, each in its own thread.
pub(crate) struct Authenticator {
    key: Key,
    pending: Arc<Mutex<VecDeque<Pending>>>,
    accepted: u64,
}

/// A connection that has not authenticated yet, and the thread that waits for it.
struct Pending {
    id: u64,
    stream: TcpStream,
    thread: JoinHandle<()>,
}

impl Authenticator {
    pub(crate) fn new(key: &Key) -> Self {
        Self { key: key.clone(), pending: Arc::default(), accepted: 0 }
    }

    /// Passes the connection to `then` once it has authenticated. `context` returns the context for a hello,
    /// and none for an invalid one.
    pub(crate) fn authenticate(
        &mut self,
        stream: TcpStream,
        context: impl FnOnce(&[u8; HELLO]) -> Option<Vec<u8>> + Send + 'static,
        then: impl FnOnce(Connection) + Send + 'static,
    ) {
        let Ok(copy) = stream.try_clone() else { return };
        self.accepted += 1;
        let id = self.accepted;
        let mut pending = locked(&self.pending);
        // Honest hosts authenticate in milliseconds, so the oldest is the least likely to be one.
        let oldest = if pending.len() < PENDING { None } else { pending.pop_front() };
        drop(pending);
        if let Some(oldest) = oldest {
            let _ = oldest.stream.shutdown(Shutdown::Both);
            // It reads and writes nothing more, so it ends. Else threads would pile up behind the sockets.
            let _ = oldest.thread.join();
        }
        let (key, waiting) = (self.key.clone(), Arc::clone(&self.pending));
        // Locked until the thread is listed: it looks for itself at its end.
        let mut pending = locked(&self.pending);
        let thread = std::thread::Builder::new().spawn(move || {
            let connection = accept(stream, &key, context);
            let mut waiting = locked(&waiting);
            let at = waiting.iter().position(|one| one.id == id);
            let kept = at.and_then(|at| waiting.remove(at)).is_some();
            drop(waiting);
            if let Some(connection) = connection.filter(|_| kept) {
                then(connection);
            }
        });
        pending.extend(thread.ok().map(|thread| Pending { id, stream: copy, thread }));
    }
}

/// An authenticated connection.
pub(crate) struct Connection {
    /// What the client connected for.
    pub(crate) hello: [u8; HELLO],
    /// The stream; bytes sent over it directly are not authenticated.
    pub(crate) stream: TcpStream,
    outgoing: Key,
    incoming: Key,
}

impl Connection {
    /// Returns the ends for authenticated messages.
    pub(crate) fn split(self) -> std::io::Result<(Sender, Receiver)> {
        let reader = BufReader::new(self.stream.try_clone()?);
        Ok((
            Sender { stream: self.stream, key: self.outgoing, count: 0 },
            Receiver { reader, key: self.incoming, count: 0 },
        ))
    }
}

/// Sending end: one line per message, the HMAC of its number and text, then the text as JSON.
pub(crate) struct Sender {
    stream: TcpStream,
    key: Key,
    count: u64,
}

impl Sender {
    pub(crate) fn send(&mut self, message: &impl Serialize) -> std::io::Result<()> {
        let body = serde_json::to_vec(message)?;
        let mac = self.key.mac(&[&self.count.to_le_bytes(), &body]);
        self.count += 1;
        let mut line = to_hex(&mac).into_bytes();
        line.extend_from_slice(&body);
        line.push(b'\n');
        self.stream.write_all(&line)
    }
}

/// Receiving end.
pub(crate) struct Receiver {
    reader: BufReader<TcpStream>,
    key: Key,
    count: u64,
}

impl Receiver {
    pub(crate) fn set_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        self.reader.get_ref().set_read_timeout(Some(timeout))
    }

    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> std::io::Result<T> {
        let mut line = Vec::new();
        self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        if line.pop().is_none() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let invalid = || Error::from(ErrorKind::InvalidData);
        let (mac, body) = line.split_at_checked(64).ok_or_else(invalid)?;
        let mac = std::str::from_utf8(mac).ok().and_then(from_hex).ok_or_else(invalid)?;
        if !self.key.verify(&[&self.count.to_le_bytes(), body], &mac) {
            return Err(invalid());
        }
        self.count += 1;
        Ok(serde_json::from_slice(body)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn key(byte: u8) -> Key {
        Key([byte; 32])
    }

    const PURPOSE: [u8; HELLO] = *b"trainc/2 testing";

    /// Connects with these keys and contexts. Returns what both sides have.
    fn meet(
        ours: u8,
        theirs: u8,
        context: [&'static [u8]; 2],
    ) -> (std::io::Result<Connection>, Option<Connection>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            accept(stream, &key(theirs), |_| Some(context[1].to_vec()))
        });
        let until = Instant::now() + HANDSHAKE;
        let client = connect(stream, &key(ours), &PURPOSE, context[0], until);
        (client, server.join().unwrap())
    }

    #[test]
    fn only_the_same_key_and_context_connect() {
        for (keys, context) in [([1, 2], [b"a", b"a"]), ([1, 1], [b"a", b"b"])] {
            let (client, server) = meet(keys[0], keys[1], context.map(|one| &one[..]));
            assert_eq!(client.err().unwrap().kind(), ErrorKind::InvalidData);
            assert!(server.is_none());
        }
        let (client, server) = meet(1, 1, [b"a", b"a"]);
        let ((mut to, _), (_, mut from)) =
            (client.unwrap().split().unwrap(), server.unwrap().split().unwrap());
        to.send(&"first").unwrap();
        to.send(&"second").unwrap();
        assert_eq!(from.receive::<String>().unwrap(), "first");
        // A repeated message has the number of another one.
        from.count = 0;
        assert_eq!(from.receive::<String>().unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_recorded_connection_cannot_be_repeated() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            [0, 1].map(|_| {
                let (stream, _) = listener.accept().unwrap();
                accept(stream, &key(1), |_| Some(Vec::new())).is_some()
            })
        });
        // A relay that records what the client sends.
        let relay = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let there = relay.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let stream = TcpStream::connect(there).unwrap();
            connect(stream, &key(1), &PURPOSE, &[], Instant::now() + HANDSHAKE).is_ok()
        });
        let (mut from, mut to) = (relay.accept().unwrap().0, TcpStream::connect(address).unwrap());
        let (mut first, mut proof, mut answer) = ([0; HELLO + 32], [0; 32], [0; 32]);
        from.read_exact(&mut first).unwrap();
        to.write_all(&first).unwrap();
        to.read_exact(&mut answer).unwrap();
        from.write_all(&answer).unwrap();
        from.read_exact(&mut proof).unwrap();
        to.write_all(&proof).unwrap();
        to.read_exact(&mut answer).unwrap();
        from.write_all(&answer).unwrap();
        assert!(client.join().unwrap());
        let mut again = TcpStream::connect(address).unwrap();
        again.write_all(&first).unwrap();
        again.read_exact(&mut answer).unwrap();
        again.write_all(&proof).unwrap();
        again.read_exact(&mut answer).unwrap();
        assert_eq!(answer, REJECTED);
        assert_eq!(server.join().unwrap(), [true, false]);
    }

    #[test]
    fn messages_are_bounded() {
        let (client, server) = meet(1, 1, [b"", b""]);
        let (_, mut from) = server.unwrap().split().unwrap();
        let stream = client.unwrap().stream;
        let writer = std::thread::spawn(move || {
            // Ends with an error when the other side closes.
            while (&stream).write_all(&[b'a'; 1 << 12]).is_ok() {}
        });
        assert_eq!(from.receive::<String>().unwrap_err().kind(), ErrorKind::InvalidData);
        drop(from);
        drop(writer);
    }

    #[test]
    fn keys_and_texts() {
        let text = "0123456789abcdef".repeat(4);
        assert_eq!(Key::parse(&format!("{text}\n")).unwrap().to_text(), text);
        assert!(Key::parse(&text[1..]).is_none());
        assert!(Key::parse(&text.replace('0', "g")).is_none());
        assert!(Key::parse(&"é".repeat(32)).is_none());
        assert_eq!(format!("{:?}", key(7)), "Key");
        assert_eq!(printable("a\u{1b}[2J\u{202e}é"), "a\\u{1b}[2J\\u{202e}é");
        assert_eq!(printable(&"x".repeat(5000)).len(), LONGEST_TEXT);
    }
}
