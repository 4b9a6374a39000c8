//! Foreign functions: libtorch through its stable C interface, NCCL and libcudart, all loaded at run time.
//! Together with `comm::shared_memory` the only unsafe code of the worker.
//!
//! Why the safe functions here are sound:
//! - Functions are looked up by name in libraries that [`load`] accepts only in the versions of
//!   `schemas.tsv`, with the signatures that PyTorch's `torch/csrc/inductor/aoti_torch/c/shim.h` and
//!   `torch/csrc/stable/c/shim.h`, NCCL's `nccl.h` and CUDA's `cuda_runtime_api.h` declare for these
//!   versions.
//! - An operator is called only with the number and kinds of arguments of its schema in `schemas.tsv`:
//!   [`call`] checks every call, because libtorch does not.
//! - A [`Tensor`] owns one reference of PyTorch's tensor, and a view another of its storage. Views are taken
//!   only of tensors that this crate allocated, within their storage.
//! - A collective reads and writes only [`Buffer`]s. [`Links`] keeps a reference of the storage of each and
//!   drops it after its stream is idle, so that no memory is freed while a collective may access it.
#![allow(
    unsafe_code,
    reason = "libraries that are loaded at run time are outside what the compiler can check"
)]
#![allow(non_snake_case, reason = "functions have the names of their libraries")]

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::find::VARIABLE;
use super::schemas::{FIRST, LAST, Operators, Type};
use super::trace;
use crate::exit::{Code, Failure};

type Handle = *mut c_void;

/// Declares a table of functions that are loaded by name.
macro_rules! functions {
    ($name:ident { $($function:ident: fn($($argument:ty),*) -> $result:ty;)* }) => {
        #[derive(Clone, Copy)]
        #[allow(clippy::struct_field_names, reason = "functions have the names of their libraries")]
        struct $name { $($function: unsafe extern "C" fn($($argument),*) -> $result,)* }
        impl $name {
            /// Looks up all functions.
            ///
            /// # Safety
            /// The library must be of a version in which the functions have these signatures, and is never
            /// unloaded.
            unsafe fn lookup(library: &Library) -> Result<Self, Failure> {
                Ok(Self { $($function: {
                    // SAFETY: the caller's promise.
                    let symbol = unsafe { library.get(concat!(stringify!($function), "\0").as_bytes()) };
                    *symbol.map_err(|error| missing(&error))?
                },)* })
            }
        }
    };
}

functions!(Torch {
    aoti_torch_call_dispatcher: fn(*const c_char, *const c_char, *mut u64) -> i32;
    aoti_torch_new_tensor_handle: fn(Handle, *mut Handle) -> i32;
    aoti_torch_new_uninitialized_tensor: fn(*mut Handle) -> i32;
    aoti_torch_delete_tensor_object: fn(Handle) -> i32;
    aoti_torch__reinterpret_tensor: fn(Handle, i64, *const i64, *const i64, i64, *mut Handle) -> i32;
    aoti_torch_empty_strided: fn(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> i32;
    aoti_torch_copy_: fn(Handle, Handle, i32) -> i32;
    aoti_torch_create_tensor_from_blob:
        fn(Handle, i64, *const i64, *const i64, i64, i32, i32, i32, *mut Handle) -> i32;
    aoti_torch_get_data_ptr: fn(Handle, *mut Handle) -> i32;
    aoti_torch_is_defined: fn(Handle, *mut bool) -> i32;
    aoti_torch_get_numel: fn(Handle, *mut i64) -> i32;
    aoti_torch_get_dim: fn(Handle, *mut i64) -> i32;
    aoti_torch_get_dtype: fn(Handle, *mut i32) -> i32;
    aoti_torch_get_sizes: fn(Handle, *mut *const i64) -> i32;
    aoti_torch_get_strides: fn(Handle, *mut *const i64) -> i32;
    aoti_torch_cpu_add_Tensor: fn(Handle, Handle, f64, *mut Handle) -> i32;
    aoti_torch_grad_mode_set_enabled: fn(bool) -> ();
    aoti_torch_device_type_cpu: fn() -> i32;
    aoti_torch_device_type_cuda: fn() -> i32;
    aoti_torch_dtype_float32: fn() -> i32;
    aoti_torch_dtype_float64: fn() -> i32;
    aoti_torch_dtype_bfloat16: fn() -> i32;
    aoti_torch_dtype_int64: fn() -> i32;
    aoti_torch_dtype_int32: fn() -> i32;
    torch_new_list_reserve_size: fn(usize, *mut Handle) -> i32;
    torch_list_push_back: fn(Handle, u64) -> i32;
    torch_new_string_handle: fn(*const c_char, usize, *mut Handle) -> i32;
});

functions!(TorchCuda {
    aoti_torch_cuda_add_Tensor: fn(Handle, Handle, f64, *mut Handle) -> i32;
    aoti_torch_cuda__scaled_dot_product_cudnn_attention: fn(
        Handle, Handle, Handle, *const Handle, i32, f64, i32, i32, *const f64,
        *mut Handle, *mut Handle, *mut Handle, *mut Handle, *mut i64, *mut i64, *mut Handle, *mut Handle, *mut Handle
    ) -> i32;
});

/// Since PyTorch 2.13.
#[derive(Clone, Copy)]
struct Torch213 {
    torch_new_stable_ivalue: unsafe extern "C" fn(*mut *mut u64) -> i32,
    torch_exception_get_what_without_backtrace: unsafe extern "C" fn() -> *const c_char,
}

/// The loaded libtorch.
struct Loaded {
    torch: Torch,
    newer: Option<Torch213>,
    kernels: Option<TorchCuda>,
    operators: Operators,
    version: (u64, u64, u64),
    cpu: i32,
    cuda: i32,
    kinds: [(Kind, i32); 5],
}

impl Loaded {
    fn kernels(&self) -> Result<&TorchCuda, Failure> {
        self.kernels.as_ref().ok_or_else(|| bug("libtorch was loaded without CUDA"))
    }
}

static LOADED: OnceLock<Result<Loaded, Failure>> = OnceLock::new();

/// Number format of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 4 bytes.
    F32,
    /// 8 bytes.
    F64,
    /// 2 bytes.
    Bf16,
    /// 8 bytes.
    I64,
    /// 4 bytes.
    I32,
}

impl Kind {
    /// Returns the bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
            Self::Bf16 => 2,
        }
    }

    /// Returns PyTorch's number of the format.
    fn code(self) -> Result<i32, Failure> {
        Ok(self.code_in(loaded()?))
    }

    fn code_in(self, torch: &Loaded) -> i32 {
        torch.kinds.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, code)| *code)
    }

    /// Returns NCCL's number of the format (`ncclDataType_t` of nccl.h); none for integers, which are never
    /// sent.
    fn nccl(self) -> Option<c_int> {
        match self {
            Self::F32 => Some(7),
            Self::F64 => Some(8),
            Self::Bf16 => Some(9),
            Self::I64 | Self::I32 => None,
        }
    }
}

/// Elements that a tensor can be made from.
#[allow(private_bounds, reason = "no other type implements it")]
pub(crate) trait Element: Copy + Default + private::Sealed {
    /// Their format.
    const KIND: Kind;
}

mod private {
    pub(crate) trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for i64 {}
    impl Sealed for i32 {}
}

impl Element for f32 {
    const KIND: Kind = Kind::F32;
}
impl Element for f64 {
    const KIND: Kind = Kind::F64;
}
impl Element for i64 {
    const KIND: Kind = Kind::I64;
}
impl Element for i32 {
    const KIND: Kind = Kind::I32;
}

