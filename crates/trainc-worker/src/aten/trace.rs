//! Record of a thread's calls of libtorch, for a replay with PyTorch's fake CUDA tensors: each operator with
//! its arguments, and the sizes, strides and formats of its results. Where a GPU has other operators than a
//! CPU, the record has the GPU's: [`instead`].

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io::Write;

use serde_json::{Value, json};

use super::ffi::{Argument, Tensor};

thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(1) };
    static SINK: RefCell<Option<Box<dyn Write>>> = const { RefCell::new(None) };
    static MUTED: Cell<u32> = const { Cell::new(0) };
}

/// Returns a new number for a tensor.
pub(super) fn next_id() -> u64 {
    NEXT.replace(NEXT.get() + 1)
}

/// Starts recording this thread's calls, one JSON array a line.
pub fn start(sink: Box<dyn Write>) {
    SINK.set(Some(sink));
}

/// Stops recording.
pub fn stop() {
    SINK.set(None);
}

/// Returns whether calls are recorded.
pub fn is_active() -> bool {
    SINK.with_borrow(Option::is_some)
}

/// Runs `work` without recording its calls.
pub fn muted<R>(work: impl FnOnce() -> R) -> R {
    MUTED.set(MUTED.get() + 1);
    let result = work();
    MUTED.set(MUTED.get() - 1);
    result
}

fn record(line: impl FnOnce() -> Value) {
    if MUTED.get() > 0 {
        return;
    }
    SINK.with_borrow_mut(|sink| {
        if let Some(sink) = sink {
            // A record that cannot be written is incomplete, which the replay reports.
            let _ = writeln!(sink, "{}", line());
        }
    });
}

fn described(tensor: &Tensor) -> Value {
    match tensor.describe() {
        Ok(Some((sizes, strides, kind))) => json!([tensor.id(), sizes, strides, kind]),
        _ => json!([tensor.id(), null]),
    }
}

fn argument(argument: &Argument<'_>) -> Value {
    match argument {
        Argument::T(tensor) => json!({"tensor": tensor.id()}),
        Argument::Ts(tensors) => json!({"tensors": tensors.iter().map(|t| t.id()).collect::<Vec<_>>()}),
        Argument::None => Value::Null,
        Argument::I(value) => json!(value),
        Argument::F(value) => json!({"float": value}),
        Argument::B(value) => json!(value),
        Argument::Is(values) => json!(values),
        Argument::Bs(values) => json!(values),
        Argument::S(text) => json!(text),
        Argument::K(kind) => {
            let mut name = String::new();
            let _ = write!(name, "{kind:?}");
            json!({"kind": name})
        }
    }
}

pub(super) fn empty(tensor: &Tensor) {
    record(|| json!(["empty", described(tensor)]));
}

pub(super) fn view(view: &Tensor, of: &Tensor, at: usize) {
    record(|| json!(["view", described(view), of.id(), at]));
}

pub(super) fn copy(to: &Tensor, from: &Tensor) {
    record(|| json!(["copy", to.id(), from.id()]));
}

pub(super) fn add(sum: &Tensor, a: &Tensor, b: &Tensor, alpha: f64) {
    record(|| json!(["add", described(sum), a.id(), b.id(), alpha]));
}

pub(super) fn call(name: &str, arguments: &[Argument<'_>], outputs: &[Tensor]) {
    record(|| {
        let outputs: Vec<Value> = outputs.iter().map(described).collect();
        json!(["call", name, arguments.iter().map(argument).collect::<Vec<_>>(), outputs])
    });
}

/// Records a copy that a GPU makes of another result.
pub(super) fn copied(to: &Tensor, from: &Tensor) {
    copy(to, from);
}

/// Records a GPU's operator in place of what was called. Each result is given by the tensor that replaces it,
/// whose sizes and format it must have; by its number alone if nothing does; or none for an integer.
pub(super) fn instead(name: &str, arguments: &[Argument<'_>], outputs: &[Stand<'_>]) {
    record(|| {
        let outputs: Vec<Value> = outputs
            .iter()
            .map(|output| match output {
                Stand::For(tensor) => described(tensor),
                Stand::Unknown(tensor) => json!([tensor.id()]),
                Stand::Integer => Value::Null,
            })
            .collect();
        json!(["call", name, arguments.iter().map(argument).collect::<Vec<_>>(), outputs])
    });
}

/// What replaces a result of a GPU's operator on a CPU.
pub(super) enum Stand<'a> {
    /// A tensor of the same sizes and format.
    For(&'a Tensor),
    /// A tensor that only has its number.
    Unknown(&'a Tensor),
    /// Nothing: the result is an integer.
    Integer,
}
