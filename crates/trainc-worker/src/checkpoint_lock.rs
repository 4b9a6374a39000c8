//! Lock that allows one run at a time per checkpoint directory. It is a kernel lock (flock) on the directory
//! itself, which is released when the process ends and leaves no file.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::console;
use crate::exit::{Code, Failure};

/// A lock that is held until dropped.
#[derive(Debug)]
pub(crate) struct CheckpointLock {
    _directory: Option<File>,
}

impl CheckpointLock {
    /// Acquires the lock, or fails if another run holds it. A file system without locks only causes a
    /// warning; errors of the directory are reported by the code that writes to it.
    pub(crate) fn acquire(directory: &Path) -> Result<Self, Failure> {
        let opened = std::fs::create_dir_all(directory).and_then(|()| File::open(directory));
        let Ok(file) = opened else { return Ok(Self { _directory: None }) };
        match file.try_lock() {
            Ok(()) => Ok(Self { _directory: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                Code::Checkpoint,
                format!(
                    "`checkpoint.directory` {}: another run is using it; wait until it ends, or \
                        choose another directory",
                    directory.display()
                ),
            )),
            Err(TryLockError::Error(error)) => {
                console::print_stderr(format_args!(
                    "warning: {} cannot be locked ({error}): make sure that no other run uses it",
                    directory.display()
                ));
                Ok(Self { _directory: None })
            }
        }
    }
}