/// Describes a library or function that is missing, in dlopen's words.
fn missing(error: &libloading::Error) -> Failure {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let ((first, a), (last, b)) = (FIRST, LAST);
    Failure::new(
        Code::Device,
        format!(
            "{cause}; use an image with PyTorch {first}.{a} to {last}.{b} and its NCCL, or set \
                {VARIABLE} to its torch/lib"
        ),
    )
}

fn bug(what: impl Into<String>) -> Failure {
    Failure::new(Code::Bug, what)
}

fn loaded() -> Result<&'static Loaded, Failure> {
    match LOADED.get() {
        Some(Ok(torch)) => Ok(torch),
        Some(Err(failure)) => Err(failure.clone()),
        None => Err(bug("libtorch is used before it is loaded")),
    }
}

fn open(path: &Path) -> Result<Library, Failure> {
    // SAFETY: loading runs the initialisers of PyTorch's own libraries, as `import torch` does. The path is
    // that of the container's PyTorch, or one that the operator of the job names.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|error| missing(&error))
}

/// Returns the first of these libraries that is already loaded.
pub(crate) fn find_loaded(names: &[&str]) -> Result<PathBuf, Failure> {
    /// `RTLD_NOLOAD` of Linux: succeeds only if the library is loaded.
    const NO_LOAD: c_int = 4;
    let mut last = None;
    for name in names {
        // SAFETY: runs no initialiser, since nothing is loaded.
        match unsafe { Library::open(Some(*name), RTLD_NOW | NO_LOAD) } {
            Ok(_) => return Ok(PathBuf::from(name)),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map(|error| format!(": {error}")).unwrap_or_default();
    Err(Failure::new(Code::Device, format!("libtorch has not loaded {}{why}", names.join(" or "))))
}

/// Loads libtorch from `directory`, `torch/lib` of an installed PyTorch; with `cuda` also its CUDA kernels.
/// Must be called on every thread that uses tensors. Fails with code 14 if a library or function is missing
/// or the version unknown.
pub(crate) fn load(directory: &Path, cuda: bool) -> Result<(), Failure> {
    LOADED.get_or_init(|| load_once(directory, cuda));
    let torch = loaded()?;
    if cuda && torch.kernels.is_none() {
        return Err(bug("libtorch was loaded without CUDA before"));
    }
    // SAFETY: sets a flag of this thread. Gradients are computed here, never recorded.
    unsafe { (torch.torch.aoti_torch_grad_mode_set_enabled)(false) };
    Ok(())
}

fn load_once(directory: &Path, cuda: bool) -> Result<Loaded, Failure> {
    // Libraries are never unloaded: libtorch registers functions to run at exit.
    std::mem::forget(open(&directory.join("libc10.so"))?);
    let library = open(&directory.join("libtorch_cpu.so"))?;
    // SAFETY: this function has had this signature since it exists; it decides whether the others are used.
    let version = unsafe { library.get::<unsafe extern "C" fn() -> u64>(b"aoti_torch_abi_version\0") };
    let version = version.map_err(|error| missing(&error))?;
    // SAFETY: as above. The version is in the upper bytes: major, minor, patch.
    let bytes = unsafe { version() }.to_be_bytes();
    let version = (u64::from(bytes[0]), u64::from(bytes[1]), u64::from(bytes[2]));
    let operators = Operators::of_version(version.0, version.1)?;
    // SAFETY: the version is known, and the library is forgotten below.
    let torch = unsafe { Torch::lookup(&library) }?;
    let mut kernels = None;
    if cuda {
        let library = open(&directory.join("libtorch_cuda.so"))?;
        // SAFETY: as for `Torch`.
        kernels = Some(unsafe { TorchCuda::lookup(&library) }?);
        std::mem::forget(library);
    }
    let newer = (version >= (2, 13, 0)).then(|| {
        // SAFETY: as for `Torch`.
        unsafe {
            Ok::<_, Failure>(Torch213 {
                torch_new_stable_ivalue: *library
                    .get(b"torch_new_stable_ivalue\0")
                    .map_err(|error| missing(&error))?,
                torch_exception_get_what_without_backtrace: *library
                    .get(b"torch_exception_get_what_without_backtrace\0")
                    .map_err(|error| missing(&error))?,
            })
        }
    });
    std::mem::forget(library);
    // SAFETY: functions without arguments that return constants.
    let (cpu, gpu, kinds) = unsafe {
        (
            (torch.aoti_torch_device_type_cpu)(),
            (torch.aoti_torch_device_type_cuda)(),
            [
                (Kind::F32, (torch.aoti_torch_dtype_float32)()),
                (Kind::F64, (torch.aoti_torch_dtype_float64)()),
                (Kind::Bf16, (torch.aoti_torch_dtype_bfloat16)()),
                (Kind::I64, (torch.aoti_torch_dtype_int64)()),
                (Kind::I32, (torch.aoti_torch_dtype_int32)()),
            ],
        )
    };
    Ok(Loaded { torch, newer: newer.transpose()?, kernels, operators, version, cpu, cuda: gpu, kinds })
}

/// Returns the version of the loaded libtorch: major, minor, patch.
pub fn version() -> Result<(u64, u64, u64), Failure> {
    Ok(loaded()?.version)
}

/// Checks the result of a function of libtorch.
fn check(what: &str, result: i32) -> Result<(), Failure> {
    if result == 0 {
        return Ok(());
    }
    let text = loaded()?.newer.map(|newer| {
        // SAFETY: returns the text of this thread's last exception, which is valid until the next one.
        unsafe { CStr::from_ptr((newer.torch_exception_get_what_without_backtrace)()) }
            .to_string_lossy()
            .into_owned()
    });
    let text = text.unwrap_or_else(|| "see libtorch's message above".to_owned());
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim();
    if line.contains("out of memory") {
        let remedy = "reduce the micro-batch, increase the shard degree or recompute blocks";
        return Err(Failure::new(Code::Config, format!("{what}: {line}; {remedy}")));
    }
    Err(Failure::new(Code::Device, format!("{what}: {line}")))
}

thread_local! {
    /// Operations that this thread has issued; a test double of NCCL reads it.
    static ISSUED: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count_operation() {
    ISSUED.set(ISSUED.get() + 1);
}

/// Returns the bytes of this thread's tensors, now and at most since [`reset_peak`].
pub fn allocated() -> (usize, usize) {
    (LIVE.get(), PEAK.get())
}

/// Starts measuring the most bytes anew.
pub(super) fn reset_peak() {
    PEAK.set(LIVE.get());
}

/// Bytes of one storage, counted while a tensor refers to it.
#[derive(Debug)]
struct Storage(usize);

impl Storage {
    fn new(bytes: usize) -> Rc<Self> {
        LIVE.set(LIVE.get() + bytes);
        PEAK.set(PEAK.get().max(LIVE.get()));
        Rc::new(Self(bytes))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - self.0);
    }
}

/// A tensor. When the last one of a storage is dropped, the allocator may give its memory to later work of
/// the compute stream.
#[derive(Debug)]
pub(crate) struct Tensor {
    handle: Handle,
    storage: Rc<Storage>,
    /// Elements from its first one that a view may contain; 0 for results of operators, whose layout is not
    /// specified.
    span: usize,
    /// Number in a trace.
    id: u64,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if let Ok(torch) = loaded() {
            // SAFETY: this handle is owned and not used again.
            unsafe { (torch.torch.aoti_torch_delete_tensor_object)(self.handle) };
        }
    }
}

/// Sizes, strides and PyTorch's number of the format.
pub(super) type Described = (Vec<i64>, Vec<i64>, i32);

/// Where tensors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Host memory.
    Cpu,
    /// The first GPU that is visible to this process.
    Cuda,
}

