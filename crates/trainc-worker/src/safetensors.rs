//! Safetensors files: eight bytes of header length, a JSON header, the tensors' bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::data::tokens::hex;

/// A tensor of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `F32`, `F16` or `BF16`.
    pub dtype: String,
    /// Shape, outermost dimension first.
    pub shape: Vec<usize>,
    start: u64,
    bytes: usize,
}

/// An open safetensors file.
#[derive(Debug)]
pub struct Reader {
    file: File,
    /// Tensors by name.
    pub entries: BTreeMap<String, Entry>,
}

fn bad(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

impl Reader {
    /// Reads and checks the header.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut length = [0u8; 8];
        file.read_exact_at(&mut length, 0)?;
        let length = u64::from_le_bytes(length);
        if length > size.saturating_sub(8) || length > 100 << 20 {
            return Err(bad("the header exceeds the size of the file"));
        }
        let mut header = vec![0u8; length as usize];
        file.read_exact_at(&mut header, 8)?;
        let header: BTreeMap<String, Value> = serde_json::from_slice(&header)?;
        let mut entries = BTreeMap::new();
        for (name, value) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
            let entry = (|| {
                let numbers = |key: &str| -> Option<Vec<u64>> {
                    value.get(key)?.as_array()?.iter().map(Value::as_u64).collect()
                };
                let shape: Vec<usize> = numbers("shape")?.into_iter().map(|n| n as usize).collect();
                let offsets = numbers("data_offsets")?;
                let (from, to) = (*offsets.first()?, *offsets.get(1)?);
                let dtype = value.get("dtype")?.as_str()?.to_owned();
                let width = if dtype == "F32" { 4 } else { 2 };
                let elements = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
                let bytes = to.checked_sub(from)? as usize;
                let known = matches!(dtype.as_str(), "F32" | "F16" | "BF16");
                let end = (8 + length).checked_add(to)?;
                let fits = elements.checked_mul(width)? == bytes && end <= size;
                // `from` is at most `to`.
                (!known || fits).then_some(Entry { dtype, shape, start: end - to + from, bytes })
            })();
            let entry = entry.ok_or_else(|| bad(format!("tensor `{name}` exceeds the file")))?;
            entries.insert(name, entry);
        }
        Ok(Self { file, entries })
    }

    /// Reads a tensor as f32.
    pub fn read(&self, name: &str) -> io::Result<Vec<f32>> {
        let elements = self.entries.get(name).map_or(0, |entry| entry.shape.iter().product());
        self.read_range(name, 0, elements)
    }

    /// Reads elements `from..to` of a tensor as f32, and no others.
    pub fn read_range(&self, name: &str, from: usize, to: usize) -> io::Result<Vec<f32>> {
        let entry = self.entries.get(name).ok_or_else(|| bad(format!("tensor `{name}` not found")))?;
        if !matches!(entry.dtype.as_str(), "F32" | "F16" | "BF16") {
            return Err(bad(format!("tensor `{name}` has the unsupported type {}", entry.dtype)));
        }
        let width = width(&entry.dtype);
        if from > to || to * width > entry.bytes {
            return Err(bad(format!("tensor `{name}` has no elements {from}..{to}")));
        }
        let mut bytes = vec![0u8; (to - from) * width];
        self.file.read_exact_at(&mut bytes, entry.start + (from * width) as u64)?;
        let halves = || bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        Ok(match entry.dtype.as_str() {
            "BF16" => halves().map(|h| f32::from_bits(u32::from(h) << 16)).collect(),
            "F16" => halves().map(half).collect(),
            _ => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        })
    }
}

/// Returns the bytes of an element.
pub fn width(dtype: &str) -> usize {
    if dtype == "F32" { 4 } else { 2 }
}

/// Returns the largest finite number of a type.
fn largest(dtype: &str) -> f32 {
    match dtype {
        "F16" => 65_504.0,
        "BF16" => f32::from_bits(0x7f7f_0000),
        _ => f32::MAX,
    }
}

/// Returns the smallest number that rounds to infinity: half a step above the largest.
fn overflow_threshold(dtype: &str) -> f32 {
    match dtype {
        "F16" => 65_520.0,
        "BF16" => f32::from_bits(0x7f7f_8000),
        _ => f32::INFINITY,
    }
}

/// Converts single to IEEE half precision, to nearest even.
fn to_half(x: f32) -> u16 {
    let (sign, size) = ((x.to_bits() >> 16 & 0x8000) as u16, x.abs());
    if x.is_nan() {
        return sign | 0x7e00;
    }
    if size >= 65_520.0 {
        return sign | 0x7c00;
    }
    // Below 2^-14 halves are 2^-24 apart; above, each power of two has 1,024.
    let exponent = if size < 2f32.powi(-14) { -14 } else { ((size.to_bits() >> 23) as i32) - 127 };
    let steps = (size * 2f32.powi(10 - exponent)).round_ties_even() as u32;
    sign | (((exponent + 14) as u32) << 10).wrapping_add(steps) as u16
}

