//! The `trainc` binary: calls the library's command line and exits with its code.

fn main() -> std::process::ExitCode {
    trainc::cli::main()
}