/// Returns the strides of a contiguous tensor.
pub(crate) fn contiguous(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i] * sizes[i];
    }
    strides
}

fn elements(sizes: &[i64]) -> Result<usize, Failure> {
    let product = sizes.iter().try_fold(1i64, |n, size| n.checked_mul(*size).filter(|n| *n >= 0));
    product
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| bug(format!("no tensor has the sizes {sizes:?}")))
}

impl Tensor {
    fn own(handle: Handle, storage: Rc<Storage>, span: usize) -> Self {
        Self { handle, storage, span, id: trace::next_id() }
    }

    /// Allocates a contiguous tensor without values.
    pub(crate) fn empty(sizes: &[i64], kind: Kind, place: Place) -> Result<Self, Failure> {
        let torch = loaded()?;
        let count = elements(sizes)?;
        let device = if place == Place::Cpu { torch.cpu } else { torch.cuda };
        let mut handle = null_mut();
        // SAFETY: pointers and lengths of slices that outlive the call; the new handle is owned.
        let result = unsafe {
            (torch.torch.aoti_torch_empty_strided)(
                sizes.len() as i64,
                sizes.as_ptr(),
                contiguous(sizes).as_ptr(),
                kind.code_in(torch),
                device,
                0,
                &raw mut handle,
            )
        };
        check("empty", result)?;
        let tensor = Self::own(handle, Storage::new(count * kind.bytes()), count);
        trace::empty(&tensor);
        Ok(tensor)
    }

    /// Returns an undefined tensor, which some operators take for an absent one.
    pub(crate) fn undefined() -> Result<Self, Failure> {
        let torch = loaded()?;
        let mut handle = null_mut();
        // SAFETY: the new handle is owned.
        check("undefined", unsafe { (torch.torch.aoti_torch_new_uninitialized_tensor)(&raw mut handle) })?;
        Ok(Self::own(handle, Storage::new(0), 0))
    }

    /// Returns a view of the same storage with these sizes and strides, from element `at` of this tensor on.
    pub(crate) fn strided(&self, sizes: &[i64], strides: &[i64], at: usize) -> Result<Self, Failure> {
        let torch = loaded()?;
        let last: i64 = sizes.iter().zip(strides).map(|(size, stride)| (size - 1).max(0) * stride).sum();
        let negative = sizes.iter().chain(strides).any(|n| *n < 0);
        let end = usize::try_from(last).ok().and_then(|last| at.checked_add(last)?.checked_add(1));
        if negative || sizes.len() != strides.len() || end.is_none_or(|end| end > self.span) {
            return Err(bug(format!("view {sizes:?}, {strides:?} at {at} of {} elements", self.span)));
        }
        let mut handle = null_mut();
        // SAFETY: pointers and lengths of slices that outlive the call. The view is inside the storage (the
        // check above), which it keeps alive; the offset counts from this tensor's own.
        let result = unsafe {
            (torch.torch.aoti_torch__reinterpret_tensor)(
                self.handle,
                sizes.len() as i64,
                sizes.as_ptr(),
                strides.as_ptr(),
                at as i64,
                &raw mut handle,
            )
        };
        check("view", result)?;
        let view = Self::own(handle, Rc::clone(&self.storage), self.span - at);
        trace::view(&view, self, at);
        Ok(view)
    }

    /// Returns a contiguous view from element `at` on.
    pub(crate) fn view(&self, sizes: &[i64], at: usize) -> Result<Self, Failure> {
        self.strided(sizes, &contiguous(sizes), at)
    }

    /// Replaces the values by those of a tensor of the same sizes, converted to this one's format.
    pub(crate) fn copy(&self, from: &Self) -> Result<(), Failure> {
        count_operation();
        trace::copy(self, from);
        // SAFETY: both handles are owned by live tensors.
        check("copy_", unsafe { (loaded()?.torch.aoti_torch_copy_)(self.handle, from.handle, 0) })
    }

    /// Returns self + alpha * other, in the wider of both formats.
    pub(crate) fn plus(&self, other: &Self, alpha: f64, place: Place) -> Result<Self, Failure> {
        let torch = loaded()?;
        let add = match place {
            Place::Cpu => torch.torch.aoti_torch_cpu_add_Tensor,
            Place::Cuda => torch.kernels()?.aoti_torch_cuda_add_Tensor,
        };
        count_operation();
        let mut handle = null_mut();
        // SAFETY: both handles are owned by live tensors; the new handle is owned.
        check("add", unsafe { add(self.handle, other.handle, alpha, &raw mut handle) })?;
        let sum = Self::result(torch, handle)?;
        trace::add(&sum, self, other, alpha);
        Ok(sum)
    }

    /// Takes ownership of an operator's result.
    fn result(torch: &Loaded, handle: Handle) -> Result<Self, Failure> {
        let (mut defined, mut count, mut code) = (false, 0, 0);
        // SAFETY: the handle is owned; the functions write one value each.
        unsafe {
            check("is_defined", (torch.torch.aoti_torch_is_defined)(handle, &raw mut defined))?;
            if defined {
                check("numel", (torch.torch.aoti_torch_get_numel)(handle, &raw mut count))?;
                check("dtype", (torch.torch.aoti_torch_get_dtype)(handle, &raw mut code))?;
            }
        }
        let width = torch.kinds.iter().find(|(_, other)| *other == code).map_or(8, |(kind, _)| kind.bytes());
        let bytes = usize::try_from(count).unwrap_or(0) * width;
        Ok(Self::own(handle, Storage::new(bytes), 0))
    }

    /// Copies values from host memory.
    pub(crate) fn upload<T: Element>(values: &[T], sizes: &[i64], place: Place) -> Result<Self, Failure> {
        if elements(sizes)? != values.len() {
            return Err(bug(format!("{} values for a tensor of {sizes:?}", values.len())));
        }
        let tensor = Self::empty(sizes, T::KIND, place)?;
        tensor.write(values)?;
        Ok(tensor)
    }

    /// Replaces all values of a contiguous tensor that this crate allocated, or of a view of one.
    pub(crate) fn write<T: Element>(&self, values: &[T]) -> Result<(), Failure> {
        self.exchange(values.as_ptr().cast_mut(), values.len(), |tensor, host| {
            // SAFETY: both handles are owned. Without blocking for the compute before it, copying from
            // pageable memory still returns only after the memory was read (CUDA runtime, API synchronization
            // behavior).
            unsafe { (tensor.aoti_torch_copy_)(self.handle, host, 1) }
        })
    }

    /// Returns all values of a contiguous tensor after the work that computes them is done.
    pub(crate) fn read<T: Element>(&self) -> Result<Vec<T>, Failure> {
        let mut count = 0;
        // SAFETY: writes one value.
        check("numel", unsafe { (loaded()?.torch.aoti_torch_get_numel)(self.handle, &raw mut count) })?;
        let mut values = vec![T::default(); usize::try_from(count).unwrap_or(0)];
        self.read_into(&mut values)?;
        Ok(values)
    }