/// Converts single precision to bfloat16, to nearest even.
fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Converts IEEE half to single precision.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    match exponent {
        0 => sign * mantissa * 2f32.powi(-24),
        31 if mantissa == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + mantissa / 1024.0) * 2f32.powi(exponent - 15),
    }
}

/// Writes f32 tensors and syncs the file. Returns its SHA-256 and size in bytes.
pub fn write(
    path: &Path,
    metadata: &BTreeMap<String, String>,
    tensors: &[(String, Vec<usize>, &[f32])],
) -> io::Result<(String, u64)> {
    write_as(path, "F32", metadata, tensors)
}

/// Writes tensors as `F32`, `BF16` or `F16` and syncs the file. Returns its SHA-256 and size in bytes.
pub fn write_as(
    path: &Path,
    dtype: &str,
    metadata: &BTreeMap<String, String>,
    tensors: &[(String, Vec<usize>, &[f32])],
) -> io::Result<(String, u64)> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), json!(metadata));
    let mut at = 0usize;
    for (name, shape, data) in tensors {
        let end = at + width(dtype) * data.len();
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]}));
        at = end;
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = File::create(path)?;
    let mut hash = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hash.update(bytes);
        file.write_all(bytes)
    };
    put(&(header.len() as u64).to_le_bytes())?;
    put(&header)?;
    let mut buffer = Vec::with_capacity(1 << 18);
    for (name, _, data) in tensors {
        for chunk in data.chunks(1 << 16) {
            if let Some(value) = chunk.iter().find(|v| v.is_finite() && v.abs() >= overflow_threshold(dtype))
            {
                return Err(bad(format!(
                    "tensor `{name}` contains {value:e}, but the largest {dtype} number is {:e}",
                    largest(dtype)
                )));
            }
            buffer.clear();
            match dtype {
                "BF16" => buffer.extend(chunk.iter().flat_map(|v| to_bf16(*v).to_le_bytes())),
                "F16" => buffer.extend(chunk.iter().flat_map(|v| to_half(*v).to_le_bytes())),
                _ => buffer.extend(chunk.iter().flat_map(|v| v.to_le_bytes())),
            }
            put(&buffer)?;
        }
    }
    let digest = hex(&hash.finalize());
    file.sync_all()?;
    Ok((digest, 8 + header.len() as u64 + at as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_cannot_hold_is_named() {
        let path = std::env::temp_dir().join(format!("trainc-safetensors-{}", std::process::id()));
        let write = |dtype: &str, value: f32| {
            let data = [1.0, value];
            let written =
                write_as(&path, dtype, &BTreeMap::new(), &[("x.weight".to_owned(), vec![2], &data)]);
            written
                .map(|_| Reader::open(&path).unwrap().read("x.weight").unwrap()[1])
                .map_err(|e| e.to_string())
        };
        assert_eq!(write("F16", 65_519.0), Ok(65_504.0));
        assert_eq!(
            write("F16", -65_520.0).unwrap_err(),
            "tensor `x.weight` contains -6.552e4, but the largest F16 number is 6.5504e4"
        );
        let (most, over) = (f32::from_bits(0x7f7f_7fff), f32::from_bits(0x7f7f_8000));
        assert_eq!(write("BF16", most), Ok(f32::from_bits(0x7f7f_0000)));
        assert!(write("BF16", over).unwrap_err().contains("`x.weight`"));
        assert_eq!(write("F32", f32::MAX), Ok(f32::MAX));
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn halves_go_there_and_back() {
        for bits in 0..=u16::MAX {
            let value = half(bits);
            if value.is_nan() {
                assert!(half(to_half(value)).is_nan());
            } else {
                assert_eq!(to_half(value), bits, "{value:e}");
            }
        }
        // Ties go to even, and what is too large to infinity.
        assert_eq!(
            [2049.0, 2051.0, 65_519.0, 65_520.0].map(|x| half(to_half(x))),
            [2048.0, 2052.0, 65_504.0, f32::INFINITY]
        );
        assert_eq!(half(to_half(2f32.powi(-25))), 0.0);
        assert_eq!(half(to_half(1.5 * 2f32.powi(-25))), 2f32.powi(-24));
        assert_eq!([1.003_906_2f32, 1.011_718_8].map(to_bf16), [0x3f80, 0x3f82]);
    }
}
