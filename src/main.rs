//! The `trainc` binary: calls the library's command line and exits with its code.

/// A compiler makes many small trees: this allocator takes less of the time than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    trainc::cli::main()
}