    /// Copies all values of a contiguous tensor after the work that computes them is done.
    pub(crate) fn read_into<T: Element>(&self, values: &mut [T]) -> Result<(), Failure> {
        self.exchange(values.as_mut_ptr(), values.len(), |tensor, host| {
            // SAFETY: both handles are owned. A blocking copy to host memory returns after it was written.
            unsafe { (tensor.aoti_torch_copy_)(host, self.handle, 0) }
        })
    }

    /// Runs `copy` with a tensor over host memory of this tensor's sizes.
    fn exchange<T: Element>(
        &self,
        host: *mut T,
        count: usize,
        copy: impl FnOnce(&Torch, Handle) -> i32,
    ) -> Result<(), Failure> {
        let torch = loaded()?;
        let (sizes, code) = self.sizes_and_code(torch)?;
        if elements(&sizes)? != count || code != T::KIND.code()? {
            return Err(bug(format!("{count} values for a tensor of {sizes:?}, format {code}")));
        }
        let mut handle = null_mut();
        // SAFETY: the blob has `count` elements of this format, which outlive this function; so does nothing
        // else of the tensor over it, since it is deleted below.
        let result = unsafe {
            (torch.torch.aoti_torch_create_tensor_from_blob)(
                host.cast(),
                sizes.len() as i64,
                sizes.as_ptr(),
                contiguous(&sizes).as_ptr(),
                0,
                code,
                torch.cpu,
                0,
                &raw mut handle,
            )
        };
        check("blob", result)?;
        let result = check("copy_", copy(&torch.torch, handle));
        // SAFETY: the handle is owned and not used again.
        unsafe { (torch.torch.aoti_torch_delete_tensor_object)(handle) };
        result
    }

    /// Returns the format of its elements.
    pub(crate) fn kind(&self) -> Result<Kind, Failure> {
        let torch = loaded()?;
        let mut code = 0;
        // SAFETY: writes one value.
        check("dtype", unsafe { (torch.torch.aoti_torch_get_dtype)(self.handle, &raw mut code) })?;
        let kind = torch.kinds.iter().find(|(_, other)| *other == code);
        kind.map(|(kind, _)| *kind).ok_or_else(|| bug(format!("a tensor of format {code}")))
    }

    fn sizes_and_code(&self, torch: &Loaded) -> Result<(Vec<i64>, i32), Failure> {
        let (mut dimensions, mut sizes, mut code) = (0, std::ptr::null(), 0);
        // SAFETY: the functions write one value each.
        unsafe {
            check("dim", (torch.torch.aoti_torch_get_dim)(self.handle, &raw mut dimensions))?;
            check("sizes", (torch.torch.aoti_torch_get_sizes)(self.handle, &raw mut sizes))?;
            check("dtype", (torch.torch.aoti_torch_get_dtype)(self.handle, &raw mut code))?;
        }
        let dimensions = usize::try_from(dimensions).unwrap_or(0);
        if dimensions == 0 {
            return Ok((Vec::new(), code));
        }
        // SAFETY: the sizes of a tensor of this number of dimensions, which lives as long as `self`.
        Ok((unsafe { std::slice::from_raw_parts(sizes, dimensions) }.to_vec(), code))
    }

    /// Returns what a trace says of a tensor: sizes, strides and PyTorch's number of its format; none if
    /// undefined.
    pub(super) fn describe(&self) -> Result<Option<Described>, Failure> {
        let torch = loaded()?;
        let mut defined = false;
        // SAFETY: writes one value.
        check("defined", unsafe { (torch.torch.aoti_torch_is_defined)(self.handle, &raw mut defined) })?;
        if !defined {
            return Ok(None);
        }
        let (sizes, code) = self.sizes_and_code(torch)?;
        let mut strides = std::ptr::null();
        // SAFETY: writes one value.
        check("strides", unsafe { (torch.torch.aoti_torch_get_strides)(self.handle, &raw mut strides) })?;
        let strides = if sizes.is_empty() {
            Vec::new()
        } else {
            // SAFETY: as many strides as sizes, which live as long as `self`.
            unsafe { std::slice::from_raw_parts(strides, sizes.len()) }.to_vec()
        };
        Ok(Some((sizes, strides, code)))
    }

    /// Returns its number in a trace.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns another tensor over the same values.
    pub(crate) fn alias(&self) -> Result<Self, Failure> {
        let mut alias = Self::own(self.duplicate()?, Rc::clone(&self.storage), self.span);
        alias.id = self.id;
        Ok(alias)
    }

    fn duplicate(&self) -> Result<Handle, Failure> {
        let mut handle = null_mut();
        let torch = &loaded()?.torch;
        // SAFETY: the handle is owned by a live tensor; the new one is owned by the caller.
        check("handle", unsafe { (torch.aoti_torch_new_tensor_handle)(self.handle, &raw mut handle) })?;
        Ok(handle)
    }

    fn pointer(&self) -> Result<Handle, Failure> {
        let mut pointer = null_mut();
        let torch = &loaded()?.torch;
        // SAFETY: the handle is owned by a live tensor.
        check("data_ptr", unsafe { (torch.aoti_torch_get_data_ptr)(self.handle, &raw mut pointer) })?;
        Ok(pointer)
    }
}

