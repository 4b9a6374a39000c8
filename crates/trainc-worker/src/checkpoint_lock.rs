//! One run at a time in a directory of checkpoints. The lock is the kernel's (flock) on the directory itself: it goes with
//! the process that holds it, however that ends, and leaves no file.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::console;
use crate::exit::{Code, Failure};

/// Held as long as it lives.
#[derive(Debug)]
pub(crate) struct CheckpointLock {
    _directory: Option<File>,
}

impl CheckpointLock {
    /// Takes it, or says that another run has it. A file system without such locks is worth a warning, no more; what is
    /// wrong with a directory is said by whoever writes there.
    pub(crate) fn acquire(directory: &Path) -> Result<Self, Failure> {
        let opened = std::fs::create_dir_all(directory).and_then(|()| File::open(directory));
        let Ok(file) = opened else { return Ok(Self { _directory: None }) };
        match file.try_lock() {
            Ok(()) => Ok(Self { _directory: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                Code::Checkpoint,
                format!(
                    "`checkpoint.directory` {}: another run is using it; wait for its end, or name another directory",
                    directory.display()
                ),
            )),
            Err(TryLockError::Error(error)) => {
                console::stderr(format_args!(
                    "warning: {} cannot be locked ({error}): see that no other run uses it",
                    directory.display()
                ));
                Ok(Self { _directory: None })
            }
        }
    }
}