/// An argument of an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument<'a> {
    /// A tensor.
    T(&'a Tensor),
    /// Several tensors.
    Ts(&'a [&'a Tensor]),
    /// An absent optional argument.
    None,
    /// An integer.
    I(i64),
    /// A number.
    F(f64),
    /// A truth value.
    B(bool),
    /// Several integers.
    Is(&'a [i64]),
    /// Several truth values.
    Bs(&'a [bool]),
    /// A text.
    S(&'static str),
    /// A number format.
    K(Kind),
}

/// Encodes an argument as a `StableIValue`, whose ownership passes to the callee.
fn encode(torch: &Loaded, kind: &Type, argument: &Argument<'_>) -> Result<u64, Failure> {
    let list = |values: &mut dyn ExactSizeIterator<Item = Result<u64, Failure>>| -> Result<u64, Failure> {
        let mut handle = null_mut();
        // SAFETY: the new handle is owned until it is passed on.
        check("list", unsafe { (torch.torch.torch_new_list_reserve_size)(values.len(), &raw mut handle) })?;
        for value in values {
            // SAFETY: the list is owned, and so is the value, which passes to the list.
            check("list", unsafe { (torch.torch.torch_list_push_back)(handle, value?) })?;
        }
        Ok(handle as u64)
    };
    let value = match (kind.base(), argument) {
        (_, Argument::None) if kind.is_optional() => return Ok(0),
        ("Tensor", Argument::T(tensor)) => tensor.duplicate()? as u64,
        ("Tensor[]", Argument::Ts(tensors)) => {
            list(&mut tensors.iter().map(|tensor| Ok(tensor.duplicate()? as u64)))?
        }
        ("int", Argument::I(value)) => *value as u64,
        ("float", Argument::F(value)) => value.to_bits(),
        ("bool", Argument::B(value)) => u64::from(*value),
        ("int[]", Argument::Is(values)) => list(&mut values.iter().map(|value| Ok(*value as u64)))?,
        ("bool[]", Argument::Bs(values)) => list(&mut values.iter().map(|value| Ok(u64::from(*value))))?,
        ("ScalarType", Argument::K(kind)) => u64::from(kind.code_in(torch).cast_unsigned()),
        ("str", Argument::S(text)) => {
            let mut handle = null_mut();
            // SAFETY: pointer and length of a text that outlives the call; the new handle is owned.
            let result = unsafe {
                (torch.torch.torch_new_string_handle)(text.as_ptr().cast(), text.len(), &raw mut handle)
            };
            check("string", result)?;
            handle as u64
        }
        (wanted, found) => return Err(bug(format!("argument {found:?} for {wanted}"))),
    };
    if !kind.is_optional() {
        return Ok(value);
    }
    let mut boxed: *mut u64 = null_mut();
    if let Some(newer) = torch.newer {
        // SAFETY: returns a pointer to one value, owned until it is passed on.
        check("optional", unsafe { (newer.torch_new_stable_ivalue)(&raw mut boxed) })?;
    } else {
        // Before 2.13 the callee frees with C++'s `delete` what the caller allocated with `new`, which are
        // `malloc` and `free` of the C library.
        boxed = malloc_value();
    }
    if boxed.is_null() {
        return Err(Failure::new(Code::Device, "out of memory"));
    }
    // SAFETY: valid for one value (both branches).
    unsafe { *boxed = value };
    Ok(boxed as u64)
}

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn _exit(code: c_int) -> !;
}

fn malloc_value() -> *mut u64 {
    // SAFETY: the C library's malloc, whose memory is aligned for any type of 8 bytes.
    unsafe { malloc(8).cast() }
}

/// Calls an operator, as `aten::mm.out`, with all arguments of its schema, in order. Returns its results
/// except those that alias an argument.
pub(crate) fn call(name: &str, arguments: &[Argument<'_>]) -> Result<Vec<Tensor>, Failure> {
    let torch = loaded()?;
    let schema = torch.operators.find(name).ok_or_else(|| bug(format!("`{name}` is not in the schemas")))?;
    if schema.arguments.len() != arguments.len() {
        let (found, expected) = (arguments.len(), schema.arguments.len());
        return Err(bug(format!("{name}: {found} arguments, expected {expected}")));
    }
    count_operation();
    let mut stack = Vec::with_capacity(arguments.len().max(schema.returns.len()));
    for (kind, argument) in schema.arguments.iter().zip(arguments) {
        stack.push(
            encode(torch, kind, argument)
                .map_err(|failure| Failure::new(failure.code, format!("{name}: {failure}")))?,
        );
    }
    stack.resize(stack.len().max(schema.returns.len()), 0);
    // SAFETY: two C strings; a stack with the arguments of the schema (the checks above), which the callee
    // replaces by the results, for which it has room.
    let result = unsafe {
        (torch.torch.aoti_torch_call_dispatcher)(
            schema.name.as_ptr(),
            schema.overload.as_ptr(),
            stack.as_mut_ptr(),
        )
    };
    check(name, result)?;
    let mut outputs = Vec::new();
    for (kind, value) in schema.returns.iter().zip(stack) {
        if kind.is_alias() {
            // Dropped: the caller has the tensor that it aliases.
            drop(Tensor::own(value as Handle, Storage::new(0), 0));
        } else if kind.is_view() {
            outputs.push(Tensor::own(value as Handle, Storage::new(0), 0));
        } else {
            outputs.push(Tensor::result(torch, value as Handle)?);
        }
    }
    trace::call(name, arguments, &outputs);
    Ok(outputs)
}

/// Computes cuDNN's causal attention of batch x heads x sequence x dim on a GPU. Returns its output, the
/// logarithms of its sums, and the two tensors of its random state. The dispatcher cannot return this
/// operator's results: see [`super::schemas`].
pub(crate) fn cudnn_attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<[Tensor; 4], Failure> {
    let torch = loaded()?;
    let attention = torch.kernels()?.aoti_torch_cuda__scaled_dot_product_cudnn_attention;
    count_operation();
    let mut tensors = [null_mut(); 7];
    let mut lengths = [0; 2];
    let [o, sums, starts_q, starts_k, seed, offset, mask] = tensors.each_mut().map(std::ptr::from_mut);
    let [longest_q, longest_k] = lengths.each_mut().map(std::ptr::from_mut);
    // SAFETY: handles are owned by live tensors; null stands for absent optional arguments; each result is
    // written to a place of its own.
    let result = unsafe {
        attention(
            q.handle,
            k.handle,
            v.handle,
            std::ptr::null(),
            1,
            0.0,
            1,
            0,
            std::ptr::null(),
            o,
            sums,
            starts_q,
            starts_k,
            longest_q,
            longest_k,
            seed,
            offset,
            mask,
        )
    };
    check("aten::_scaled_dot_product_cudnn_attention", result)?;
    let all = tensors.map(|handle| Tensor::result(torch, handle));
    let [o, sums, starts_q, starts_k, seed, offset, mask] = all;
    // Undefined: there are no documents, and no mask was asked for.
    drop((starts_q?, starts_k?, mask?));
    Ok([o?, sums?, seed?, offset?])
}

/// Returns the number of arguments of an operator in the loaded version.
pub(crate) fn count_arguments(name: &str) -> Result<usize, Failure> {
    let schema = loaded()?.operators.find(name);
    schema.map(|schema| schema.arguments.len()).ok_or_else(|| bug(format!("`{name}` is not in the schemas")))
}

functions!(Nccl {
    ncclGetVersion: fn(*mut c_int) -> c_int;
    ncclGetErrorString: fn(c_int) -> *const c_char;
    ncclGetUniqueId: fn(*mut UniqueId) -> c_int;
    ncclCommInitRank: fn(*mut Handle, c_int, UniqueId, c_int) -> c_int;
    ncclAllGather: fn(*const c_void, Handle, usize, c_int, Handle, Handle) -> c_int;
    ncclReduceScatter: fn(*const c_void, Handle, usize, c_int, c_int, Handle, Handle) -> c_int;
    ncclAllReduce: fn(*const c_void, Handle, usize, c_int, c_int, Handle, Handle) -> c_int;
    ncclCommGetAsyncError: fn(Handle, *mut c_int) -> c_int;
    ncclCommAbort: fn(Handle) -> c_int;
    ncclCommDestroy: fn(Handle) -> c_int;
});

functions!(Cudart {
    cudaSetDevice: fn(c_int) -> c_int;
    cudaSetDeviceFlags: fn(c_uint) -> c_int;
    cudaHostRegister: fn(*mut c_void, usize, c_uint) -> c_int;
    cudaGetLastError: fn() -> c_int;
    cudaStreamCreateWithFlags: fn(*mut Handle, c_uint) -> c_int;
    cudaStreamWaitEvent: fn(Handle, Handle, c_uint) -> c_int;
    cudaEventCreateWithFlags: fn(*mut Handle, c_uint) -> c_int;
    cudaEventRecord: fn(Handle, Handle) -> c_int;
    cudaEventQuery: fn(Handle) -> c_int;
    cudaDeviceGetAttribute: fn(*mut c_int, c_int, c_int) -> c_int;
    cudaMemGetInfo: fn(*mut usize, *mut usize) -> c_int;
    cudaMemsetAsync: fn(Handle, c_int, usize, Handle) -> c_int;
    cudaDeviceSynchronize: fn() -> c_int;
    cudaGetErrorString: fn(c_int) -> *const c_char;
});

/// NCCL's identification of a group that is being created.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId(pub [u8; 128]);

/// `ncclSum`.
const SUM: c_int = 0;
/// `cudaStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// `cudaDeviceScheduleBlockingSync`.
const BLOCKING_SYNC: c_uint = 4;
/// `cudaEventDisableTiming`.
const NO_TIMING: c_uint = 2;
/// `cudaErrorNotReady`.
const NOT_READY: c_int = 600;
/// `cudaDevAttrComputeCapabilityMajor`; the next is the minor one.
const CAPABILITY: c_int = 75;

/// Memory for collectives: a tensor whose storage its [`Links`] keep until their stream is idle.
#[derive(Debug)]
pub(crate) struct Buffer {
    tensor: Tensor,
    kind: Kind,
    /// The stream of the links that keep its storage; null if there are none.
    keeper: Handle,
}

impl Buffer {
    /// Allocates memory for the collectives of a single rank, which send nothing.
    pub(crate) fn alone(elements: usize, kind: Kind, place: Place) -> Result<Self, Failure> {
        let tensor = Tensor::empty(&[elements as i64], kind, place)?;
        Ok(Self { tensor, kind, keeper: null_mut() })
    }

    /// Returns its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.tensor.span * self.kind.bytes()
    }
}

impl Deref for Buffer {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

/// A collective in progress, with the buffers that it uses; [`Links::take`] returns them. What is dropped
/// instead stays allocated.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pending<B> {
    buffers: B,
    event: Option<Handle>,
}

impl<B> Pending<B> {
    /// Returns a collective that had nothing to send.
    pub(crate) fn done(buffers: B) -> Self {
        Self { buffers, event: None }
    }

    /// Returns the buffers of a collective that had nothing to send; of another one, they may be in use.
    pub(crate) fn into_buffers(self) -> Result<B, Failure> {
        if self.event.is_some() { Err(bug("a collective is not waited for")) } else { Ok(self.buffers) }
    }
}

/// An error code of a library, with the function that returned it.
fn failed(code: Code, function: &str, text: *const c_char) -> Failure {
    // SAFETY: both libraries return static texts.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    Failure::new(code, format!("{function}: {text}"))
}

/// Communicator of one group.
struct Communicator {
    handle: Handle,
    rank: usize,
    size: usize,
}

/// A group of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Ranks that share one copy of the parameters.
    Shard,
    /// Ranks that hold the same shard.
    Replica,
}

/// Groups that the rank's thread joins, as the watchdog sees them.
#[derive(Debug, Default)]
struct Joined {
    communicators: Vec<Handle>,
    /// Start of joining a group, while it lasts.
    since: Option<Instant>,
}

// SAFETY: NCCL allows ncclCommGetAsyncError and ncclCommAbort from any thread. `Links` joins the watchdog's
// thread before it destroys the communicators.
unsafe impl Send for Joined {}

/// Pointers that the watchdog thread uses.
#[derive(Clone)]
struct Watched {
    nccl: Nccl,
    cuda: Cudart,
    stream: Handle,
    /// Event that only the watchdog records.
    probe: Handle,
    joined: Arc<Mutex<Joined>>,
    limits: Limits,
}

// SAFETY: CUDA allows cudaEventRecord and cudaEventQuery from any thread. `Links` joins the thread before it
// destroys what the pointers refer to.
unsafe impl Send for Watched {}

/// Time limits of the watchdog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For one collective.
    pub collective: Duration,
    /// For joining one group.
    pub join: Duration,
}

/// Records why this process ends.
type Record = Arc<dyn Fn(&Failure) + Send + Sync>;

/// Time that the work of a GPU has to end after its rank has.
const LAST_WORK: Duration = Duration::from_secs(5);
/// Time that NCCL has to abort its communicators, which may wait for each other (NVIDIA/nccl #1013).
const ABORT: Duration = Duration::from_secs(2);

/// NCCL communicators of one rank, and the side stream on which their collectives run. Compute is on stream
/// 0, PyTorch's default.
pub(crate) struct Links {
    nccl: Nccl,
    cuda: Cudart,
    stream: Handle,
    /// Marks what compute had been issued when a collective starts.
    before: Handle,
    shard: Option<Communicator>,
    replica: Option<Communicator>,
    events: RefCell<Vec<Handle>>,
    kept: RefCell<Vec<Tensor>>,
    joined: Arc<Mutex<Joined>>,
    watchdog: Option<(Sender<()>, JoinHandle<()>)>,
    record: Option<Record>,
    /// First error of NCCL or CUDA.
    failure: RefCell<Option<Failure>>,
}

impl Drop for Links {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.watchdog.take() {
            drop(stop);
            let _ = thread.join();
        }
        if self.is_idle_within(LAST_WORK) {
            for communicator in [&self.shard, &self.replica].into_iter().flatten() {
                // SAFETY: the communicator is owned and not used again. The buffers are dropped after this.
                unsafe { (self.nccl.ncclCommDestroy)(communicator.handle) };
            }
        } else {
            // A collective waits for a peer that will never come, so that nothing of the GPU can be released.
            let stuck = || Failure::new(Code::Peer, "a collective did not end");
            let failure = self.failure.take().unwrap_or_else(stuck);
            if let Some(record) = self.record.take() {
                record(&failure);
                exit_process(failure.code);
            }
            // Without a record the caller is a test: its buffers stay allocated.
            std::mem::forget(self.kept.take());
        }
    }
}

impl Links {
    /// Loads NCCL and libcudart, by the names under which libtorch has loaded them or by paths, and creates
    /// the stream.
    pub(crate) fn load(nccl: &Path, cudart: &Path) -> Result<Self, Failure> {
        let (nccl, cudart) = (open(nccl)?, open(cudart)?);
        // SAFETY: NCCL 2 and CUDA's runtime 12 and 13 have these signatures. The libraries are never
        // unloaded.
        let (functions, cuda) = unsafe { (Nccl::lookup(&nccl)?, Cudart::lookup(&cudart)?) };
        // SAFETY: only a test double of NCCL has this function. It takes a pointer to a counter that lives as
        // long as this thread, on which it is read.
        if let Ok(watch) = unsafe { nccl.get::<unsafe extern "C" fn(*const u64)>(b"double_set_clock\0") } {
            ISSUED.with(|issued| unsafe { watch(issued.as_ptr()) });
        }
        std::mem::forget((nccl, cudart));
        let mut links = Self {
            nccl: functions,
            cuda,
            stream: null_mut(),
            before: null_mut(),
            shard: None,
            replica: None,
            events: RefCell::default(),
            kept: RefCell::default(),
            joined: Arc::default(),
            watchdog: None,
            record: None,
            failure: RefCell::default(),
        };
        // SAFETY: sets a flag, and writes one handle, which is owned.
        unsafe {
            // A rank that waits for its GPU leaves its core to the others.
            if (cuda.cudaSetDeviceFlags)(BLOCKING_SYNC) != 0 {
                (cuda.cudaGetLastError)();
            }
            links.cuda("cudaSetDevice", (cuda.cudaSetDevice)(0))?;
            let created = (cuda.cudaStreamCreateWithFlags)(&raw mut links.stream, NON_BLOCKING);
            links.cuda("cudaStreamCreateWithFlags", created)?;
        }
        links.before = links.event()?;
        Ok(links)
    }

    fn nccl(&self, function: &str, result: c_int) -> Result<(), Failure> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: returns a static text.
        Err(self.keep(failed(Code::Peer, function, unsafe { (self.nccl.ncclGetErrorString)(result) })))
    }

    /// Keeps the first failure, for a rank that cannot end by itself.
    fn keep(&self, failure: Failure) -> Failure {
        self.failure.borrow_mut().get_or_insert_with(|| failure.clone());
        failure
    }

    fn cuda(&self, function: &str, result: c_int) -> Result<(), Failure> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: returns a static text.
        Err(self.keep(failed(Code::Device, function, unsafe { (self.cuda.cudaGetErrorString)(result) })))
    }

    /// Returns NCCL's version, as 22907 for 2.29.7.
    pub(crate) fn version(&self) -> Result<i32, Failure> {
        let mut version = 0;
        // SAFETY: writes one number.
        self.nccl("ncclGetVersion", unsafe { (self.nccl.ncclGetVersion)(&raw mut version) })?;
        Ok(version)
    }

    /// Returns the compute capability of the GPU: major and minor.
    pub(crate) fn capability(&self) -> Result<(i32, i32), Failure> {
        let mut all = [0; 2];
        for (value, attribute) in all.iter_mut().zip(CAPABILITY..) {
            // SAFETY: writes one number.
            let result = unsafe { (self.cuda.cudaDeviceGetAttribute)(value, attribute, 0) };
            self.cuda("cudaDeviceGetAttribute", result)?;
        }
        Ok((all[0], all[1]))
    }

    /// Locks memory that is never freed, so that the GPU copies into it at the speed of its bus. Where that
    /// is not possible, copies are slower.
    #[expect(clippy::mut_mut, reason = "the memory itself is replaced")]
    pub(crate) fn pin(&self, memory: &mut &'static mut [f32]) {
        // SAFETY: the memory lives as long as the process. An error is not left for PyTorch to find.
        unsafe {
            if (self.cuda.cudaHostRegister)(memory.as_mut_ptr().cast(), size_of_val(&**memory), 0) != 0 {
                (self.cuda.cudaGetLastError)();
            }
        }
    }

    /// Returns the free memory of the GPU in bytes.
    pub(crate) fn free_memory(&self) -> Result<usize, Failure> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        let result = unsafe { (self.cuda.cudaMemGetInfo)(&raw mut free, &raw mut total) };
        self.cuda("cudaMemGetInfo", result)?;
        Ok(free)
    }

    /// Returns an identification for a new group. The group's first rank calls it and sends it to the others.
    pub(crate) fn unique_id(&self) -> Result<UniqueId, Failure> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: writes 128 bytes.
        self.nccl("ncclGetUniqueId", unsafe { (self.nccl.ncclGetUniqueId)(&raw mut id) })?;
        Ok(id)
    }

    /// Creates this rank's communicator of a group. Returns when all ranks of the group have called it.
    pub(crate) fn join(
        &mut self,
        group: Group,
        size: usize,
        rank: usize,
        id: UniqueId,
    ) -> Result<(), Failure> {
        let mut handle = null_mut();
        lock(&self.joined).since = Some(Instant::now());
        // SAFETY: writes one handle, which is owned.
        let result =
            unsafe { (self.nccl.ncclCommInitRank)(&raw mut handle, size as c_int, id, rank as c_int) };
        lock(&self.joined).since = None;
        self.nccl("ncclCommInitRank", result)?;
        lock(&self.joined).communicators.push(handle);
        let communicator = Some(Communicator { handle, rank, size });
        match group {
            Group::Shard => self.shard = communicator,
            Group::Replica => self.replica = communicator,
        }
        Ok(())
    }

    fn communicator(&self, group: Group) -> Result<&Communicator, Failure> {
        let communicator = match group {
            Group::Shard => &self.shard,
            Group::Replica => &self.replica,
        };
        communicator.as_ref().ok_or_else(|| bug(format!("no communicator of the {group:?} group")))
    }

    /// Allocates memory for collectives.
    pub(crate) fn buffer(&self, elements: usize, kind: Kind, place: Place) -> Result<Buffer, Failure> {
        let buffer = Buffer { keeper: self.stream, ..Buffer::alone(elements, kind, place)? };
        self.kept.borrow_mut().push(buffer.alias()?);
        Ok(buffer)
    }

    fn event(&self) -> Result<Handle, Failure> {
        if let Some(event) = self.events.borrow_mut().pop() {
            return Ok(event);
        }
        let mut event = null_mut();
        // SAFETY: writes one handle, which is owned.
        let result = unsafe { (self.cuda.cudaEventCreateWithFlags)(&raw mut event, NO_TIMING) };
        self.cuda("cudaEventCreateWithFlags", result)?;
        Ok(event)
    }

    /// The one place where a collective starts: on the side stream, after all compute issued so far.
    fn launch<B>(
        &self,
        buffers: B,
        function: &str,
        start: impl FnOnce(&B) -> Result<c_int, Failure>,
    ) -> Result<Pending<B>, Failure> {
        // SAFETY: events and streams are owned and alive.
        unsafe {
            self.cuda("cudaEventRecord", (self.cuda.cudaEventRecord)(self.before, null_mut()))?;
            let waits = (self.cuda.cudaStreamWaitEvent)(self.stream, self.before, 0);
            self.cuda("cudaStreamWaitEvent", waits)?;
        }
        self.nccl(function, start(&buffers)?)?;
        for communicator in [&self.shard, &self.replica].into_iter().flatten() {
            let mut error = 0;
            // SAFETY: the communicator is owned and alive; writes one number.
            let asked = unsafe { (self.nccl.ncclCommGetAsyncError)(communicator.handle, &raw mut error) };
            self.nccl("ncclCommGetAsyncError", asked)?;
            self.nccl("NCCL", error)?;
        }
        let event = self.event()?;
        // SAFETY: as above.
        self.cuda("cudaEventRecord", unsafe { (self.cuda.cudaEventRecord)(event, self.stream) })?;
        Ok(Pending { buffers, event: Some(event) })
    }

    /// The one place where compute waits for a collective: all compute issued later sees its result.
    pub(crate) fn take<B>(&self, pending: Pending<B>) -> Result<B, Failure> {
        if let Some(event) = pending.event {
            // SAFETY: the event is owned and alive; stream 0 always exists.
            let waits = unsafe { (self.cuda.cudaStreamWaitEvent)(null_mut(), event, 0) };
            self.cuda("cudaStreamWaitEvent", waits)?;
            self.events.borrow_mut().push(event);
        }
        Ok(pending.buffers)
    }

    /// Checks that these links keep a buffer, and that it has `n` elements of a format that NCCL sends.
    /// Returns NCCL's number of the format and the bytes of an element.
    fn sendable(&self, buffer: &Buffer, n: usize) -> Result<(c_int, usize), Failure> {
        let fits = buffer.keeper == self.stream && n <= buffer.tensor.span;
        let kind = buffer.kind.nccl().filter(|_| fits);
        let kind = kind.ok_or_else(|| bug(format!("{n} elements of a buffer of {}", buffer.tensor.span)))?;
        Ok((kind, buffer.kind.bytes()))
    }

    /// Starts gathering `n` elements of each rank of the group; this rank's are at its place in the buffer.
    pub(crate) fn gather(&self, full: Buffer, n: usize) -> Result<Pending<Buffer>, Failure> {
        let communicator = self.communicator(Group::Shard)?;
        let (kind, bytes) = self.sendable(&full, n * communicator.size)?;
        self.launch(full, "ncclAllGather", |full| {
            let to = full.pointer()?;
            // SAFETY: the buffer has n elements for each rank (`sendable`) and is kept by `self`. NCCL allows
            // a rank's own part to be sent from its place in the result.
            Ok(unsafe {
                let from = to.cast::<u8>().add(communicator.rank * n * bytes);
                (self.nccl.ncclAllGather)(from.cast(), to, n, kind, communicator.handle, self.stream)
            })
        })
    }

    /// Starts summing `full` over the group's ranks; each receives the sum of its own `n` elements in `part`.
    pub(crate) fn reduce_scatter(
        &self,
        full: Buffer,
        part: Buffer,
        n: usize,
    ) -> Result<Pending<(Buffer, Buffer)>, Failure> {
        let communicator = self.communicator(Group::Shard)?;
        let (kind, _) = self.sendable(&full, n * communicator.size)?;
        if self.sendable(&part, n)?.0 != kind {
            return Err(bug("a sum has a different format than its parts"));
        }
        self.launch((full, part), "ncclReduceScatter", |(full, part)| {
            let (from, to) = (full.pointer()?, part.pointer()?);
            // SAFETY: `full` has n elements for each rank and `part` n (`sendable`), and both are kept by
            // `self`.
            Ok(unsafe {
                (self.nccl.ncclReduceScatter)(from, to, n, kind, SUM, communicator.handle, self.stream)
            })
        })
    }

    /// Starts summing the first `n` elements over the group's ranks, in place.
    pub(crate) fn all_reduce(
        &self,
        group: Group,
        values: Buffer,
        n: usize,
    ) -> Result<Pending<Buffer>, Failure> {
        let communicator = self.communicator(group)?;
        let (kind, _) = self.sendable(&values, n)?;
        self.launch(values, "ncclAllReduce", |values| {
            let at = values.pointer()?;
            // SAFETY: the buffer has n elements (`sendable`) and is kept by `self`. NCCL allows the sum in
            // place.
            Ok(unsafe { (self.nccl.ncclAllReduce)(at, at, n, kind, SUM, communicator.handle, self.stream) })
        })
    }

    /// Waits for all work of the GPU.
    pub(crate) fn synchronise(&self) -> Result<(), Failure> {
        // SAFETY: no arguments.
        self.cuda("cudaDeviceSynchronize", unsafe { (self.cuda.cudaDeviceSynchronize)() })
    }

    /// Waits for all work, and frees the memory of buffers that were dropped.
    pub(crate) fn release(&self) -> Result<(), Failure> {
        self.synchronise()?;
        // No collective is in progress, and of these buffers nothing but the reference here is left.
        self.kept.borrow_mut().retain(|tensor| Rc::strong_count(&tensor.storage) > 1);
        Ok(())
    }

    /// Keeps the side stream busy by writing a buffer `times` times.
    pub(crate) fn write_repeatedly(&self, buffer: &Buffer, times: usize) -> Result<(), Failure> {
        self.sendable(buffer, 0)?;
        for _ in 0..times {
            let (to, bytes) = (buffer.pointer()?, buffer.bytes());
            // SAFETY: the buffer has these bytes and is kept by `self`.
            let result = unsafe { (self.cuda.cudaMemsetAsync)(to, 0, bytes, self.stream) };
            self.cuda("cudaMemsetAsync", result)?;
        }
        Ok(())
    }

    /// Returns whether all work of the GPU ends within `limit`.
    fn is_idle_within(&self, limit: Duration) -> bool {
        let began = Instant::now();
        // The side stream first: its work may wait for compute, and compute for it.
        for stream in [self.stream, null_mut()] {
            // SAFETY: event and stream are owned and alive. An error, for which nothing more can be done, is
            // not "not ready".
            unsafe {
                (self.cuda.cudaEventRecord)(self.before, stream);
                while (self.cuda.cudaEventQuery)(self.before) == NOT_READY {
                    if began.elapsed() > limit {
                        return false;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
        true
    }

    /// Starts a thread that ends this process if joining a group or work on the side stream takes too long, a
    /// communicator reports an error, or `check` finds a failure. `record` notes the failure first. The
    /// communicators are aborted, so that no peer waits for this rank, as far as NCCL allows it. Must be
    /// called before [`Links::join`].
    pub(crate) fn watch(
        &mut self,
        limits: Limits,
        check: impl Fn() -> Result<(), Failure> + Send + 'static,
        record: impl Fn(&Failure) + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        let watched = Watched {
            nccl: self.nccl,
            cuda: self.cuda,
            stream: self.stream,
            probe: self.event()?,
            joined: Arc::clone(&self.joined),
            limits,
        };
        let record: Record = Arc::new(record);
        self.record = Some(Arc::clone(&record));
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let watched = watched;
            let mut since: Option<Instant> = None;
            // SAFETY: sets the device of this thread.
            unsafe { (watched.cuda.cudaSetDevice)(0) };
            while stopped.recv_timeout(Duration::from_millis(250)) == Err(RecvTimeoutError::Timeout) {
                if let Err(failure) = check().and_then(|()| watched.find_error(&mut since)) {
                    record(&failure);
                    watched.abort();
                    exit_process(failure.code);
                }
            }
        });
        self.watchdog = Some((stop, thread));
        Ok(())
    }
}

impl Watched {
    /// Looks for a group that is not joined in time, for an error of a communicator, and for work of the side
    /// stream that takes too long: the probe is recorded on the stream again and again, and is done when all
    /// work before it is.
    fn find_error(&self, since: &mut Option<Instant>) -> Result<(), Failure> {
        let peer = |message: String| Err(Failure::new(Code::Peer, message));
        let joined = lock(&self.joined);
        if let Some(began) = joined.since {
            // Nothing is on the stream before all groups are joined.
            if began.elapsed() <= self.limits.join {
                return Ok(());
            }
            let seconds = self.limits.join.as_secs_f64();
            return peer(format!(
                "NCCL did not connect all ranks within {seconds} s: check that hosts can reach \
                    each other over NCCL_SOCKET_IFNAME and EFA, and run with NCCL_DEBUG=INFO"
            ));
        }
        for communicator in &joined.communicators {
            let mut error = 0;
            // SAFETY: the communicator is alive until the thread is joined; writes one number.
            unsafe {
                (self.nccl.ncclCommGetAsyncError)(*communicator, &raw mut error);
                if error != 0 {
                    return Err(failed(Code::Peer, "NCCL", (self.nccl.ncclGetErrorString)(error)));
                }
            }
        }
        drop(joined);
        // SAFETY: event and stream are alive until the thread is joined.
        match since {
            Some(began) if unsafe { (self.cuda.cudaEventQuery)(self.probe) } == NOT_READY => {
                if began.elapsed() > self.limits.collective {
                    let seconds = self.limits.collective.as_secs_f64();
                    return peer(format!("a collective took more than {seconds} s"));
                }
            }
            _ => {
                // SAFETY: as above.
                unsafe { (self.cuda.cudaEventRecord)(self.probe, self.stream) };
                *since = Some(Instant::now());
            }
        }
        Ok(())
    }

    /// Aborts the communicators, and waits for it for a short time.
    fn abort(&self) {
        let (done, ended) = channel::<()>();
        let (joined, abort) = (Arc::clone(&self.joined), self.nccl.ncclCommAbort);
        std::thread::spawn(move || {
            for communicator in &lock(&joined).communicators {
                // SAFETY: the communicator is alive, since the process ends after this.
                unsafe { abort(*communicator) };
            }
            drop(done);
        });
        let _ = ended.recv_timeout(ABORT);
    }
}

fn lock(joined: &Mutex<Joined>) -> std::sync::MutexGuard<'_, Joined> {
    joined.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process without the destructors of libtorch and CUDA, which would wait for a GPU that never ends
/// its work.
fn exit_process(code: Code) -> ! {
    // SAFETY: the C library's function, which does not return.
    unsafe { _exit(code as c_int) }
}

/// Returns a C string of a text without NUL.
pub(super) fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}
